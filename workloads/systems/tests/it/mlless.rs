//! MLLess against its closed form, one process, and itself.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use epochcost_channels::Traffic;
use epochcost_kernels::hash;
use epochcost_kernels::optimizer::{Optimizer, OptimizerSpec, Sgd};
use epochcost_systems::mlless::{self, Sent};
use epochcost_systems::testing::{self, Trial};
use epochcost_systems::{
    Batch, ComputeHook, Fidelity, HookedCompute, Job, Replicas, SettingsError, StepRecord, Vector,
    find,
};
use serde_json::{Map, Value, json};

const WORKERS: [usize; 5] = [1, 2, 3, 4, 8];

fn settings_of(job: &Job) -> mlless::Settings {
    serde_json::from_value(job.settings.clone()).unwrap()
}

fn overrides(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

fn job(fidelity: Fidelity, workers: usize, settings: Value) -> Job {
    testing::job("mlless", fidelity, workers, &overrides(settings)).unwrap()
}

fn closed_form(job: &Job) -> Traffic {
    find("mlless")
        .unwrap()
        .bind(job)
        .unwrap()
        .traffic(testing::SIZES)
        .unwrap()
}

/// The workers' steps, by step and rank.
fn worker_steps(trial: &Trial) -> Vec<&StepRecord> {
    let mut steps: Vec<&StepRecord> = trial
        .steps()
        .into_iter()
        .filter(|s| s.function == "worker" && s.batch.is_some())
        .collect();
    steps.sort_by_key(|s| (s.epoch, s.batch, s.rank));
    steps
}

fn digests(trial: &Trial) -> Vec<String> {
    worker_steps(trial)
        .iter()
        .map(|s| s.parameters_digest.clone().unwrap())
        .collect()
}

fn losses(trial: &Trial) -> Vec<f64> {
    worker_steps(trial)
        .iter()
        .map(|s| s.loss.unwrap())
        .collect()
}

fn densities(trial: &Trial) -> Vec<f64> {
    worker_steps(trial)
        .iter()
        .map(|s| s.update_density.unwrap())
        .collect()
}

/// One process that averages the gradients of all workers: the parameters
/// after each step.
async fn reference(job: &Job) -> Vec<Vector> {
    let mut compute = testing::compute();
    let mut parameters = compute.initial_parameters(job.seed).await.unwrap();
    let mut optimizer = Optimizer::new(job.optimizer);
    let (workers, batches) = (job.workers, job.batches_per_worker);
    let mut trajectory = Vec::new();
    for epoch in 0..job.epochs {
        let listed = (workers * batches) as u32;
        let order = match epoch {
            0 => (0..listed).collect(),
            wraps => hash::permutation(listed, hash::mix(job.seed, 8 + wraps as u64)),
        };
        for step in order.chunks(workers) {
            let mut gradients = Vec::new();
            for item in step {
                let (rank, index) = (*item as usize / batches, *item as usize % batches);
                let records = testing::minibatch_records(job, rank, index);
                let batch = Batch {
                    rank,
                    epoch,
                    index,
                    records,
                };
                let mut statistics = compute.initial_statistics();
                let output = compute
                    .gradient(&parameters, &mut statistics, &batch)
                    .await
                    .unwrap();
                gradients.push(output.gradient);
            }
            let mean = Vector::mean(&gradients).unwrap();
            optimizer
                .step(parameters.real_mut().unwrap(), mean.real().unwrap())
                .unwrap();
            trajectory.push(parameters.clone());
        }
    }
    trajectory
}

#[tokio::test]
async fn unfiltered_averaged_gradients_are_the_dense_exchange() {
    for workers in WORKERS {
        let settings = json!({
            "exchange": "gradients", "aggregate": "mean", "significance_threshold": 0.0,
        });
        let job = job(Fidelity::Paper, workers, settings);
        assert_eq!(
            find("mlless").unwrap().bind(&job).unwrap().replicas(),
            Replicas::Identical
        );
        let trial = testing::run(&job).await.unwrap();
        let expected: Vec<String> = reference(&job)
            .await
            .iter()
            .flat_map(|parameters| vec![parameters.digest().unwrap(); workers])
            .collect();
        assert_eq!(digests(&trial), expected, "{workers} workers");
    }
}

/// The mean of SGD updates is the SGD step with the mean gradient, but for the
/// rounding of w + u and back: a few units in the last place of w per step.
#[tokio::test]
async fn unfiltered_averaged_updates_are_the_dense_exchange_up_to_rounding() {
    for workers in WORKERS {
        let settings = json!({"aggregate": "mean", "significance_threshold": 0.0});
        let mut job = job(Fidelity::Paper, workers, settings);
        job.optimizer = OptimizerSpec::Sgd(Sgd {
            learning_rate: 0.1,
            momentum: 0.9,
            weight_decay: 0.0,
        });
        let trial = testing::run(&job).await.unwrap();
        let expected = reference(&job).await.pop().unwrap();
        // Worker 0 keeps its final model to itself.
        for rank in 1..workers {
            let key = format!("{}_model_r_w{rank}", job.trial);
            let model = trial
                .channels
                .objects
                .get("updates", &key)
                .await
                .unwrap()
                .unwrap();
            let parameters = Vector::decode(&model).unwrap();
            for (found, expected) in parameters
                .real()
                .unwrap()
                .iter()
                .zip(expected.real().unwrap())
            {
                assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
            }
        }
    }
}

#[tokio::test]
async fn one_worker_trains_as_one_process() {
    let job = job(Fidelity::Paper, 1, json!({}));
    let trial = testing::run(&job).await.unwrap();
    let expected: Vec<String> = reference(&job)
        .await
        .iter()
        .map(|p| p.digest().unwrap())
        .collect();
    assert_eq!(digests(&trial), expected);
}

#[tokio::test]
async fn metered_traffic_is_the_closed_form_at_full_density() {
    for workers in WORKERS {
        for fidelity in Fidelity::ALL {
            let settings = json!({"significance_threshold": 0.0, "encoding": "dense"});
            let job = job(fidelity, workers, settings);
            let trial = testing::run(&job).await.unwrap();
            let metered = trial.exchange();
            assert_eq!(
                metered,
                closed_form(&job),
                "{workers} workers, {fidelity:?}"
            );

            let (w, p) = (workers as u64, testing::SIZES.gradient_bytes());
            let steps = (job.epochs * job.batches_per_worker) as u64;
            let (gets, models) = match fidelity {
                Fidelity::Paper | Fidelity::Tuned => (w * (w - 1), w - 1),
                Fidelity::Code => (w * w, 0),
            };
            assert_eq!(metered.puts, steps * w + models);
            assert_eq!(metered.gets, steps * gets + models);
            assert_eq!(metered.messages, 1 + steps * (2 * w + 1) + models);
            assert_eq!(metered.deliveries, w + steps * (w * w + 2 * w) + models);
            assert!(metered.bytes_up >= (steps * w + models) * p);
        }
    }
}

#[tokio::test]
async fn metered_traffic_is_the_closed_form_of_what_was_sent() {
    for workers in WORKERS {
        for settings in [
            json!({}),
            json!({"significance_threshold": 0.05}),
            json!({"significance_threshold": 0.2, "reads_own_update": true}),
            json!({"filter": "norm", "final_model": "first_worker"}),
            json!({"significance_threshold": 1e9}),
            json!({"encoding": "shorter", "significance_threshold": 0.05}),
            json!({"slack": 1}),
            json!({"slack": 3, "significance_threshold": 0.05}),
            json!({"slack": 2, "reads_own_update": true, "addition_order": "arrival"}),
            json!({"slack": 100, "final_model": "first_worker"}),
        ] {
            let job = job(Fidelity::Paper, workers, settings.clone());
            let trial = testing::run(&job).await.unwrap();
            let sent = Sent::recorded(&settings_of(&job), testing::SIZES, densities(&trial));
            let expected = mlless::traffic(&job, &settings_of(&job), testing::SIZES, sent);
            assert_eq!(trial.exchange(), expected, "{workers} workers, {settings}");
        }
    }
}

#[tokio::test]
async fn phantoms_are_sent_whole() {
    for workers in WORKERS {
        for fidelity in Fidelity::ALL {
            let job = job(fidelity, workers, json!({}));
            let trial = testing::run_with(&job, testing::phantom).await.unwrap();
            assert_eq!(
                trial.exchange(),
                closed_form(&job),
                "{workers} workers, {fidelity:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_higher_threshold_sends_less() {
    let mut before = f64::INFINITY;
    for threshold in [0.0, 0.1, 0.5, 2.0] {
        let job = job(
            Fidelity::Paper,
            4,
            json!({"significance_threshold": threshold}),
        );
        let density: f64 = densities(&testing::run(&job).await.unwrap()).iter().sum();
        assert!(
            density < before,
            "{density} at {threshold}, {before} below it"
        );
        before = density;
    }
}

#[tokio::test]
async fn a_seed_gives_the_same_losses_and_weights() {
    for fidelity in Fidelity::ALL {
        let job = job(fidelity, 4, json!({}));
        let first = testing::run(&job).await.unwrap();
        let second = testing::run(&job).await.unwrap();
        assert_eq!(
            losses(&first).len(),
            4 * job.epochs * job.batches_per_worker
        );
        assert_eq!(losses(&first), losses(&second));
        assert_eq!(digests(&first), digests(&second));
    }
}

#[tokio::test]
async fn residuals_and_unseeded_replicas_differ() {
    for (fidelity, settings) in [(Fidelity::Paper, json!({})), (Fidelity::Code, json!({}))] {
        let job = job(fidelity, 3, settings);
        let replicas = find("mlless").unwrap().bind(&job).unwrap().replicas();
        assert!(matches!(replicas, Replicas::Differ { .. }));
        let digests = digests(&testing::run(&job).await.unwrap());
        assert_ne!(digests[0], digests[1]);
    }
}

/// The mean of two identical replicas is either of them.
#[tokio::test]
async fn the_mean_of_identical_replicas_is_evaluated_as_one() {
    let evaluated = async |final_model: &str| {
        let settings = json!({"seeded_replicas": true, "final_model": final_model});
        let trial = testing::run(&job(Fidelity::Code, 2, settings))
            .await
            .unwrap();
        let evaluation = trial.evaluations().last().unwrap().1;
        evaluation.loss
    };
    assert_eq!(evaluated("mean").await, evaluated("first_worker").await);
}

#[tokio::test]
async fn log_objects_are_rewritten_as_state() {
    let job = job(Fidelity::Code, 2, json!({}));
    let trial = testing::run(&job).await.unwrap();
    let steps = (2 * job.epochs * job.batches_per_worker) as u64;
    let mut state = Traffic::default();
    trial
        .steps()
        .iter()
        .for_each(|step| state += step.traffic.state.total());
    assert_eq!(state.puts, 6 * steps);
}

#[tokio::test]
async fn updates_are_deleted_once_read_or_kept() {
    for keeps_updates in [false, true] {
        let job = job(
            Fidelity::Paper,
            2,
            json!({"keeps_updates": keeps_updates, "significance_threshold": 0.0}),
        );
        let trial = testing::run(&job).await.unwrap();
        let first = format!("{}_up_w0_i0", job.trial);
        let found = trial.channels.objects.get("updates", &first).await.unwrap();
        assert_eq!(found.is_some(), keeps_updates);
    }
}

#[tokio::test]
async fn one_function_a_worker_and_the_supervisor() {
    let job = job(Fidelity::Paper, 3, json!({}));
    assert_eq!(testing::run(&job).await.unwrap().driven.invocations, 4);
}

#[test]
fn settings_that_do_not_exist_or_fit_are_named() {
    let system = find("mlless").unwrap();
    let settings = |value| system.settings(Fidelity::Paper, &overrides(value));
    for (field, value) in [
        ("threshold", json!(0.7)),
        ("significance_threshold", json!("0.7")),
        ("significance_threshold", json!(-0.1)),
        ("filter", json!("significant")),
        ("aggregate", json!("median")),
    ] {
        let error = settings(json!({field: value})).unwrap_err();
        assert_eq!(error.field(), field);
    }
    assert!(matches!(
        settings(json!({"threshold": 0.7})).unwrap_err(),
        SettingsError::Unknown { .. }
    ));
}

/// Notes who begins which step. Worker 0 begins its first when worker 1 begins the last that
/// the slack lets it.
struct Ahead {
    job: Job,
    slack: usize,
    begun: Arc<Mutex<Vec<(usize, usize)>>>,
}

#[async_trait]
impl ComputeHook for Ahead {
    async fn before_gradient(&mut self, batch: &Batch) -> epochcost_systems::Result<()> {
        // In the first epoch the list of mini-batches is in order.
        let listed = batch.rank * self.job.batches_per_worker + batch.index;
        let own = (listed % self.job.workers, listed / self.job.workers);
        let last = (1, self.slack);
        let is_held = || !self.begun.lock().unwrap().contains(&last);
        while own == (0, 0) && is_held() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if own == (0, 0) {
            // Time for others to run further ahead, if something let them.
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        self.begun.lock().unwrap().push(own);
        Ok(())
    }
}

/// Worker 1 begins as many further steps as the slack says while worker 0 is in its first,
/// and nobody ever begins one more.
#[tokio::test]
async fn workers_run_ahead_of_the_slowest_by_the_slack_and_no_further() {
    for slack in [1, 2, 4] {
        let mut job = job(Fidelity::Paper, 3, json!({"slack": slack}));
        (job.epochs, job.batches_per_worker) = (1, 6);
        job.data.train_samples = 3 * 6 * job.batch_size;
        let begun = Arc::new(Mutex::new(Vec::new()));
        let (hooked, noted) = (job.clone(), begun.clone());
        let compute = move || {
            let (job, begun) = (hooked.clone(), noted.clone());
            let ahead = Ahead { job, slack, begun };
            HookedCompute::boxed(ahead, testing::compute())
        };
        let trial = tokio::time::timeout(Duration::from_secs(60), testing::run_with(&job, compute));
        let trial = trial.await.unwrap().unwrap();
        assert_eq!(trial.exchange(), form_of(&job, &trial));
        let begun = begun.lock().unwrap();
        assert_eq!(begun.len(), 3 * 6);
        for (place, (worker, step)) in begun.iter().enumerate() {
            // All have reported the step that the barrier of its last one was of.
            let Some(behind) = step.checked_sub(1 + slack) else {
                continue;
            };
            for other in 0..3 {
                let reported = begun[..place].contains(&(other, behind));
                assert!(
                    reported,
                    "worker {worker} began {step} before {other} {behind}"
                );
            }
        }
    }
}

/// Updates that are sent whole and added late are added all the same: replicas end as the sum
/// of all updates, up to the order of addition.
#[tokio::test]
async fn with_slack_every_update_is_added_in_the_end() {
    for slack in [1, 4] {
        let settings = json!({"slack": slack, "filter": "none"});
        let job = long_job(3, settings);
        let trial = testing::run(&job).await.unwrap();
        let mut models = Vec::new();
        for rank in 1..3 {
            let key = format!("{}_model_r_w{rank}", job.trial);
            let model = trial.channels.objects.get("updates", &key).await.unwrap();
            models.push(Vector::decode(&model.unwrap()).unwrap());
        }
        let pairs = models[0]
            .real()
            .unwrap()
            .iter()
            .zip(models[1].real().unwrap());
        for (one, other) in pairs {
            assert!((one - other).abs() < 1e-4, "{one} is not {other}");
        }
    }
}

/// A worker deletes an update when all have read it.
#[tokio::test]
async fn with_slack_updates_are_deleted_once_read() {
    let job = long_job(2, json!({"slack": 3, "filter": "none"}));
    let trial = testing::run(&job).await.unwrap();
    let steps = (job.epochs * job.batches_per_worker) as u64;
    for step in 0..steps {
        let key = format!("{}_up_w1_i{step}", job.trial);
        let found = trial.channels.objects.get("updates", &key).await.unwrap();
        // Those that nobody's report says are read: of the last 1 + 3 steps.
        assert_eq!(found.is_some(), step >= steps - 4, "{step} of {steps}");
    }
}

#[test]
fn slack_that_does_not_fit_is_named() {
    let system = find("mlless").unwrap();
    for value in [
        json!({"slack": 1, "exchange": "gradients"}),
        json!({"slack": 1, "aggregate": "mean"}),
        json!({"slack": 1, "scale_in": {}}),
        json!({"slack": 1, "stop_after_s": 5.0}),
        json!({"slack": 1, "early_stopping": {}}),
        json!({"slack": -1}),
    ] {
        let error = system
            .settings(Fidelity::Paper, &overrides(value))
            .unwrap_err();
        assert_eq!(error.field(), "slack");
    }
}

/// A job long enough to have a knee, whose tuner acts on the formula's losses.
fn long_job(workers: usize, settings: Value) -> Job {
    let mut job = job(Fidelity::Paper, workers, settings);
    job.epochs = 12;
    job.batches_per_worker = 5;
    job.data.train_samples = workers * 10;
    job.optimizer = OptimizerSpec::Sgd(Sgd {
        learning_rate: 0.02,
        momentum: 0.0,
        weight_decay: 0.0,
    });
    job
}

/// Workers that took part in each step.
fn alive(trial: &Trial) -> Vec<usize> {
    let mut by_step = std::collections::BTreeMap::<_, usize>::new();
    for step in worker_steps(trial) {
        *by_step.entry((step.epoch, step.batch)).or_default() += 1;
    }
    by_step.into_values().collect()
}

fn form_of(job: &Job, trial: &Trial) -> Traffic {
    let steps = trial.steps();
    let bound = find("mlless").unwrap().bind(job).unwrap();
    bound.traffic_of(testing::SIZES, &steps).unwrap()
}

/// A tuner that decides after every step, and takes any loss for good enough.
fn eager(at_least: usize) -> Value {
    json!({"scale_in": {
        "remove_interval_s": 0.0, "remove_threshold": 1e9, "knee_slope": 1e3, "at_least": at_least,
    }})
}

#[tokio::test]
async fn workers_leave_and_traffic_stays_on_its_closed_form() {
    for workers in [2, 3, 5] {
        for extra in [
            json!({}),
            json!({"significance_threshold": 0.05}),
            json!({"final_model": "first_worker"}),
            json!({"reads_own_update": true}),
        ] {
            let mut settings = overrides(eager(1));
            settings.extend(overrides(extra.clone()));
            let job = long_job(workers, Value::Object(settings));
            let trial = testing::run(&job).await.unwrap();
            let alive = alive(&trial);
            assert_eq!(
                (alive[0], *alive.last().unwrap()),
                (workers, 1),
                "{alive:?}"
            );
            assert!(
                alive.windows(2).all(|pair| pair[0] - pair[1] <= 1),
                "{alive:?}"
            );
            assert_eq!(
                trial.exchange(),
                form_of(&job, &trial),
                "{workers} workers, {extra}"
            );
            // Worker 0 stays, and evaluates every epoch.
            assert_eq!(trial.evaluations().len(), job.epochs);
        }
    }
}

/// Every epoch takes whole steps of those that are left, until fewer mini-batches are left
/// than workers.
#[tokio::test]
async fn those_that_are_left_share_the_minibatches() {
    let job = long_job(5, eager(3));
    let trial = testing::run(&job).await.unwrap();
    let mut by_epoch = std::collections::BTreeMap::<_, Vec<usize>>::new();
    for step in worker_steps(&trial) {
        by_epoch.entry(step.epoch).or_default().push(step.rank);
    }
    for (epoch, steps) in by_epoch {
        let left = steps
            .iter()
            .collect::<std::collections::BTreeSet<_>>()
            .len();
        assert!(steps.len() <= 25, "epoch {epoch}: {}", steps.len());
        assert!(
            25 - steps.len() < left,
            "epoch {epoch}: {} of {left}",
            steps.len()
        );
    }
}

/// Without a knee nobody leaves, and nothing is other than without the tuner.
#[tokio::test]
async fn a_tuner_that_finds_no_knee_changes_nothing() {
    let idle = json!({"scale_in": {"knee_slope": 0.0, "remove_interval_s": 1e9}});
    let (plain, tuned) = (long_job(3, json!({})), long_job(3, idle));
    let (plain, trial) = (
        testing::run(&plain).await.unwrap(),
        testing::run(&tuned).await.unwrap(),
    );
    assert_eq!(digests(&plain), digests(&trial));
    assert_eq!(plain.exchange(), trial.exchange());
    assert_eq!(form_of(&tuned, &trial), trial.exchange());
}

#[tokio::test]
async fn training_ends_at_a_loss_after_its_steps_in_a_row() {
    for workers in [1, 3] {
        for (steps, final_model) in [(1, "mean"), (4, "mean"), (4, "first_worker")] {
            let settings = json!({
                "stop_at_loss": {"loss": 1e6, "steps": steps}, "final_model": final_model,
            });
            let job = long_job(workers, settings);
            let trial = testing::run(&job).await.unwrap();
            assert_eq!(alive(&trial), vec![workers; steps]);
            assert_eq!(trial.exchange(), form_of(&job, &trial));
            assert_eq!(trial.evaluations().len(), 1, "the last step is evaluated");
        }
    }
    // A loss that is never reached ends nothing, and no message says that it does.
    let job = long_job(2, json!({"stop_at_loss": {"loss": -1.0}}));
    let trial = testing::run(&job).await.unwrap();
    assert_eq!(alive(&trial).len(), 60);
    assert_eq!(trial.exchange(), form_of(&job, &trial));
}

#[tokio::test]
async fn training_ends_after_a_time() {
    let job = long_job(2, json!({"stop_after_s": 1e-9}));
    let trial = testing::run(&job).await.unwrap();
    assert_eq!(alive(&trial), [2]);
    assert_eq!(trial.exchange(), form_of(&job, &trial));
}

#[test]
fn a_tuner_and_stops_that_do_not_fit_are_named() {
    let system = find("mlless").unwrap();
    for (field, value) in [
        ("scale_in", json!({"scale_in": {"at_least": 0}})),
        ("scale_in", json!({"scale_in": {"remove_interval_s": -1.0}})),
        ("scale_in", json!({"scale_in": {}, "exchange": "gradients"})),
        (
            "stop_at_loss",
            json!({"stop_at_loss": {"loss": 1.0, "steps": 0}}),
        ),
        ("stop_after_s", json!({"stop_after_s": 0.0})),
        (
            "early_stopping",
            json!({"early_stopping": {}, "stop_after_s": 5.0}),
        ),
    ] {
        let error = system
            .settings(Fidelity::Paper, &overrides(value))
            .unwrap_err();
        assert_eq!(error.field(), field);
    }
}
