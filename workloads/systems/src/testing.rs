//! A platform inside one process, for tests: every invocation is a task over
//! channels in memory, and the model is a small formula.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use epochcost_channels::memory::{MemoryLinks, MemoryObjects, MemoryQueue, MemoryTensors};
use epochcost_channels::{Links, ObjectStore, Payload, Queue, TensorStore, Traffic};
use epochcost_datasets::partition;
use epochcost_kernels::hash;
use serde_json::{Map, Value};

use crate::{
    Batch, Channels, Clock, Compute, DATASET_BUCKET, DataLayout, DataPlan, Device, DriveError,
    Driven, Evaluate, Evaluation, Fidelity, Functions, GradientOutput, InvokeError, Job, Outcome,
    Record, Recorder, Requests, Result, Sizes, State, StepRecord, System, SystemError, TEST_KEY,
    TRAIN_KEY, Task, VALIDATION_KEY, Vector, World, drive, find, minibatch_key, requests,
    shard_key,
};

/// The sizes of the model: a prime, so that no chunking comes out even.
pub const SIZES: Sizes = Sizes {
    parameters: 37,
    statistics: 6,
};

/// Name of the model.
pub const MODEL: &str = "formula";

const RECORD_BYTES: usize = 3;

/// A job of three epochs of three mini-batches for `system`, with `overrides`
/// over the fidelity's settings.
///
/// # Errors
/// When there is no such system, or it refuses the settings.
pub fn job(
    system: &str,
    fidelity: Fidelity,
    workers: usize,
    overrides: &Map<String, Value>,
) -> Result<Job> {
    // A system that waits for what never comes would wait for ever.
    epochcost_testing::watch();
    let found = known(system)?;
    Ok(Job {
        trial: "trial".into(),
        system: system.into(),
        fidelity,
        settings: found.settings(fidelity, overrides)?,
        model: MODEL.into(),
        data: DataPlan {
            dataset: "numbers".into(),
            record_bytes: RECORD_BYTES,
            train_samples: workers * 6,
            validation_samples: 0,
            test_samples: 4,
            augment: false,
        },
        workers,
        batch_size: 2,
        batches_per_worker: 3,
        last_batch: None,
        epochs: 3,
        seed: 11,
        optimizer: found.optimizer(fidelity),
        evaluate: Evaluate::EveryEpoch,
        device: Device::Cpu,
        attack: None,
    })
}

/// A job of any system as [`job`] makes it, with waiting shortened unless `overrides` say otherwise.
///
/// # Errors
/// When there is no such system, or it refuses the settings.
pub fn quick_job(
    system: &str,
    fidelity: Fidelity,
    workers: usize,
    overrides: &Map<String, Value>,
) -> Result<Job> {
    let known = known(system)?.settings(fidelity, &Map::new())?;
    let mut settings = overrides.clone();
    for (name, value) in [
        ("poll_ms", 1),
        ("list_poll_ms", 1),
        ("merged_poll_ms", 1),
        ("barrier_poll_ms", 1),
        ("barrier_before_ms", 0),
        ("barrier_settle_ms", 0),
        ("status_poll_ms", 1),
        ("poll_interval_ms", 1),
        ("settle_ms", 0),
        ("document_samples", 1),
        ("k", 1),
    ] {
        if known.get(name).is_some() {
            settings.entry(name).or_insert(value.into());
        }
    }
    job(system, fidelity, workers, &settings)
}

/// Returns the workflow states of a job's system.
///
/// # Errors
/// When there is no such system, or its settings are wrong.
pub fn states(job: &Job) -> Result<Vec<State>> {
    Ok(known(&job.system)?.bind(job)?.states())
}

fn known(system: &str) -> Result<&'static dyn System> {
    find(system).ok_or_else(|| {
        SystemError::malformed("a test's job", format!("there is no system {system:?}"))
    })
}

/// Results of a trial.
pub struct Trial {
    /// Records in the order of their arrival.
    pub records: Vec<Record>,
    /// Invocations and transitions.
    pub driven: Driven,
    /// The channels.
    pub channels: Channels,
}

impl Trial {
    /// Returns the steps in the order in which they ended.
    pub fn steps(&self) -> Vec<&StepRecord> {
        self.records
            .iter()
            .filter_map(|record| match record {
                Record::Step(step) => Some(step.as_ref()),
                _ => None,
            })
            .collect()
    }

