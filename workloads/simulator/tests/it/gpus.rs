//! Functions that share GPUs: epoch times, use and memory from the stated curve.

use crate::support::*;
use epochcost_simulator::profile::{GpuModel, Profile};
use epochcost_simulator::{Limit, Options, Simulation, simulate};
use epochcost_systems::Record;
use serde_json::json;

const BATCHES: usize = 5;

/// An epoch of 8 functions, so many on a GPU, whose step of 4 samples launches for 10 ms and
/// keeps its GPU busy for `busy_s`.
fn kubeml(functions: f64, busy_s: f64) -> Simulation {
    let mut profile = Profile::ideal();
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

fn use_of_gpus(simulation: &Simulation) -> Vec<f64> {
    let share = |record: Record| match record {
        Record::Gpu(usage) => Some(usage.utilisation),
        _ => None,
    };
    run(simulation)
        .records
        .into_iter()
        .filter_map(share)
        .collect()
}

#[test]
fn epochs_and_use_follow_from_the_curve_with_8_functions_on_2_gpus() {
    for busy_s in [0.001, 0.003, 0.01, 0.1] {
        for functions in [1.0, 2.0, 4.0, 8.0] {
            let simulation = kubeml(functions, busy_s);
            let step_s = (0.01 + busy_s).max(functions * busy_s);
            let (found, expected) = (run(&simulation).wall_s, BATCHES as f64 * step_s);
            assert!((found - expected).abs() < 1e-6, "{found} for {expected}");
            let used = use_of_gpus(&simulation);
            assert_eq!(used.len(), 8 / functions as usize);
            for used in used {
                let expected = functions * busy_s / step_s;
                assert!((used - expected).abs() < 1e-4, "{used} for {expected}");
            }
        }
    }
}

/// One replica per GPU within one machine: the process of rank 0 keeps all busy.
#[test]
fn replicas_within_one_machine_use_a_gpu_each() {
    let mut simulation = kubeml(4.0, 0.01);
    simulation.job = job("mirrored", 3, BATCHES, json!({}));
    let used = use_of_gpus(&simulation);
    assert_eq!(used.len(), 3);
    assert!(
        used.iter().all(|share| (share - 0.5).abs() < 1e-4),
        "{used:?}"
    );
}

#[test]
fn models_that_do_not_fit_on_their_gpu_are_infeasible() {
    // Each needs 100 MB, 4 of its samples and 46 MB of context: 150 of 1,000.
    for (functions, fits) in [(4.0, true), (8.0, false)] {
        let mut simulation = kubeml(functions, 0.01);
        simulation.has_limits = true;
        let hit = simulate(&simulation, Options::default())
            .unwrap()
            .infeasible;
        assert_eq!(hit.is_none(), fits, "{hit:?}");
        if let Some(hit) = hit {
            assert_eq!(hit.limit, Limit::Memory);
            assert!(
                hit.reason.contains("8 functions on GPU 0 need 1200 MB"),
                "{}",
                hit.reason
            );
        }
    }
}
