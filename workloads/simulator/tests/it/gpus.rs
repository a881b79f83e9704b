//! Functions that share GPUs: epoch times, use and memory from the stated curve.

use epochcost_channels::Traffic;
use epochcost_simulator::profile::GpuModel;
use epochcost_simulator::{Limit, Simulated, Simulation};
use epochcost_systems::Record;
use serde_json::json;

use crate::support::*;

const BATCHES: usize = 5;

/// An epoch of 8 functions, so many on a GPU, whose step of 4 samples launches for 10 ms and
/// keeps its GPU busy for `busy_s`.
fn kubeml(functions: f64, busy_s: f64) -> Simulation {
    let mut profile = ideal();
    profile.function.gpu = Some(GpuModel {
        functions,
        memory_mb: 1000.0,
        context_mb: 46.0,
    });
    let job = job("kubeml", 8, BATCHES, json!({"document_samples": 4}));
    let mut simulation = simulation(job, 1_000, &profile, 0.01);
    simulation.cost.sample_s = busy_s / 4.0;
    simulation
}

/// Asserts that so many GPUs are in use for a share of the time.
#[track_caller]
fn assert_used(simulation: &Simulation, gpus: usize, share: f64, within: f64) {
    let records = run(simulation).records.into_iter();
    let used = records.filter_map(|record| match record {
        Record::Gpu(usage) => Some(usage.utilisation),
        _ => None,
    });
    let used: Vec<f64> = used.collect();
    assert_eq!(used.len(), gpus);
    for used in used {
        assert_near(used, share, within, "use of a GPU");
    }
}

#[test]
fn epochs_and_use_follow_from_the_curve_with_8_functions_on_2_gpus() {
    for busy_s in [0.001, 0.003, 0.01, 0.1] {
        for functions in [1.0, 2.0, 4.0, 8.0] {
            let simulation = kubeml(functions, busy_s);
            let step_s = (0.01 + busy_s).max(functions * busy_s);
            let (found, expected) = (run(&simulation).wall_s, BATCHES as f64 * step_s);
            assert_near(found, expected, 1e-6, "seconds of an epoch");
            let gpus = 8 / functions as usize;
            assert_used(&simulation, gpus, functions * busy_s / step_s, 1e-4);
        }
    }
}

/// One replica per GPU within one machine: the process of rank 0 keeps all busy.
#[test]
fn replicas_within_one_machine_use_a_gpu_each() {
    let mut simulation = kubeml(4.0, 0.01);
    simulation.job = job("mirrored", 3, BATCHES, json!({}));
    assert_used(&simulation, 3, 0.5, 1e-4);
}

#[test]
fn models_that_do_not_fit_on_their_gpu_are_infeasible() {
    // Each needs 100 MB, 4 of its samples and 46 MB of context: 8 are 1,200.
    for (memory_mb, fits) in [(1_200.0, true), (1_199.0, false)] {
        let mut simulation = kubeml(8.0, 0.01);
        simulation.has_limits = true;
        simulation.profile.function.gpu.as_mut().unwrap().memory_mb = memory_mb;
        let hit = outcome(&simulation).infeasible;
        assert_eq!(hit.is_none(), fits, "{hit:?}");
        if let Some(hit) = hit {
            assert_eq!(hit.limit, Limit::Memory);
            let told = "8 functions on GPU 0 need 1200 MB";
            assert!(hit.reason.contains(told), "{}", hit.reason);
        }
    }
}

/// What a training sent and received, without polls and listings, which depend on times.
fn sent(simulated: &Simulated) -> [Traffic; 3] {
    counts(simulated).map(|counts| Traffic { lists: 0, ..counts })
}

/// With n trainings at once a step of functions takes max(t, n · busy), and one on instances, which are
/// each training's own, as long as alone.
#[test]
fn trainings_at_once_share_the_gpus_of_functions() {
    let mirrored = job("mirrored", 3, BATCHES, json!({}));
    for busy_s in [0.001, 0.01, 0.1] {
        for jobs in [1, 2, 4] {
            let of_functions = kubeml(2.0, busy_s);
            let of_replicas = Simulation {
                job: mirrored.clone(),
                ..kubeml(2.0, busy_s)
            };
            for (alone, each) in [(of_functions, 2.0 * jobs as f64), (of_replicas, 1.0)] {
                let at_once = Simulation {
                    jobs,
                    ..alone.clone()
                };
                let step_s = alone.cost.step_s(4, 1.0).max(each * busy_s);
                let expected = BATCHES as f64 * step_s;
                let (alone, found) = (run(&alone), run(&at_once));
                assert_near(found.wall_s, expected, 1e-6, "seconds of an epoch");
                assert_eq!(sent(&found), sent(&alone));
                assert_eq!(found.invocations.len(), alone.invocations.len());
            }
        }
    }
}

