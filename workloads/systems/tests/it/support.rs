//! What the tests share: jobs, closed forms, what a trial leaves, and one process that takes the
//! same steps.

use std::fmt::Display;
use std::sync::Arc;

use async_trait::async_trait;
use epochcost_channels::{Payload, Traffic};
use epochcost_kernels::hash;
use epochcost_kernels::optimizer::{Optimizer, OptimizerSpec, Sgd};
use epochcost_systems::testing::{self, Around, Failures, Gradient, SIZES, Trial};
use epochcost_systems::{
    Batch, Compute, ComputeHook, DriveError, Fidelity, HookedCompute, Job, Record, Replicas,
    Result, SettingsError, StepRecord, Vector, find,
};
use serde_json::{Map, Value};

pub(crate) fn overrides(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn job_of(system: &str, fidelity: Fidelity, workers: usize, settings: Value) -> Job {
    testing::quick_job(system, fidelity, workers, &overrides(settings)).unwrap()
}

pub(crate) fn sgd(learning_rate: f64, momentum: f64) -> OptimizerSpec {
    OptimizerSpec::Sgd(Sgd {
        learning_rate,
        momentum,
        weight_decay: 0.0,
    })
}

/// Runs a job, which moves what the closed form says of what its steps report: where that has exact
/// bytes, and nobody sends others.
pub(crate) async fn run(job: &Job) -> Trial {
    let trial = testing::run(job).await.unwrap();
    if job.attack.is_none() && find(&job.system).unwrap().bind(job).unwrap().states_bytes() {
        let what = format!("{} of {}: {}", job.system, job.workers, job.settings);
        assert_eq!(trial.exchange(), form_of(job, &trial), "{what}");
    }
    trial
}

/// Fails unless a job states that it moves `expected`, and does, with values and with sizes alone.
pub(crate) async fn assert_moves(job: &Job, expected: Traffic) -> [Trial; 2] {
    let Job {
        system, fidelity, ..
    } = job;
    let what = format!("{system} {fidelity:?} of {}: {}", job.workers, job.settings);
    assert_eq!(closed_form(job), expected, "{what}");
    let real = testing::run(job).await.unwrap();
    let phantom = testing::run_with(job, testing::phantom).await.unwrap();
    assert_eq!(real.exchange(), expected, "{what}");
    assert_eq!(phantom.exchange(), expected, "{what}, phantom");
    [real, phantom]
}

/// Runs a job whose invocations fail.
pub(crate) async fn run_failing(
    job: &Job,
    failures: impl Failures + 'static,
) -> Result<Trial, DriveError> {
    let around = Around {
        failures: Arc::new(failures),
        ..Around::new(job)
    };
    around.run(job, testing::compute).await
}

pub(crate) fn closed_form(job: &Job) -> Traffic {
    let bound = find(&job.system).unwrap().bind(job).unwrap();
    bound.traffic(SIZES).unwrap()
}

/// The closed form at what the steps of a trial report that they sent.
pub(crate) fn form_of(job: &Job, trial: &Trial) -> Traffic {
    let bound = find(&job.system).unwrap().bind(job).unwrap();
    bound.traffic_of(SIZES, &trial.steps()).unwrap()
}

pub(crate) fn replicas(job: &Job) -> Replicas {
    find(&job.system).unwrap().bind(job).unwrap().replicas()
}

/// Fails unless the text holds every word.
#[track_caller]
pub(crate) fn holds(text: impl Display, words: &[&str]) {
    let text = text.to_string();
    for word in words {
        assert!(text.contains(word), "no {word:?} in:\n{text}");
    }
}

/// Why a job is refused whose settings fit.
pub(crate) fn refusal(job: &Job) -> String {
    let bound = find(&job.system).unwrap().bind(job);
    bound.map(drop).unwrap_err().to_string()
}

/// Why settings are refused.
pub(crate) fn refused(system: &str, settings: Value) -> SettingsError {
    let system = find(system).unwrap();
    let refused = system.settings(Fidelity::Paper, &overrides(settings));
    refused.unwrap_err()
}

/// What runs before each gradient.
pub(crate) struct Before<F>(pub(crate) F);

#[async_trait]
impl<F: FnMut(&Batch) -> Result<()> + Send + Sync> ComputeHook for Before<F> {
    async fn before_gradient(&mut self, batch: &Batch) -> Result<()> {
        (self.0)(batch)
    }
}

/// The model of tests, before each of whose gradients `hook` runs.
pub(crate) fn hooked(
    hook: impl FnMut(&Batch) -> Result<()> + Send + Sync + 'static,
) -> Box<dyn Compute> {
    HookedCompute::boxed(Before(hook), testing::compute())
}

/// Traffic of the state over all steps.
pub(crate) fn state(trial: &Trial) -> Traffic {
    let mut total = Traffic::default();
    for step in trial.steps() {
        total += step.traffic.state.total();
    }
    total
}

pub(crate) fn warnings(trial: &Trial) -> Vec<String> {
    let text = |record: &Record| match record {
        Record::Warning { text, .. } => Some(text.clone()),
        _ => None,
    };
    trial.records.iter().filter_map(text).collect()
}

pub(crate) fn has_diverged(trial: &Trial) -> bool {
    let is = |record: &Record| matches!(record, Record::Diverged { .. });
    trial.records.iter().any(is)
}

/// Steps by epoch, mini-batch and rank.
pub(crate) fn by_rank(trial: &Trial) -> Vec<&StepRecord> {
    let mut steps = trial.steps();
    steps.sort_by_key(|step| (step.epoch, step.batch, step.rank));
    steps
}

/// Digests of the parameters, by epoch, mini-batch and rank of the steps that note them.
pub(crate) fn digests(trial: &Trial) -> Vec<String> {
    let steps = by_rank(trial).into_iter();
    let digests: Vec<_> = steps
        .filter_map(|step| step.parameters_digest.clone())
        .collect();
    assert!(!digests.is_empty(), "no step notes its parameters");
    digests
}

/// What replicas note where one process notes `digests`.
pub(crate) fn of_each(workers: usize, digests: Vec<String>) -> Vec<String> {
    let repeated = |digest| vec![digest; workers];
    digests.into_iter().flat_map(repeated).collect()
}

pub(crate) fn are_same<T: PartialEq>(values: &[T]) -> bool {
    values.iter().all(|value| *value == values[0])
}

/// One process with the model and the optimizer of a job.
pub(crate) struct OneProcess {
    pub(crate) parameters: Vector,
    optimizer: Optimizer,
}

impl OneProcess {
    pub(crate) async fn new(job: &Job) -> Self {
        let parameters = testing::compute().initial_parameters(job.seed).await;
        Self {
            parameters: parameters.unwrap(),
            optimizer: Optimizer::new(job.optimizer),
        }
    }

    /// Steps with the mean of `gradients` and returns the digest of the parameters.
    pub(crate) fn step(&mut self, gradients: &[Vector]) -> String {
        let mean = Vector::mean(gradients).unwrap();
        let values = self.parameters.real_mut().unwrap();
        self.optimizer.step(values, mean.real().unwrap()).unwrap();
        self.parameters.digest().unwrap()
    }
}

/// The gradient of a mini-batch: its rank, epoch and index.
pub(crate) async fn gradient(
    parameters: &Vector,
    (rank, epoch, index): (usize, usize, usize),
    records: Payload,
) -> Vector {
    let mut compute = testing::compute();
    let mut statistics = compute.initial_statistics();
    let batch = Batch {
        rank,
        epoch,
        index,
        records,
    };
    let output = compute.gradient(parameters, &mut statistics, &batch).await;
    output.unwrap().gradient
}

/// Gradients of all pre-cut mini-batches of one worker.
pub(crate) async fn gradients(
    job: &Job,
    rank: usize,
    epoch: usize,
    parameters: &Vector,
) -> Vec<Vector> {
    let mut gradients = Vec::new();
    for index in 0..job.batches_per_worker {
        let records = testing::minibatch_records(job, rank, index);
        gradients.push(gradient(parameters, (rank, epoch, index), records).await);
    }
    gradients
}

/// Runs a job of so many parameters that start at zero, with known gradients.
pub(crate) async fn run_given(job: &Job, parameters: usize, gradient: Gradient) -> Trial {
    let compute = move || testing::given(parameters, gradient);
    testing::run_with(job, compute).await.unwrap()
}

/// Values in -0.5..0.5 that depend on worker and step.
pub(crate) fn drawn(rank: usize, index: usize, parameters: usize) -> Vec<f32> {
    let seed = hash::mix(rank as u64 + 1, index as u64);
    (0..parameters).map(|i| testing::draw(seed, i)).collect()
}