    /// Epoch and result of all evaluations, by epoch.
    pub fn evaluations(&self) -> Vec<(usize, Evaluation)> {
        let evaluation = |record: &Record| match record {
            Record::Evaluated {
                epoch, evaluation, ..
            } => Some((*epoch, *evaluation)),
            _ => None,
        };
        let mut evaluations: Vec<_> = self.records.iter().filter_map(evaluation).collect();
        evaluations.sort_by_key(|(epoch, _)| *epoch);
        evaluations
    }

    /// Traffic of the exchange over all steps, untimed.
    pub fn exchange(&self) -> Traffic {
        let mut total = Traffic::default();
        self.steps()
            .iter()
            .for_each(|step| total += step.traffic.exchange.total());
        total.untimed()
    }
}

/// Runs a job to its end.
///
/// # Errors
/// The first invocation that failed.
pub async fn run(job: &Job) -> Result<Trial, DriveError> {
    run_with(job, compute).await
}

/// Runs a job whose invocations compute with what `compute` makes.
///
/// # Errors
/// The first invocation that failed.
pub async fn run_with(job: &Job, compute: impl Make) -> Result<Trial, DriveError> {
    Around::new(job).run(job, compute).await
}

/// Runs a job on the given data.
///
/// # Errors
/// The first invocation that failed.
///
/// # Panics
/// If there are fewer training records than the workers use.
pub async fn run_on(job: &Job, data: &Data, compute: impl Make) -> Result<Trial, DriveError> {
    let around = Around {
        data: data.clone(),
        ..Around::new(job)
    };
    around.run(job, compute).await
}

/// What makes the models of invocations.
pub trait Make: Fn() -> Box<dyn Compute> + Send + Sync + 'static {}

impl<F: Fn() -> Box<dyn Compute> + Send + Sync + 'static> Make for F {}

/// Failures of invocations that are not their code's own.
#[async_trait]
pub trait Failures: Send + Sync {
    /// Ends when the platform kills the running invocation of `task`; by default never.
    async fn killed(&self, _task: &Task) {
        std::future::pending().await
    }
}

/// No failures.
struct Sound;

impl Failures for Sound {}

/// The records of both splits, one after another.
#[derive(Clone)]
pub struct Data {
    /// Training records, [`share`] of each worker: worker 0's, then worker 1's, ….
    pub train: Bytes,
    /// The test split.
    pub test: Bytes,
}

impl Data {
    /// Arbitrary records, as many as the job uses.
    pub fn new(job: &Job) -> Self {
        let train = job.workers * share(job);
        Self {
            train: records(job, 0, train),
            test: records(job, 0, job.data.test_samples),
        }
    }
}

/// What is around the invocations of a job.
pub struct Around {
    /// Data of the job.
    pub data: Data,
    /// Time limit that invocations know of; they are not ended.
    pub limit: Option<Duration>,
    /// How invocations fail.
    pub failures: Arc<dyn Failures>,
    /// Where messages go.
    pub queue: Queue,
}

impl Around {
    /// Returns arbitrary data, and neither limits nor failures.
    pub fn new(job: &Job) -> Self {
        Self {
            data: Data::new(job),
            limit: None,
            failures: Arc::new(Sound),
            queue: Queue::new(Arc::new(MemoryQueue::default())),
        }
    }

    /// Runs a job whose invocations compute with what `compute` makes.
    ///
    /// # Errors
    /// The first invocation that failed without a caller waiting for it.
    ///
    /// # Panics
    /// If there are fewer training records than the workers use.
    pub async fn run(self, job: &Job, compute: impl Make) -> Result<Trial, DriveError> {
        let system = known(&job.system)?;
        let tensors = || TensorStore::new(Arc::new(MemoryTensors::default()));
        let channels = Channels {
            objects: ObjectStore::new(Arc::new(MemoryObjects::default())),
            tensors: Arc::new((0..job.workers).map(|_| tensors()).collect::<Vec<_>>()),
            queue: self.queue,
            links: Links::new(Arc::new(MemoryLinks::default())),
        };
        store_data(job, &self.data, system.bind(job)?.data_layout(), &channels).await?;
        let (requests, follow_ups) = requests();
        let records = Arc::new(Records::default());
        let platform = Platform {
            system,
            channels: channels.clone(),
            compute: Box::new(compute),
            clock: Arc::new(Since(Instant::now())),
            records: records.clone(),
            invoke: Arc::new(requests),
            limit: self.limit,
            failures: self.failures,
        };
        let driven = drive(system, job, &platform, follow_ups).await?;
        let records = std::mem::take(&mut *records.locked());
        Ok(Trial {
            records,
            driven,
            channels,
        })
    }
}

