//! A trained trial that is timed again takes the same time, without its values.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use epochcost_simulator::profile::Profile;
use epochcost_simulator::{MakeCompute, Options, Recorded, Simulated, Simulation, simulate};
use epochcost_systems::{
    Batch, Compute, Evaluate, Evaluation, GradientOutput, Record, Result, Sizes, StepRecord, Vector,
};
use serde_json::{Value, json};

use crate::support::*;

const PARAMETERS: usize = 1_000;

/// A model whose gradients depend on parameters and records, and some of whose gradients are
/// far larger than others: a filter sends few of them.
struct Formula(Sizes);

#[async_trait]
impl Compute for Formula {
    fn parameters(&self) -> usize {
        self.0.parameters
    }

    fn statistics(&self) -> usize {
        self.0.statistics
    }

    async fn initial_parameters(&mut self, _seed: u64) -> Result<Vector> {
        Ok(Vector::Real(vec![1.0; self.0.parameters]))
    }

    fn initial_statistics(&self) -> Vector {
        Vector::Real(vec![0.0; self.0.statistics])
    }

    async fn gradient(
        &mut self,
        parameters: &Vector,
        _statistics: &mut Vector,
        batch: &Batch,
    ) -> Result<GradientOutput> {
        let first = f32::from(batch.records.bytes()?[0]);
        let parameters = parameters.real().unwrap();
        let gradient = parameters.iter().zip(0u32..);
        let gradient =
            gradient.map(|(w, i)| w * first / ((i % 97) * (1 + batch.index as u32) + 1) as f32);
        Ok(GradientOutput {
            loss: Some(f64::from(first)),
            gradient: Vector::Real(gradient.collect()),
        })
    }

    async fn evaluate(
        &mut self,
        _parameters: &Vector,
        _statistics: &Vector,
        test: &Batch,
    ) -> Result<Option<Evaluation>> {
        let samples = test.records.len() as usize / 3073;
        // The loss falls twice and then no more.
        Ok(Some(Evaluation {
            loss: 1.0 / (test.epoch.min(2) + 1) as f64,
            correct: (test.epoch + 1).min(samples),
            samples,
        }))
    }
}

fn trained(simulation: &Simulation) -> Simulated {
    let job = &simulation.job;
    let records = |samples: usize| {
        let bytes = (0..samples * job.data.record_bytes).map(|at| (at % 251) as u8);
        Bytes::from(bytes.collect::<Vec<u8>>())
    };
    let sizes = simulation.sizes;
    let make: MakeCompute = Box::new(move || Ok(Box::new(Formula(sizes))));
    let options = Options {
        data: Some((
            records(job.data.train_samples + job.data.validation_samples),
            records(job.data.test_samples),
        )),
        compute: Some(make),
        keeps_steps: true,
        ..Options::default()
    };
    simulate(simulation, options).unwrap()
}

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
    simulation(job, PARAMETERS, &platform(), 0.377)
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
    let densities: Vec<f64> = steps(&again)
        .filter_map(|step| step.update_density)
        .collect();
    let is_partial = |density: &&f64| (0.001..0.999).contains(*density);
    let partial = densities.iter().filter(is_partial).count();
    assert!(partial > densities.len() / 4, "{densities:?}");
    // Without its densities, updates are sent whole.
    let sizes_only = run(&described("mlless", settings));
    assert!(sizes_only.totals.traffic != again.totals.traffic);
}

#[test]
fn training_stops_after_the_same_epoch() {
    let settings = json!({"early_stopping": {"patience": 2, "min_delta": 0.01}});
    for system in ["allreduce", "scatterreduce", "gpu_baseline"] {
        let again = assert_same(system, settings.clone());
        assert_eq!(evaluations(&again).len(), 5, "{system}: of 6 epochs");
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
