//! The training loop that AllReduce, ScatterReduce and the GPU baseline share:
//! they differ only in how gradients are exchanged.

use std::time::Duration;

use async_trait::async_trait;
use epochcost_channels::{ListPage, ObjectStore, Payload};
use epochcost_kernels::hash;
use epochcost_kernels::optimizer::Optimizer;
use serde::{Deserialize, Serialize};

use crate::data::{self, Shard};
use crate::waiting::Place;
use crate::{
    Batch, DataLayout, Job, Outcome, Replicas, Result, Stage, SystemError, Task, Vector, World,
    arithmetic, published,
};

/// The one function of these systems.
pub(crate) const FUNCTION: &str = "train";

const CHECKPOINT_BUCKET: &str = "cp-model";
const CHECKPOINT_POLL: Duration = Duration::from_millis(100);

/// Which gradient exchange this is: the epoch, and the mini-batch in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Iteration {
    pub(crate) epoch: usize,
    pub(crate) batch: usize,
}

impl Iteration {
    /// The one before, in a job of `batches` mini-batches an epoch.
    pub(crate) fn previous(self, batches: usize) -> Option<Self> {
        let Self { epoch, batch } = self;
        match (epoch, batch) {
            (0, 0) => None,
            (epoch, 0) => Some(Self {
                epoch: epoch - 1,
                batch: batches.saturating_sub(1),
            }),
            (epoch, batch) => Some(Self {
                epoch,
                batch: batch - 1,
            }),
        }
    }
}

/// One way to exchange gradients.
#[async_trait]
pub(crate) trait Exchange: Send {
    /// Gives this worker's gradient, returns the one to step with.
    async fn exchange(
        &mut self,
        world: &mut World,
        gradient: Vector,
        at: Iteration,
    ) -> Result<Vector>;

    /// Called after the last exchange of an epoch.
    async fn end_epoch(&mut self, _world: &mut World, _epoch: usize) -> Result<()> {
        Ok(())
    }
}

/// Refuses a task for any other function.
pub(crate) fn expect_function(world: &World, system: &'static str) -> Result<()> {
    if world.task.function == FUNCTION {
        return Ok(());
    }
    let function = world.task.function.clone();
    Err(SystemError::UnknownFunction { system, function })
}

/// Replicas that start alike stay alike: all step with the same bits.
pub(crate) fn replicas(seeded: bool) -> Replicas {
    if seeded {
        Replicas::Identical
    } else {
        Replicas::Differ {
            reason: "every replica starts from parameters of its own",
        }
    }
}

/// What workers exchange, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Exchanged {
    /// Their gradients, in every step; the optimizer steps with what comes back.
    Gradients,
    /// Their parameters, in every step: the optimizer steps with the worker's
    /// own gradient, and what comes back replaces the parameters.
    ModelEveryStep,
    /// Likewise, after the last step of an epoch only (model averaging).
    ModelEveryEpoch,
}

impl Exchanged {
    /// Exchanges of a job.
    pub(crate) fn rounds(self, job: &Job) -> u64 {
        let an_epoch = match self {
            Self::Gradients | Self::ModelEveryStep => job.batches_per_worker,
            Self::ModelEveryEpoch => 1,
        };
        (job.epochs * an_epoch) as u64
    }
}

/// What the published versions do differently around the exchange.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopOptions {
    /// What workers exchange, and when.
    pub(crate) exchanges: Exchanged,
    /// Whose records a worker draws its batches from.
    pub(crate) layout: DataLayout,
    /// Whether all replicas start from the same parameters.
    pub(crate) seeded_replicas: bool,
    /// Whether the log object is rewritten inside the timed steps.
    pub(crate) rewrites_log: bool,
    /// After how many epochs a worker re-invokes itself.
    pub(crate) epochs_per_invocation: Option<usize>,
}

impl LoopOptions {
    /// The epoch at which the task's invocation ends.
    fn end(self, task: &Task) -> usize {
        match self.epochs_per_invocation {
            Some(epochs) => task.job.epochs.min(task.epoch + epochs.max(1)),
            None => task.job.epochs,
        }
    }
}

/// A worker's model and optimizer.
pub(crate) struct Replica {
    pub(crate) parameters: Vector,
    pub(crate) statistics: Vector,
    optimizer: Optimizer,
}

impl Replica {
    /// The initial replica. Unseeded replicas start from parameters of their
    /// own, drawn from the job's seed and the rank so that runs repeat.
    pub(crate) async fn initial(world: &mut World, seeded: bool) -> Result<Self> {
        let job = &world.task.job;
        let seed = if seeded {
            job.seed
        } else {
            hash::mix(job.seed, 1 + world.rank() as u64)
        };
        let optimizer = Optimizer::new(job.optimizer);
        Ok(Self {
            parameters: world.compute.initial_parameters(seed).await?,
            statistics: world.compute.initial_statistics(),
            optimizer,
        })
    }

