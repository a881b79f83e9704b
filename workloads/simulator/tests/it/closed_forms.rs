//! What is metered in virtual time equals the systems' closed forms.

use epochcost_simulator::profile::Profile;
use epochcost_simulator::{Options, Simulated, Simulation, simulate};
use epochcost_systems::{Evaluate, Fidelity};
use serde_json::json;

use crate::support::*;

/// An ideal platform on which requests take a while.
fn slow_requests() -> Profile<f64> {
    let mut profile = ideal();
    for service in services(&mut profile) {
        service.request_latency_s = 0.0131;
        service.stream_bytes_per_s = 90e6;
    }
    profile
}

#[test]
fn every_system_moves_what_it_states() {
    let others = [
        ("lambdaml_scatterreduce", json!({})),
        (
            "lambdaml_allreduce",
            json!({"exchanges": "model_every_epoch"}),
        ),
        ("lambdaml_async", json!({})),
        ("kubeml", json!({"document_samples": 4, "k": 1})),
        ("mirrored", json!({})),
        ("ring", json!({})),
        ("grads_sharding", json!({})),
        ("lambda_fl", json!({"leaves": 2})),
        ("lifl", json!({})),
        ("allreduce", json!({"over": "objects"})),
        ("scatterreduce", json!({"over": "objects"})),
        ("scatterreduce", json!({"stores": 3})),
    ];
    let first = SYSTEMS.map(|system| (system, json!({})));
    for (system, settings) in others.iter().chain(&first) {
        for fidelity in [Fidelity::Paper, Fidelity::Tuned] {
            for (workers, batches) in [(1, 1), (2, 3), (3, 2), (5, 2), (8, 2), (16, 2)] {
                let mut job = job_of(system, fidelity, workers, batches, settings.clone());
                (job.evaluate, job.epochs) = (Evaluate::EveryEpoch, 2);
                let simulation = simulation(job, 1_117_396, &slow_requests(), 0.1);
                let found = exchanged(&run(&simulation));
                let what = format!("{system} {settings} {fidelity:?} of {workers}");
                assert_eq!(found, closed_form(&simulation), "{what}");
            }
        }
    }
}

/// Every system, with exchanges that are waited for over many polls: left out or
/// simulated one by one, they give the same outcome.
#[test]
fn polls_that_are_left_out_change_nothing() {
    for system in SYSTEMS {
        let job = job(system, 5, 2, json!({}));
        let mut simulation = simulation(job, 1_117_396, &slow_requests(), 0.377);
        simulation.job.epochs = 2;
        // Instances that take a while, functions that start one after another.
        simulation.profile.function.cold_start_s = 1.234_567;
        simulation.profile.function.concurrency_limit = 1e6;
        simulation.profile.function.scaling_per_10_s = 3.0;
        simulation.has_limits = true;
        let all = polling(&simulation, true);
        let some = polling(&simulation, false);
        assert_eq!(all.wall_s, some.wall_s, "{system}");
        assert_eq!(all.totals.traffic, some.totals.traffic, "{system}");
        assert_eq!(all.invocations, some.invocations, "{system}");
        for (function, seconds) in &all.totals.seconds {
            let other = some.totals.seconds[function];
            let what = format!("{system} {function}");
            assert_near(seconds.get, other.get, 1e-6, &what);
            assert_near(seconds.wait, other.wait, 1e-6, &what);
        }
    }
}

fn polling(simulation: &Simulation, simulates_every_poll: bool) -> Simulated {
    let options = Options {
        simulates_every_poll,
        ..Options::default()
    };
    let simulated = simulate(simulation, options).unwrap();
    assert_eq!(simulated.failure, None);
    assert_eq!(simulated.infeasible, None);
    simulated
}

#[test]
fn hundreds_of_workers_move_what_they_state() {
    std::thread::scope(|scope| {
        for system in SYSTEMS {
            // The merged gradient of hundreds takes longer than 60 s.
            let settings = match system {
                "allreduce" => json!({"merged_timeout_s": null}),
                _ => json!({}),
            };
            // Every peer reads what every other sends, message by message.
            let workers = match system {
                "p2p" | "p2p_lambda" => 100,
                _ => 300,
            };
            scope.spawn(move || {
                let job = job(system, workers, 1, settings);
                let simulation = simulation(job, 3_217_226, &slow_requests(), 1.0);
                let found = exchanged(&run(&simulation));
                assert_eq!(found, closed_form(&simulation), "{system}");
            });
        }
    });
}

/// A bucket admits the requests of one second at once, and then one after another at its rate.
#[test]
fn a_bucket_admits_so_many_requests_per_second() {
    let mut profile = ideal();
    profile.object_store.writes_per_s = Some(10.0);
    let seconds = |workers: usize| {
        // Every worker of the GPU baseline puts once per step, at the same instant.
        let job = job("gpu_baseline", workers, 1, json!({}));
        polling(&simulation(job, 1000, &profile, 1.0), false).wall_s
    };
    assert_near(seconds(10), 1.0, 0.11, "10");
    // The last of 30 waits for two seconds; polls add up to 0.1 s.
    assert_near(seconds(30), 3.0, 0.11, "30");
}
