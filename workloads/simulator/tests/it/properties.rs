//! Properties of all systems: determinism, scaling with bandwidth, and no surprise from 2 to 4,096
//! workers.

use epochcost_simulator::profile::Profile;
use epochcost_simulator::{Invocation, Options, Simulated, Simulation, SimulationError, simulate};
use epochcost_systems::{find_model, systems};
use serde_json::{Value, json};

use crate::support::{assert_near, ideal, job, run, shipped, simulation};

/// Pause between two polls of the systems that wait for objects, seconds.
const POLL_S: f64 = 0.1;

/// Settings with which a job of the tests fits a system.
fn settings(system: &str) -> Value {
    match system {
        // Documents of 64 samples would be more than a worker has.
        "kubeml" => json!({"document_samples": 4}),
        "allreduce" | "lambdaml_allreduce" => json!({"merged_timeout_s": null}),
        _ => json!({}),
    }
}

/// One epoch of a small model; KubeML's tensors are those of a known one.
fn small(
    system: &str,
    workers: usize,
    batches: usize,
    settings: Value,
    profile: &Profile<f64>,
) -> Simulation {
    let job = job(system, workers, batches, settings);
    let mut small = simulation(job, 10_000, profile, 0.1);
    if system == "kubeml" {
        let model = find_model("lenet5").unwrap();
        (small.job.model, small.sizes) = (model.name.into(), model.sizes);
    }
    small
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let shipped = shipped("aws-us-east-1-2024");
    for system in systems().iter().map(|system| system.name()) {
        let of = |seed| {
            let profile = shipped.sampled(seed);
            let simulated = run(&small(system, 4, 2, settings(system), &profile));
            (simulated.wall_s, serde_json::to_vec(&simulated).unwrap())
        };
        assert_eq!(of(3), of(3), "{system}");
        assert_ne!(of(3).0, of(4).0, "{system}");
    }
}

/// With bandwidth alone, half of the time stays where it is doubled, up to one poll per wait.
#[test]
fn double_bandwidth_halves_transfers_within_one_poll() {
    let (workers, parameters) = (8, 2_000_000);
    for system in [
        "allreduce",
        "scatterreduce",
        "gpu_baseline",
        "lambdaml_async",
        "mlless",
    ] {
        let synchronise_s = |bytes_per_s: f64| {
            let mut profile = ideal();
            profile.object_store.service.stream_bytes_per_s = bytes_per_s;
            let job = job(system, workers, 1, settings(system));
            let simulated = run(&simulation(job, parameters, &profile, 0.1));
            let seconds = simulated.totals.seconds.values();
            let all: f64 = seconds.map(|seconds| seconds.synchronise()).sum();
            all / workers as f64
        };
        let mut slower = synchronise_s(2e6);
        for factor in [2.0, 4.0, 8.0] {
            let faster = synchronise_s(2e6 * factor);
            assert_near(faster, slower / 2.0, POLL_S * (1.0 + 1e-9), system);
            slower = faster;
        }
    }
}

fn outcome(simulation: &Simulation) -> Result<Simulated, SimulationError> {
    let options = Options {
        classes_above: Some(256),
        ..Options::default()
    };
    simulate(simulation, options)
}

fn assert_sane(simulated: &Simulated, name: &str) {
    assert_eq!(simulated.failure, None, "{name}");
    assert_eq!(simulated.infeasible, None, "{name}");
    let value = serde_json::to_value(simulated).unwrap();
    let mut open = vec![&value];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => open.extend(fields.values()),
            // A number that is not finite is written as null.
            Value::Number(number) => assert!(number.as_f64().unwrap() >= -1e-9, "{name}: {number}"),
            _ => {}
        }
    }
    let wall_s = simulated.wall_s;
    assert!(wall_s.is_finite() && wall_s > 0.0, "{name}: {wall_s}");
}

/// Neighbouring sizes differ by little, also where representatives begin, and no size fails.
#[test]
fn from_2_to_4096_workers_nothing_fails_or_jumps() {
    let profile = shipped("aws-us-east-1").values();
    std::thread::scope(|scope| {
        for system in systems().iter().map(|system| system.name()) {
            let profile = &profile;
            scope.spawn(move || {
                let lists = system.contains("scatterreduce");
                let of = |workers, settings| outcome(&small(system, workers, 1, settings, profile));
                let settings = |workers: usize| {
                    if lists && workers > 100 {
                        json!({"finds_by": "name"})
                    } else {
                        settings(system)
                    }
                };
                for workers in [2, 16, 64, 256, 1000, 4095] {
                    let next = workers + 1;
                    let name = format!("{system} with {workers} and {next}");
                    let both = [workers, next].map(|workers| {
                        let simulated = of(workers, settings(workers)).unwrap();
                        assert_sane(&simulated, &name);
                        simulated.wall_s
                    });
                    // Small groups differ by a whole worker, large ones by rounding to polls and
                    // by a page of 1,000 keys.
                    let most = 1.06 * (next as f64 / workers as f64).powi(2);
                    assert!(both[1] <= both[0] * most, "{name}: {both:?} s");
                    assert!(both[1] >= both[0] * 0.94, "{name}: {both:?} s");
                }
                if lists {
                    let refused = of(4096, json!({})).map(|simulated| simulated.wall_s);
                    let is_told = matches!(refused, Err(SimulationError::TooMany { .. }));
                    assert!(is_told, "{system}");
                }
            });
        }
    });
}

/// What is kept of invocations that are billed alike is billed as all of them, and does not grow with
/// their number.
#[test]
fn merged_invocations_are_billed_as_all_of_them() {
    let profile = shipped("aws-us-east-1").values();
    let with = |simulation: &Simulation, merges_invocations| {
        let options = Options {
            merges_invocations,
            ..Options::default()
        };
        simulate(simulation, options).unwrap()
    };
    for system in systems().iter().map(|system| system.name()) {
        let mut small = small(system, 12, 2, settings(system), &profile);
        small.job.epochs = 2;
        let [all, merged] = [false, true].map(|merges| with(&small, merges));
        let calls = [&all, &merged].map(|one| &one.invocations);
        let sums = |of: fn(&Invocation) -> f64| {
            calls.map(|calls| calls.iter().map(|call| call.alike as f64 * of(call)).sum())
        };
        for [one, other] in [
            sums(|_| 1.0),
            sums(|call| call.duration_s),
            sums(|call| call.init_s.unwrap_or(0.0)),
        ] {
            let one: f64 = one;
            assert_near(one, other, 1e-9 * one.max(1.0), system);
        }
        let peaks = calls.map(|calls| {
            let peaks = calls.iter().map(|call| call.peak_memory_mb);
            peaks.fold(0.0, f64::max)
        });
        assert_eq!(peaks[0], peaks[1], "{system}");
        assert!(calls[1].len() <= calls[0].len(), "{system}");
        assert_eq!(all.wall_s, merged.wall_s, "{system}");
        assert_eq!(all.totals, merged.totals, "{system}");
    }
    let asynchronous = |workers: usize| {
        let small = small("lambdaml_async", workers, 1, json!({}), &profile);
        with(&small, true).invocations.len()
    };
    assert_eq!(asynchronous(10), asynchronous(1000));
}
