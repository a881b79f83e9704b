//! The training loop that AllReduce, ScatterReduce, the GPU baseline and
//! LambdaML's variants share: they differ only in what is exchanged, and how.

use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::data::Shard;
use crate::mechanics::continuation::{
    Pace, follow_together, go_on, load_checkpoint, load_monitor, save_checkpoint, save_own,
    take_own,
};
use crate::mechanics::monitor::Monitor;
use crate::mechanics::published;
use crate::mechanics::replica::Replica;
use crate::{
    Batch, DataLayout, Function, Host, Job, Outcome, Replicas, Result, Stage, Task, Vector, World,
};

/// The one function of these systems.
pub(crate) const FUNCTION: &str = "train";
/// Deployment of systems whose workers are functions.
pub(crate) const FUNCTIONS: [Function; 1] = [Function::worker(FUNCTION, Host::Function)];
/// Deployment of systems whose workers are instances.
pub(crate) const INSTANCES: [Function; 1] = [Function::worker(FUNCTION, Host::Instance)];

/// Position of a gradient exchange: the epoch, and the mini-batch in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Iteration {
    pub(crate) epoch: usize,
    pub(crate) batch: usize,
}

impl Iteration {
    /// Returns the next iteration of a job of `batches` mini-batches per epoch.
    fn next(self, batches: usize) -> Self {
        let is_last = self.batch + 1 >= batches;
        Self {
            epoch: self.epoch + usize::from(is_last),
            batch: if is_last { 0 } else { self.batch + 1 },
        }
    }

    /// Returns the previous iteration of a job of `batches` mini-batches per epoch.
    pub(crate) fn previous(self, batches: usize) -> Option<Self> {
        if let Some(batch) = self.batch.checked_sub(1) {
            return Some(Self { batch, ..self });
        }
        let epoch = self.epoch.checked_sub(1)?;
        let batch = batches.saturating_sub(1);
        Some(Self { epoch, batch })
    }
}

/// A way to exchange gradients.
#[async_trait]
pub(crate) trait Exchange: Send {
    /// Computes this worker's gradient of a batch. Parts of it may be on their way
    /// to the others before it is complete.
    async fn gradient(
        &mut self,
        world: &mut World,
        replica: &mut Replica,
        batch: &Batch,
        _at: Iteration,
    ) -> Result<Vector> {
        replica.gradient(world, batch).await
    }

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

/// Values that workers exchange, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Exchanged {
    /// Gradients, in every step; the optimizer steps with the exchanged gradient.
    Gradients,
    /// Parameters, in every step: the optimizer steps with the worker's
    /// own gradient, and what comes back replaces the parameters.
    ModelEveryStep,
    /// Parameters, after the last step of an epoch only (model averaging).
    ModelEveryEpoch,
}

impl Exchanged {
    /// Returns the number of exchanges of a job.
    pub(crate) fn rounds(self, job: &Job) -> u64 {
        let an_epoch = match self {
            Self::Gradients | Self::ModelEveryStep => job.batches_per_worker,
            Self::ModelEveryEpoch => 1,
        };
        (job.epochs * an_epoch) as u64
    }
}

/// Options of the training loop around the exchange.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopOptions {
    /// Values that workers exchange, and when.
    pub(crate) exchanges: Exchanged,
    /// Layout of the records that a worker draws its batches from.
    pub(crate) layout: DataLayout,
    /// Whether all replicas start from the same parameters.
    pub(crate) seeded_replicas: bool,
    /// Whether the log object is rewritten inside the timed steps.
    pub(crate) rewrites_log: bool,
    /// Epochs after which a worker re-invokes itself.
    pub(crate) epochs_per_invocation: Option<usize>,
    /// Whether it re-invokes itself when its time is nearly over.
    pub(crate) continues_by_time: bool,
}

impl Default for LoopOptions {
    /// Gradients in every step, of replicas that start alike, in one invocation.
    fn default() -> Self {
        Self {
            exchanges: Exchanged::Gradients,
            layout: DataLayout::Shards,
            seeded_replicas: true,
            rewrites_log: false,
            epochs_per_invocation: None,
            continues_by_time: false,
        }
    }
}

impl LoopOptions {
    /// The epoch at which the task's invocation ends.
    pub(crate) fn end(self, task: &Task) -> usize {
        match self.epochs_per_invocation {
            Some(epochs) => task.job.epochs.min(task.epoch + epochs.max(1)),
            None => task.job.epochs,
        }
    }
}

