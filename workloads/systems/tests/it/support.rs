//! What the tests share: jobs, closed forms, what a trial leaves, and one process that takes the
//! same steps.

use async_trait::async_trait;
use epochcost_channels::{Payload, Traffic};
use epochcost_kernels::hash;
use epochcost_kernels::optimizer::{Optimizer, OptimizerSpec, Sgd};
use epochcost_systems::testing::{self, SIZES, Trial};
use epochcost_systems::{
    Batch, Compute, Evaluation, Fidelity, GradientOutput, Job, Record, Replicas, Result,
    SettingsError, StepRecord, Vector, find,
};
use serde_json::{Map, Value};

pub(crate) fn overrides(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn job_of(system: &str, fidelity: Fidelity, workers: usize, settings: Value) -> Job {
    testing::job(system, fidelity, workers, &overrides(settings)).unwrap()
}

pub(crate) fn sgd(learning_rate: f64, momentum: f64) -> OptimizerSpec {
    OptimizerSpec::Sgd(Sgd {
        learning_rate,
        momentum,
        weight_decay: 0.0,
    })
}

pub(crate) async fn run(job: &Job) -> Trial {
    testing::run(job).await.unwrap()
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

/// Returns the gradient of a worker's mini-batch for so many parameters.
pub(crate) type Gradient = fn(rank: usize, index: usize, parameters: usize) -> Vec<f32>;

/// Parameters that start at zero, and gradients that are known.
struct Given {
    parameters: usize,
    gradient: Gradient,
}

/// Runs a job of so many parameters that start at zero, with known gradients.
pub(crate) async fn run_given(job: &Job, parameters: usize, gradient: Gradient) -> Trial {
    let compute = move || -> Box<dyn Compute> {
        Box::new(Given {
            parameters,
            gradient,
        })
    };
    testing::run_with(job, compute).await.unwrap()
}

/// Values in -0.5..0.5 that depend on worker and step.
pub(crate) fn drawn(rank: usize, index: usize, parameters: usize) -> Vec<f32> {
    let seed = hash::mix(rank as u64 + 1, index as u64);
    let element = |i: usize| hash::unit_f32(hash::mix(seed, i as u64)) - 0.5;
    (0..parameters).map(element).collect()
}

#[async_trait]
impl Compute for Given {
    fn parameters(&self) -> usize {
        self.parameters
    }

    fn statistics(&self) -> usize {
        0
    }

    async fn initial_parameters(&mut self, _seed: u64) -> Result<Vector> {
        Ok(Vector::Real(vec![0.0; self.parameters]))
    }

    fn initial_statistics(&self) -> Vector {
        Vector::Real(vec![])
    }

    async fn gradient(
        &mut self,
        _parameters: &Vector,
        _statistics: &mut Vector,
        batch: &Batch,
    ) -> Result<GradientOutput> {
        let gradient = (self.gradient)(batch.rank, batch.index, self.parameters);
        Ok(GradientOutput {
            loss: None,
            gradient: Vector::Real(gradient),
        })
    }

    async fn evaluate(
        &mut self,
        _parameters: &Vector,
        _statistics: &Vector,
        _test: &Batch,
    ) -> Result<Option<Evaluation>> {
        Ok(None)
    }
}