    /// The gradient of a batch, with its loss noted; updates the statistics.
    pub(crate) async fn gradient(&mut self, world: &mut World, batch: &Batch) -> Result<Vector> {
        let output = world
            .compute
            .gradient(&self.parameters, &mut self.statistics, batch)
            .await?;
        world.note_loss(output.loss);
        Ok(output.gradient)
    }

    /// One optimizer step.
    pub(crate) fn update(&mut self, gradient: &Vector) -> Result<()> {
        // Reads the parameters, the gradient and the momentum; writes two of them.
        arithmetic::note(5, gradient.len());
        if let (Some(parameters), Some(gradient)) = (self.parameters.real_mut(), gradient.real()) {
            self.optimizer.step(parameters, gradient)?;
        }
        Ok(())
    }

    /// Evaluates on the test split and records the result.
    pub(crate) async fn evaluate(&self, world: &mut World, epoch: usize) -> Result<()> {
        let test = data::test_split(world, epoch).await?;
        let evaluation = world
            .compute
            .evaluate(&self.parameters, &self.statistics, &test)
            .await?;
        if let Some(evaluation) = evaluation {
            world.record_evaluation(epoch, evaluation);
        }
        Ok(())
    }

    /// Parameters, statistics and optimizer state, each preceded by its length.
    fn checkpoint(&self) -> Result<Payload> {
        let parameters = self.parameters.encode();
        let statistics = self.statistics.encode();
        let state = match self.parameters {
            Vector::Real(_) => Payload::from(self.optimizer.state_bytes()),
            Vector::Phantom { .. } => return Ok(parameters),
        };
        let mut checkpoint = Vec::new();
        for part in [parameters, statistics, state] {
            checkpoint.extend_from_slice(&part.len().to_le_bytes());
            checkpoint.extend_from_slice(part.bytes()?);
        }
        Ok(checkpoint.into())
    }

    fn restore(&mut self, checkpoint: &Payload) -> Result<()> {
        if let Payload::Phantom { .. } = checkpoint {
            return Ok(());
        }
        let mut rest = checkpoint.bytes()?.clone();
        let mut part = || {
            let malformed = || SystemError::Malformed {
                what: "a checkpoint".into(),
                reason: "it is shorter than its lengths say".into(),
            };
            let (length, _) = rest.split_first_chunk::<8>().ok_or_else(malformed)?;
            let length = u64::from_le_bytes(*length) as usize;
            if rest.len() - 8 < length {
                return Err(malformed());
            }
            let mut part = rest.split_to(8 + length);
            Ok(part.split_off(8))
        };
        self.parameters = Vector::decode(&part()?.into())?;
        self.statistics = Vector::decode(&part()?.into())?;
        self.optimizer = Optimizer::from_state(self.optimizer.spec(), &part()?)?;
        Ok(())
    }
}

/// Trains from the task's epoch to the end, or to where the worker re-invokes
/// itself (LambdaML: by number of epochs, never by remaining time).
pub(crate) async fn train(
    world: &mut World,
    exchange: &mut dyn Exchange,
    options: LoopOptions,
) -> Result<Outcome> {
    let (start, epochs) = (world.task.epoch, world.task.job.epochs);
    let end = options.end(&world.task);
    let mut replica = Replica::initial(world, options.seeded_replicas).await?;
    if start > 0 {
        replica.restore(&load_checkpoint(world, start).await?)?;
    }
    let shard = Shard::fetch(world, options.layout).await?;
    for epoch in start..end {
        train_epoch(world, exchange, options, &mut replica, &shard, epoch).await?;
    }
    if end == epochs {
        return Ok(Outcome::Finished);
    }
    world
        .invoke
        .forget(Task {
            epoch: end,
            ..world.task.clone()
        })
        .await?;
    Ok(Outcome::Continued { epoch: end })
}