/// Trains from the task's epoch to the end, or to where the worker re-invokes
/// itself: after a number of epochs (LambdaML), or when its time is nearly over.
pub(crate) async fn train(
    world: &mut World,
    exchange: &mut dyn Exchange,
    options: LoopOptions,
) -> Result<Outcome> {
    let (start, epochs) = (world.task.epoch, world.task.job.epochs);
    let end = options.end(&world.task);
    let mut replica = Replica::initial(world, options.seeded_replicas).await?;
    // Restore the worker's own checkpoint within an epoch, worker 0's between epochs.
    let mut first = 0;
    if let Some(batch) = world.task.batch {
        first = batch;
        let at = Iteration {
            epoch: start,
            batch,
        };
        replica.restore(&take_own(world, at).await?)?;
    } else if start > 0 {
        replica.restore(&load_checkpoint(world, start).await?)?;
    }
    // Take over what worker 0 found after the last epoch.
    let mut monitor = Monitor::new(&world.task.job);
    if let (Some(monitor), Some(last)) = (&mut monitor, start.checked_sub(1)) {
        *monitor = load_monitor(world, last).await?;
        replica.obey(monitor);
    }
    // Train until the end, or until this invocation must end.
    let shard = Shard::fetch(world, options.layout).await?;
    let mut pace = Pace::default();
    for epoch in start..end {
        let run = Epoch {
            options,
            shard: &shard,
            epoch,
            first: std::mem::take(&mut first),
        };
        let next = run
            .train(world, exchange, &mut replica, &mut monitor, &mut pace)
            .await?;
        if monitor.as_ref().is_some_and(|monitor| monitor.is_over) {
            return Ok(Outcome::Finished);
        }
        if let Some(next) = next {
            return go_on(world, next.epoch, Some(next.batch)).await;
        }
    }
    if end == epochs {
        return Ok(Outcome::Finished);
    }
    go_on(world, end, None).await
}

/// An epoch of one worker.
struct Epoch<'a> {
    options: LoopOptions,
    shard: &'a Shard,
    epoch: usize,
    /// The mini-batch that it begins with.
    first: usize,
}

impl Epoch<'_> {
    /// Trains; returns where the worker's next invocation continues, if it must end here.
    async fn train(
        &self,
        world: &mut World,
        exchange: &mut dyn Exchange,
        replica: &mut Replica,
        monitor: &mut Option<Monitor>,
        pace: &mut Pace,
    ) -> Result<Option<Iteration>> {
        let (options, shard, epoch) = (self.options, self.shard, self.epoch);
        let batches = world.task.job.batches_per_worker;
        // Workers that all hold the whole archive shuffle it independently.
        let order = shard.batches(world, world.rank() as u64, epoch, 1);
        for index in self.first..batches {
            // Compute the mini-batch's gradient.
            let began = world.clock.now();
            world.at(epoch, Some(index));
            world.enter(Stage::FetchDataset);
            let batch = shard.batch(&order, index)?;
            world.enter(Stage::ComputeGradients);
            let at = Iteration {
                epoch,
                batch: index,
            };
            let gradient = exchange.gradient(world, replica, &batch, at).await?;
            published::log(world, options.rewrites_log, "gradient computed").await?;
            // Exchange the gradient and step with it, or step and exchange the model.
            let is_last = index + 1 == batches;
            if options.exchanges == Exchanged::Gradients {
                let gradient = exchange.exchange(world, gradient, at).await?;
                published::log(world, options.rewrites_log, "gradients exchanged").await?;
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
                published::log(world, options.rewrites_log, "models exchanged").await?;
            }
            published::log(world, options.rewrites_log, "model updated").await?;
            // End the epoch after its last mini-batch.
            if is_last {
                exchange.end_epoch(world, epoch).await?;
                world.enter(Stage::DetectConvergence);
                self.detect_convergence(world, replica, monitor).await?;
                save_checkpoint(world, options, replica, epoch + 1).await?;
            }
            // Hand over to the next invocation where time runs out.
            let next = at.next(batches);
            if self.ends_before(world, next, began, pace) {
                save_own(world, replica, next).await?;
                world.end_step();
                return Ok(Some(next));
            }
            world.end_step();
        }
        Ok(None)
    }

    /// Whether there is too little time left for `next`.
    fn ends_before(
        &self,
        world: &World,
        next: Iteration,
        began: Duration,
        pace: &mut Pace,
    ) -> bool {
        let step = world.clock.now().saturating_sub(began);
        let is_enough = pace.allows_another(step, world.time_left());
        let is_over = next.epoch == world.task.job.epochs;
        self.options.continues_by_time && !is_enough && !is_over
    }

    /// Worker 0 evaluates, and with a monitor decides what all do then.
    async fn detect_convergence(
        &self,
        world: &mut World,
        replica: &mut Replica,
        monitor: &mut Option<Monitor>,
    ) -> Result<()> {
        let mut loss = None;
        if world.rank() == 0 && world.task.job.evaluates_after(self.epoch) {
            loss = replica.evaluate(world, self.epoch).await?;
        }
        follow_together(world, monitor, replica, loss, self.epoch).await
    }
}