/// Returns the training samples of each worker: an even share of the job's, or as many as
/// an epoch uses where these are more.
pub fn share(job: &Job) -> usize {
    job.samples_per_worker()
        .max(job.data.train_samples / job.workers)
}

/// The records of the pre-cut mini-batch `batch` of worker `rank`.
pub fn minibatch_records(job: &Job, rank: usize, batch: usize) -> Payload {
    let first = rank * share(job) + batch * job.batch_size;
    records(job, first, job.samples_of(batch)).into()
}

/// Records of arbitrary bytes: `count` of them from number `first` on.
pub fn records(job: &Job, first: usize, count: usize) -> Bytes {
    let size = job.data.record_bytes;
    (first * size..(first + count) * size)
        .map(|index| hash::splitmix64(index as u64 + 1) as u8)
        .collect()
}

async fn store_data(job: &Job, data: &Data, layout: DataLayout, channels: &Channels) -> Result<()> {
    let share = share(job);
    let size = job.data.record_bytes;
    let train_bytes =
        |first: usize, count: usize| data.train.slice(first * size..(first + count) * size);
    let train = |first: usize, count: usize| -> Payload { train_bytes(first, count).into() };
    let mut objects = vec![(TEST_KEY.to_owned(), data.test.clone().into())];
    if job.data.validation_samples > 0 {
        // Other records than those of training.
        let first = job.workers * share;
        let held_out = records(job, first, job.data.validation_samples);
        objects.push((VALIDATION_KEY.to_owned(), held_out.into()));
    }
    match layout {
        DataLayout::Whole => objects.push((TRAIN_KEY.into(), train(0, share * job.workers))),
        DataLayout::Shards => objects
            .extend((0..job.workers).map(|rank| (shard_key(rank), train(rank * share, share)))),
        DataLayout::Minibatches => {
            for rank in 0..job.workers {
                for batch in 0..partition::covering_batches(share, job.batch_size) {
                    let first = batch * job.batch_size;
                    let places = first..first + job.samples_of(batch);
                    let records = places.map(|place| train_bytes(rank * share + place % share, 1));
                    let key = minibatch_key(job.workers, job.batch_size, rank, batch);
                    objects.push((key, records.collect::<Vec<_>>().concat().into()));
                }
            }
        }
    }
    for (key, body) in objects {
        channels.objects.put(DATASET_BUCKET, &key, body).await?;
    }
    Ok(())
}

/// The model: a gradient that pulls each parameter towards a number drawn from
/// the batch.
pub fn compute() -> Box<dyn Compute> {
    Formula::boxed(SIZES, Kind::Drawn)
}

/// The same model where nothing but sizes exists.
pub fn phantom() -> Box<dyn Compute> {
    Formula::boxed(SIZES, Kind::Phantom)
}

/// Returns the gradient of a worker's mini-batch for so many parameters.
pub type Gradient = fn(rank: usize, index: usize, parameters: usize) -> Vec<f32>;

/// A model of so many parameters that start at zero, with known gradients.
pub fn given(parameters: usize, gradient: Gradient) -> Box<dyn Compute> {
    let sizes = Sizes {
        parameters,
        statistics: 0,
    };
    Formula::boxed(sizes, Kind::Given(gradient))
}

enum Kind {
    Drawn,
    Given(Gradient),
    Phantom,
}

struct Formula {
    sizes: Sizes,
    kind: Kind,
}

impl Formula {
    fn boxed(sizes: Sizes, kind: Kind) -> Box<dyn Compute> {
        Box::new(Self { sizes, kind })
    }

    /// So many elements, which are numbered.
    fn vector(&self, len: usize, element: impl Fn(usize) -> f32) -> Vector {
        match self.kind {
            Kind::Phantom => Vector::Phantom { len },
            _ => Vector::Real((0..len).map(element).collect()),
        }
    }
}

