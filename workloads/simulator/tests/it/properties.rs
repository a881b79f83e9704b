//! Properties of all systems: determinism, scaling with bandwidth, and no surprise from 2 to 4,096
//! workers.

use epochcost_simulator::profile::{Constant, Profile};
use epochcost_simulator::{Options, Simulated, Simulation, SimulationError, simulate};
use epochcost_systems::{Fidelity, Symmetry, System, find_model, systems};
use serde_json::{Map, Value, json};

use crate::support::{job, run, simulation, sizes};

/// Pause between two polls of the systems that wait for objects, seconds.
const POLL_S: f64 = 0.1;

fn shipped(name: &str) -> Profile<Constant> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../harness/profiles");
    let text = std::fs::read_to_string(format!("{folder}/{name}.yaml")).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

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
    let mut small = simulation(
        job(system, workers, batches, settings),
        10_000,
        profile,
        0.1,
    );
    if system == "kubeml" {
        let model = find_model("lenet5").unwrap();
        (small.job.model, small.sizes) = (model.name.into(), model.sizes);
    }
    small
}

fn bytes(simulated: &Simulated) -> Vec<u8> {
    serde_json::to_vec(simulated).unwrap()
}

/// Also where some workers stand for others, with draws of single events.
#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let shipped = shipped("aws-us-east-1-2024");
    for system in systems().iter().map(|system| system.name()) {
        for workers in [4, 80] {
            let of = |seed| {
                let profile = shipped.sampled(seed);
                let small = small(system, workers, 2, settings(system), &profile);
                let options = Options {
                    keeps_steps: true,
                    classes_above: Some(16),
                    ..Options::default()
                };
                let simulated = simulate(&small, options).unwrap();
                assert_eq!(simulated.failure, None, "{system}");
                bytes(&simulated)
            };
            assert_eq!(of(3), of(3), "{system} with {workers}");
            assert_ne!(of(3), of(4), "{system} with {workers}");
        }
    }
}

/// Seconds of exchange per worker where only bandwidth takes time: that of each stream and of
/// each worker.
fn transfer_s(system: &str, workers: usize, bytes_per_s: f64) -> f64 {
    let mut profile = Profile::ideal();
    for service in [
        &mut profile.object_store.service,
        &mut profile.tensor_store.service,
        &mut profile.queue.service,
    ] {
        service.stream_bytes_per_s = bytes_per_s;
    }
    profile.instance.bytes_per_s = bytes_per_s;
    profile.function.bandwidth[0].bytes_per_s = bytes_per_s;
    let mut simulation = small(system, workers, 1, settings(system), &profile);
    if system != "kubeml" {
        simulation.sizes = sizes(2_000_000);
    }
    let seconds = run(&simulation).totals.seconds;
    let all: f64 = seconds.values().map(|seconds| seconds.synchronise()).sum();
    all / workers as f64
}

/// Waits of one worker in one exchange that end with a poll, and the pause between two, seconds.
fn polled_waits(system: &str) -> (usize, f64) {
    match system {
        _ => (1, POLL_S),
    }
}

/// With bandwidth alone, half of the time stays where it is doubled, up to one poll per wait.
#[test]
fn double_bandwidth_halves_transfers_within_one_poll() {
    for system in systems().iter().map(|system| system.name()) {
        let (waits, poll_s) = polled_waits(system);
        let mut slower = transfer_s(system, 8, 2e6);
        for factor in [2.0, 4.0, 8.0] {
            let faster = transfer_s(system, 8, 2e6 * factor);
            let off = faster - slower / 2.0;
            println!("{system}: {slower} s, {faster} s, off {off}");
            assert!(
                off.abs() <= waits as f64 * poll_s,
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

/// Sizes that are simulated: powers of two, and those beside bounds of the simulator (256), of
/// services (1,000 keys) and of powers.
const SIZES: [usize; 22] = [
    2, 3, 4, 8, 9, 16, 17, 32, 33, 64, 65, 128, 255, 256, 257, 512, 1000, 1001, 1024, 2048, 4095,
    4096,
];

/// Most workers of systems whose workers are not alike.
const MOST_UNLIKE: usize = 128;

/// A system under a fidelity, with settings under which many workers can be simulated.
fn scaled(
    system: &'static dyn System,
    fidelity: Fidelity,
    workers: usize,
    profile: &Profile<f64>,
) -> Simulation {
    let name = system.name();
    let mut overrides = settings(name);
    if workers > MOST_UNLIKE {
        let alike = match name {
            "scatterreduce" | "lambdaml_scatterreduce" => {
                json!({"finds_by": "name", "over": "objects", "rewrites_log": false})
            }
            "mlless" => json!({"rewrites_log": false}),
            _ => json!({}),
        };
        let alike: Map<String, Value> = serde_json::from_value(alike).unwrap();
        overrides.as_object_mut().unwrap().extend(alike);
    }
    let overrides: Map<String, Value> = serde_json::from_value(overrides).unwrap();
    let mut scaled = small(name, workers, 1, settings(name), profile);
    scaled.job.fidelity = fidelity;
    scaled.job.settings = system.settings(fidelity, &overrides).unwrap();
    scaled.job.optimizer = system.optimizer(fidelity);
    scaled
}

/// From one size to the next, time neither falls nor grows faster than the number of requests,
/// W², and no size fails.
fn assert_scales(system: &'static dyn System, fidelity: Fidelity, profile: &Profile<f64>) {
    let mut before: Option<(usize, f64)> = None;
    for workers in SIZES {
        let name = format!("{} {fidelity:?} with {workers}", system.name());
        let scaled = scaled(system, fidelity, workers, profile);
        let symmetry = system.bind(&scaled.job).unwrap().symmetry();
        if workers > MOST_UNLIKE {
            assert!(!matches!(symmetry, Symmetry::Unlike { .. }), "{name}");
        }
        let simulated = outcome(&scaled).unwrap();
        assert_sane(&simulated, &name);
        let now = (workers, simulated.wall_s);
        println!("{name}: {:.3} s, {} events", now.1, simulated.events);
        if let Some((fewer, before_s)) = before {
            // Small groups differ by a whole worker, large ones by rounding to polls and
            // by a page of 1,000 keys.
            let most = 1.06 * (workers as f64 / fewer as f64).powi(2);
            assert!(
                now.1 <= before_s * most,
                "{name}: {before_s} s with {fewer}, {} s",
                now.1
            );
            assert!(
                now.1 >= before_s * 0.94,
                "{name}: {before_s} s with {fewer}, {} s",
                now.1
            );
        }
        before = Some(now);
    }
}

#[test]
fn from_2_to_4096_workers_nothing_fails_or_jumps() {
    let profile = shipped("aws-us-east-1").values();
    std::thread::scope(|scope| {
        for system in systems() {
            let profile = &profile;
            scope.spawn(move || {
                for fidelity in [Fidelity::Paper, Fidelity::Code, Fidelity::Tuned] {
                    assert_scales(*system, fidelity, profile);
                }
            });
        }
    });
}

/// Workers that are not alike are refused where they are too many, and not simulated for hours.
#[test]
fn listing_is_refused_with_4096_workers() {
    let profile = shipped("aws-us-east-1").values();
    for system in ["scatterreduce", "lambdaml_scatterreduce"] {
        let refused = outcome(&small(system, 4096, 1, json!({}), &profile));
        let refused = refused.map(|simulated| simulated.wall_s);
        assert!(
            matches!(refused, Err(SimulationError::TooMany { .. })),
            "{system}"
        );
    }
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
