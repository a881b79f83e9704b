//! Properties of all systems: determinism, scaling with bandwidth, and no surprise from 2 to 4,096
//! workers.

use epochcost_simulator::profile::Profile;
use epochcost_simulator::{Options, Simulated, Simulation, SimulationError, simulate};
use epochcost_systems::{find_model, systems};
use serde_json::{Value, json};

use crate::support::{ideal, job, run, shipped, simulation};

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

fn bytes(simulated: &Simulated) -> Vec<u8> {
    serde_json::to_vec(simulated).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let shipped = shipped("aws-us-east-1-2024");
    for system in systems().iter().map(|system| system.name()) {
        let of = |seed| {
            let profile = shipped.sampled(seed);
            bytes(&run(&small(system, 4, 2, settings(system), &profile)))
        };
        assert_eq!(of(3), of(3), "{system}");
        assert_ne!(of(3), of(4), "{system}");
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
            let off = faster - slower / 2.0;
            assert!(
                off.abs() <= POLL_S,
                "{system}: {slower} s, and {faster} s with twice the bandwidth"
            );
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
    assert!(
        simulated.wall_s.is_finite() && simulated.wall_s > 0.0,
        "{name}"
    );
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
                let of = |workers: usize, settings: Value| {
                    outcome(&small(system, workers, 1, settings, profile))
                };
                let settings = |workers: usize| {
                    if lists && workers > 100 {
                        json!({"finds_by": "name"})
                    } else {
                        settings(system)
                    }
                };
                for [workers, next] in [
                    [2, 3],
                    [16, 17],
                    [64, 65],
                    [256, 257],
                    [1000, 1001],
                    [4095, 4096],
                ] {
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
                    assert!(
                        matches!(refused, Err(SimulationError::TooMany { .. })),
                        "{system}"
                    );
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
    for system in systems().iter().map(|system| system.name()) {
        let of = |epochs: usize, merges_invocations: bool| {
            let mut small = small(system, 12, 2, settings(system), &profile);
            small.job.epochs = epochs;
            let options = Options {
                merges_invocations,
                ..Options::default()
            };
            simulate(&small, options).unwrap()
        };
        let (all, merged) = (of(2, false), of(2, true));
        let sums = |simulated: &Simulated| {
            let calls = simulated.invocations.iter();
            calls.fold(
                (0, 0.0, 0.0, 0.0_f64),
                |(count, run_s, init_s, peak), call| {
                    let alike = call.alike as f64;
                    (
                        count + call.alike,
                        run_s + alike * call.duration_s,
                        init_s + alike * call.init_s.unwrap_or(0.0),
                        peak.max(call.peak_memory_mb),
                    )
                },
            )
        };
        let (
            (count, run_s, init_s, peak),
            (merged_count, merged_run_s, merged_init_s, merged_peak),
        ) = (sums(&all), sums(&merged));
        assert_eq!((count, peak), (merged_count, merged_peak), "{system}");
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.max(1.0);
        assert!(
            close(run_s, merged_run_s) && close(init_s, merged_init_s),
            "{system}"
        );
        assert!(
            merged.invocations.len() <= all.invocations.len(),
            "{system}"
        );
        assert_eq!(all.wall_s, merged.wall_s, "{system}");
        assert_eq!(all.totals, merged.totals, "{system}");
    }
    let asynchronous = |workers: usize| {
        let small = small("lambdaml_async", workers, 1, json!({}), &profile);
        let options = Options {
            merges_invocations: true,
            ..Options::default()
        };
        simulate(&small, options).unwrap().invocations.len()
    };
    assert_eq!(asynchronous(10), asynchronous(1000));
}