/// Number `index` of a seed, in -0.5..0.5.
pub fn draw(seed: u64, index: usize) -> f32 {
    hash::unit_f32(hash::mix(seed, index as u64)) - 0.5
}

#[async_trait]
impl Compute for Formula {
    fn parameters(&self) -> usize {
        self.sizes.parameters
    }

    fn statistics(&self) -> usize {
        self.sizes.statistics
    }

    async fn initial_parameters(&mut self, seed: u64) -> Result<Vector> {
        Ok(self.vector(self.sizes.parameters, |index| match self.kind {
            Kind::Given(_) => 0.0,
            _ => draw(seed, index),
        }))
    }

    fn initial_statistics(&self) -> Vector {
        self.vector(self.sizes.statistics, |_| 0.0)
    }

    async fn gradient(
        &mut self,
        parameters: &Vector,
        statistics: &mut Vector,
        batch: &Batch,
    ) -> Result<GradientOutput> {
        let Some(parameters) = parameters.real() else {
            return Ok(GradientOutput {
                loss: None,
                gradient: self.vector(self.sizes.parameters, |_| 0.0),
            });
        };
        let gradient: Vec<f32> = if let Kind::Given(gradient) = self.kind {
            gradient(batch.rank, batch.index, parameters.len())
        } else {
            let records = batch.records.bytes()?;
            let seed = records
                .iter()
                .fold(0, |seed, byte| hash::mix(seed, u64::from(*byte)));
            let towards = |(index, parameter): (usize, &f32)| parameter - draw(seed, index);
            parameters.iter().enumerate().map(towards).collect()
        };
        if let Some(statistics) = statistics.real_mut() {
            statistics
                .iter_mut()
                .for_each(|statistic| *statistic += 1.0);
        }
        let loss = gradient.iter().map(|g| f64::from(*g) * f64::from(*g)).sum();
        Ok(GradientOutput {
            loss: Some(loss),
            gradient: Vector::Real(gradient),
        })
    }

    async fn evaluate(
        &mut self,
        parameters: &Vector,
        _statistics: &Vector,
        test: &Batch,
    ) -> Result<Option<Evaluation>> {
        let Some(parameters) = parameters.real() else {
            return Ok(None);
        };
        let loss = parameters
            .iter()
            .map(|w| f64::from(*w) * f64::from(*w))
            .sum();
        let samples = test.records.len() as usize / RECORD_BYTES;
        Ok(Some(Evaluation {
            loss,
            correct: samples / 2,
            samples,
        }))
    }
}

struct Platform {
    system: &'static dyn System,
    channels: Channels,
    compute: Box<dyn Make>,
    clock: Arc<Since>,
    records: Arc<Records>,
    invoke: Arc<Requests>,
    limit: Option<Duration>,
    failures: Arc<dyn Failures>,
}

#[async_trait]
impl Functions for Platform {
    async fn invoke(&self, task: Task) -> Result<Outcome, InvokeError> {
        let (function, rank) = (task.function.clone(), task.rank);
        let invoked = task.clone();
        let mut world = World::new(
            task,
            &self.channels,
            (self.compute)(),
            self.invoke.clone(),
            self.clock.clone(),
            self.records.clone(),
        )
        .with_limit(self.limit);
        let system = self.system;
        let mut running = tokio::spawn(async move { system.run(&mut world).await });
        let ended = tokio::select! {
            ended = &mut running => ended,
            () = self.failures.killed(&invoked) => {
                running.abort();
                running.await
            }
        };
        let failed = |reason: String| InvokeError {
            function,
            rank,
            reason,
        };
        match ended {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(panicked) => Err(failed(panicked.to_string())),
        }
    }
}

struct Since(Instant);

#[async_trait]
impl Clock for Since {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        if duration.is_zero() {
            tokio::task::yield_now().await
        } else {
            tokio::time::sleep(duration).await
        }
    }
}

#[derive(Default)]
struct Records(Mutex<Vec<Record>>);

impl Records {
    fn locked(&self) -> std::sync::MutexGuard<'_, Vec<Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorder for Records {
    fn record(&self, record: Record) {
        self.locked().push(record);
    }
}
