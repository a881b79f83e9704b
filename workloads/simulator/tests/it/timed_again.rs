//! A trained trial that is timed again takes the same time, without its values.

use std::sync::Arc;

use epochcost_simulator::profile::Profile;
use epochcost_simulator::{Options, Recorded, Simulated, Simulation, simulate};
use epochcost_systems::testing;
use epochcost_systems::{Evaluate, Evaluation, Record, StepRecord};
use serde_json::{Value, json};

use crate::support::*;

fn recorded(trained: &Simulated) -> Recorded {
    let steps: Vec<&StepRecord> = steps(trained).collect();
    let evaluations = evaluations(trained).into_iter();
    Recorded::new(steps, evaluations.map(|(place, _)| place))
}

/// Rank, epoch, and the results on the test split and on the validation split.
type Evaluated = (usize, usize, Evaluation, Option<Evaluation>);

/// Each evaluation, and its time.
fn evaluations(simulated: &Simulated) -> Vec<(Evaluated, f64)> {
    let of = |record: &Record| match record {
        Record::Evaluated {
            rank,
            epoch,
            at_s,
            evaluation,
            validation,
        } => Some(((*rank, *epoch, *evaluation, *validation), *at_s)),
        _ => None,
    };
    simulated.records.iter().filter_map(of).collect()
}

fn timed_again(simulation: &Simulation, recorded: Recorded) -> Simulated {
    let options = Options {
        recorded: Some(Arc::new(recorded)),
        keeps_steps: true,
        ..Options::default()
    };
    simulate(simulation, options).unwrap()
}

/// A platform on which everything takes time.
fn platform() -> Profile<f64> {
    let mut profile = ideal();
    for service in services(&mut profile) {
        service.request_latency_s = 0.031;
        service.stream_bytes_per_s = 1e4;
    }
    profile.function.arithmetic_bytes_per_s = 1e5;
    profile.instance.arithmetic_bytes_per_s = 1e5;
    profile.tensor_store.arithmetic_bytes_per_s = 1e5;
    profile
}

fn described(system: &str, settings: Value) -> Simulation {
    let mut job = job(system, 3, 2, settings);
    job.epochs = 6;
    job.data.validation_samples = 12;
    job.evaluate = Evaluate::EveryEpoch;
    Simulation {
        sizes: testing::SIZES,
        ..simulation(job, testing::SIZES.parameters, &platform(), 0.377)
    }
}

fn assert_same(system: &str, settings: Value) -> Simulated {
    let simulation = described(system, settings.clone());
    let before = trained(&simulation);
    assert_eq!(before.failure, None, "{system}");
    let again = timed_again(&simulation, recorded(&before));
    let what = format!("{system} {settings}");
    assert_eq!(before.wall_s, again.wall_s, "{what}");
    assert_eq!(before.invocations, again.invocations, "{what}");
    assert_eq!(before.totals, again.totals, "{what}");
    assert_eq!(evaluations(&before), evaluations(&again), "{what}");
    again
}

#[test]
fn every_system_takes_what_its_trained_trial_took() {
    for system in SYSTEMS {
        assert_same(system, json!({}));
    }
    for compression in ["qsgd", "qsgd_published", "top_k"] {
        assert_same("p2p", json!({"compression": compression}));
    }
}

#[test]
fn filtered_updates_are_as_dense_as_they_were() {
    for filter in ["none", "norm", "per_parameter"] {
        for (exchange, threshold) in [("gradients", 5.0), ("updates", 0.0005)] {
            for aggregate in ["sum", "mean"] {
                let settings = json!({
                    "filter": filter, "exchange": exchange, "aggregate": aggregate,
                    "significance_threshold": threshold,
                });
                assert_same("mlless", settings);
            }
        }
    }
    let settings = json!({
        "filter": "per_parameter", "exchange": "gradients", "significance_threshold": 5.0,
    });
    let again = assert_same("mlless", settings.clone());
    let densities = steps(&again).filter_map(|step| step.update_density);
    let densities: Vec<f64> = densities.collect();
    let is_partial = |density: &&f64| (0.001..0.999).contains(*density);
    let partial = densities.iter().filter(is_partial).count();
    assert!(partial > densities.len() / 4, "{densities:?}");
    // Without its densities, updates are sent whole.
    let sizes_only = run(&described("mlless", settings));
    assert!(sizes_only.totals.traffic != again.totals.traffic);
}

#[test]
fn training_stops_after_the_same_epoch() {
    let settings = json!({"early_stopping": {"patience": 2, "min_delta": 1e9}});
    for system in ["allreduce", "scatterreduce", "gpu_baseline"] {
        let again = assert_same(system, settings.clone());
        assert_eq!(evaluations(&again).len(), 3, "{system}: of 6 epochs");
    }
}

/// Constants change times, and nothing of what was learned.
#[test]
fn other_constants_change_times_only() {
    let settings = json!({"exchange": "gradients", "significance_threshold": 5.0});
    let mut simulation = described("mlless", settings);
    let before = trained(&simulation);
    simulation.profile.object_store.service.request_latency_s *= 2.0;
    let slower = timed_again(&simulation, recorded(&before));
    assert!(slower.wall_s > before.wall_s);
    assert_eq!(
        before.totals.traffic.exchange.objects.bytes_up,
        slower.totals.traffic.exchange.objects.bytes_up
    );
    let results = |simulated: &Simulated| -> Vec<Evaluated> {
        let evaluations = evaluations(simulated).into_iter();
        evaluations.map(|(place, _)| place).collect()
    };
    assert_eq!(results(&before), results(&slower));
    assert_eq!(trained(&simulation).wall_s, slower.wall_s);
}