/// Of every system: as alone where servers have room for all, and longer where they do not.
#[test]
fn trainings_at_once_share_their_servers() {
    for system in SYSTEMS {
        let with = |jobs, server_bytes_per_s| {
            let mut profile = ideal();
            for service in services(&mut profile) {
                service.server_bytes_per_s = server_bytes_per_s;
            }
            let job = job(system, 4, BATCHES, json!({}));
            let alone = simulation(job, 100_000, &profile, 0.01);
            run(&Simulation { jobs, ..alone })
        };
        let [alone, at_once] = [1, 3].map(|jobs| with(jobs, None));
        let more_s = at_once.wall_s - alone.wall_s;
        // What happens at one instant has no order: peers may look once more.
        let look_s = if system.starts_with("p2p") { 0.1 } else { 0.0 };
        assert!(more_s.abs() < look_s + 1e-6, "{system}: {more_s}");
        assert_eq!(sent(&alone), sent(&at_once), "{system}");
        let [narrow, shared] = [1, 3].map(|jobs| with(jobs, Some(1e7)).wall_s);
        assert!(shared > 1.5 * narrow, "{system}: {shared} against {narrow}");
    }
}

/// Memory of all trainings counts.
#[test]
fn trainings_that_do_not_fit_on_a_gpu_together_are_infeasible() {
    for (jobs, fits) in [(1, true), (2, false)] {
        let mut simulation = kubeml(4.0, 0.01);
        (simulation.has_limits, simulation.jobs) = (true, jobs);
        let hit = outcome(&simulation).infeasible;
        assert_eq!(hit.is_none(), fits, "{hit:?}");
    }
}

/// A GPU is busy while it takes vectors, those of all replicas alike.
#[test]
fn optimizer_steps_keep_gpus_busy() {
    let job = job("mirrored", 2, 3, json!({}));
    let mut simulation = simulation(job, 1_000_000, &ideal(), 0.5);
    // A launch of half a second, in which the GPU waits; then 8 passes over 4 MB.
    simulation.cost.vector_bytes_per_s = Some(64e6);
    assert_used(&simulation, 2, 0.5, 1e-6);
}

/// Optimizer steps, and sums between the GPUs of one machine or of a ring, are taken in their memory;
/// what came from a store is added up on the CPU.
#[test]
fn vectors_that_never_leave_a_gpu_take_its_memory_s_time() {
    const PARAMETERS: usize = 1_000_000;
    let wall_s = |system: &str, workers: usize, device: Option<f64>| {
        let mut profile = ideal();
        profile.instance.arithmetic_bytes_per_s = 1e9;
        let job = job(system, workers, 3, json!({}));
        let mut simulation = simulation(job, PARAMETERS, &profile, 0.5);
        simulation.cost.vector_bytes_per_s = device;
        run(&simulation).wall_s
    };
    let passes = |system: &str, workers: usize| match (system, workers) {
        // The mean reads all gradients and writes one; a step makes five passes.
        ("mirrored", _) => (workers + 1 + 5) as f64,
        ("ring", 1) | ("gpu_baseline", _) => 5.0,
        // The sums of its own chunks, one division and the chunks put together.
        _ => 5.0 + (3 * (workers - 1) + 2) as f64 / workers as f64 + 2.0,
    };
    for system in ["mirrored", "ring", "gpu_baseline"] {
        for workers in [1, 2, 4] {
            let gained = wall_s(system, workers, None) - wall_s(system, workers, Some(1e11));
            let bytes = 3.0 * 4.0 * PARAMETERS as f64 * passes(system, workers);
            let expected = bytes * (1e-9 - 1e-11);
            assert_near(gained, expected, 1e-6, &format!("{system}, {workers}"));
        }
    }
}