async fn train_epoch(
    world: &mut World,
    exchange: &mut dyn Exchange,
    options: LoopOptions,
    replica: &mut Replica,
    shard: &Shard,
    epoch: usize,
) -> Result<()> {
    let batches = world.task.job.batches_per_worker;
    // Workers that all hold the whole archive shuffle it independently.
    let order = shard.batches(world, world.task.job.seed, world.rank() as u64, epoch);
    for index in 0..batches {
        world.at(epoch, Some(index));
        world.enter(Stage::FetchDataset);
        let batch = shard.batch(&order, index)?;
        world.enter(Stage::ComputeGradients);
        let gradient = replica.gradient(world, &batch).await?;
        log(world, options, "gradient computed").await?;
        let at = Iteration {
            epoch,
            batch: index,
        };
        let is_last = index + 1 == batches;
        if options.exchanges == Exchanged::Gradients {
            let gradient = exchange.exchange(world, gradient, at).await?;
            log(world, options, "gradients exchanged").await?;
            world.enter(Stage::UpdateModel);
            replica.update(&gradient)?;
            world.note_parameters(&replica.parameters);
        } else {
            world.enter(Stage::UpdateModel);
            replica.update(&gradient)?;
            if is_last || options.exchanges == Exchanged::ModelEveryStep {
                let own = replica.parameters.clone();
                replica.parameters = exchange.exchange(world, own, at).await?;
                world.note_parameters(&replica.parameters);
            }
            log(world, options, "models exchanged").await?;
        }
        log(world, options, "model updated").await?;
        if is_last {
            exchange.end_epoch(world, epoch).await?;
            world.enter(Stage::DetectConvergence);
            if world.rank() == 0 && world.task.job.evaluates_after(epoch) {
                replica.evaluate(world, epoch).await?;
            }
            save_checkpoint(world, options, replica, epoch + 1).await?;
        }
        world.end_step();
    }
    Ok(())
}

/// The published versions write five or six lines a step; two are written at
/// each of the three places where this is called.
async fn log(world: &World, options: LoopOptions, text: &str) -> Result<()> {
    if options.rewrites_log {
        published::log_line(world, text).await?;
        published::log_line(world, text).await?;
    }
    Ok(())
}

fn checkpoint_key(next_epoch: usize) -> String {
    format!("checkpoint_{}.pt", next_epoch.saturating_sub(1))
}

/// Worker 0 writes a checkpoint before it re-invokes itself, inside its last
/// step so that the step's record counts it.
async fn save_checkpoint(
    world: &World,
    options: LoopOptions,
    replica: &Replica,
    next_epoch: usize,
) -> Result<()> {
    let is_over = next_epoch == world.task.job.epochs;
    if world.rank() != 0 || is_over || next_epoch != options.end(&world.task) {
        return Ok(());
    }
    let objects = &world.state.objects;
    let key = checkpoint_key(next_epoch);
    objects
        .put(CHECKPOINT_BUCKET, &key, replica.checkpoint()?)
        .await?;
    Ok(())
}

/// The checkpoint that worker 0 wrote before `epoch`. The published code does
/// not wait for it, so that a worker faster than worker 0's upload fails; here
/// it is awaited.
async fn load_checkpoint(world: &mut World, epoch: usize) -> Result<Payload> {
    let key = checkpoint_key(epoch);
    let waiting = world.waiting(format!("checkpoint {key}"), CHECKPOINT_POLL, None);
    let checkpoint = world
        .await_object(Place::State, CHECKPOINT_BUCKET, &key, waiting)
        .await?;
    world.enter(Stage::FetchDataset);
    Ok(checkpoint)
}

/// A listing of a bucket, page by page; only the first page if
/// `first_page_only`, as the published wrappers do (their list never asks for
/// the next 1,000 keys).
pub(crate) struct Listing {
    bucket: &'static str,
    first_page_only: bool,
    after: Option<String>,
    is_over: bool,
}

impl Listing {
    pub(crate) fn of(bucket: &'static str, first_page_only: bool) -> Self {
        Self {
            bucket,
            first_page_only,
            after: None,
            is_over: false,
        }
    }

    /// The next page; `None` after the last.
    pub(crate) async fn next(&mut self, objects: &dyn ObjectStore) -> Result<Option<ListPage>> {
        if self.is_over {
            return Ok(None);
        }
        let page = objects.list(self.bucket, "", self.after.as_deref()).await?;
        self.is_over = self.first_page_only || !page.truncated;
        self.after = page.keys.last().cloned();
        Ok(Some(page))
    }
}

/// Every key of a bucket, over all pages that a [`Listing`] has.
pub(crate) async fn list_keys(
    objects: &dyn ObjectStore,
    bucket: &'static str,
    first_page_only: bool,
) -> Result<Vec<String>> {
    let mut listing = Listing::of(bucket, first_page_only);
    let mut keys = Vec::new();
    while let Some(page) = listing.next(objects).await? {
        keys.extend_from_slice(&page.keys);
    }
    Ok(keys)
}

/// The number fields of a key `a_b_c`, or nothing if it is not one.
pub(crate) fn key_fields<const N: usize>(key: &str) -> Option<[usize; N]> {
    let mut fields = [0; N];
    let mut parts = key.split('_');
    for field in &mut fields {
        *field = parts.next()?.parse().ok()?;
    }
    parts.next().is_none().then_some(fields)
}
