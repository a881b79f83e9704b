use std::time::Duration;

use epochcost_kernels::{hash, reduce};

use super::inbox::Inbox;
use super::message::Message;
use super::supervisor::next_message;
use super::update::{self, Significance, Update};
use super::{
    AdditionOrder, Aggregate, Exchange, FinalModel, Settings, supervisor_queue, worker_queue,
};
use crate::contract::arithmetic;
use crate::contract::data;
use crate::mechanics::continuation::{follow_together, go_on, load_monitor, save_own, take_own};
use crate::mechanics::monitor::Monitor;
use crate::mechanics::published;
use crate::mechanics::replica::Replica;
use crate::mechanics::synchronous::Iteration;
use crate::mechanics::transfers::{at_once, in_turn};
use crate::{Evaluate, Outcome, Result, Stage, SystemError, Vector, World};

const BUCKET: &str = "updates";
/// State that an invocation leaves for the next.
const LEFT_BUCKET: &str = "mlless-left";
/// Mixed with the job's seed and the number of wraps to shuffle the mini-batch
/// list: the originals' constant seed.
const SHUFFLE_STREAM: u64 = 8;

fn update_key(trial: &str, rank: usize, step: u64) -> String {
    format!("{trial}_up_w{rank}_i{step}")
}

fn model_key(trial: &str, rank: usize) -> String {
    format!("{trial}_model_r_w{rank}")
}

/// Keys of what an invocation leaves for the one that begins at `epoch`.
fn left_keys(rank: usize, epoch: usize) -> [String; 2] {
    ["unsent", "inbox"].map(|what| format!("{what}_w{rank}_e{epoch}"))
}

fn damaged(key: &str, error: &serde_json::Error) -> SystemError {
    SystemError::malformed(key, error.to_string())
}

/// The order of all W·B mini-batches in an epoch: as they are at first,
/// shuffled whenever workers wrap.
fn minibatch_order(seed: u64, minibatches: usize, epoch: usize) -> Vec<u32> {
    match epoch {
        0 => (0..minibatches as u32).collect(),
        wraps => hash::permutation(
            minibatches as u32,
            hash::mix(seed, SHUFFLE_STREAM + wraps as u64),
        ),
    }
}

/// Trains from the task's epoch to the last, or to the one at which the next invocation goes on.
pub(super) async fn run(world: &mut World, settings: Settings) -> Result<Outcome> {
    let job = &world.task.job;
    let (epochs, batches, seed) = (job.epochs, job.batches_per_worker, job.seed);
    let (workers, rank) = (world.workers(), world.rank());
    let (begin, end) = (world.task.epoch, settings.end(&world.task));
    let mut worker = Worker::start(world, settings).await?;
    let mut monitor = Monitor::new(&world.task.job);
    if let (Some(monitor), Some(last)) = (&mut monitor, begin.checked_sub(1)) {
        *monitor = load_monitor(world, last).await?;
        worker.replica.obey(monitor);
    }
    let (mut step, mut ended) = ((begin * batches) as u64, begin);
    // Epochs, in which the workers that are left go through the list side by side.
    'epochs: for epoch in begin..end {
        ended = epoch;
        let order = minibatch_order(seed, workers * batches, epoch);
        let (mut position, mut batch) = (0, 0);
        while position + worker.alive.len() <= order.len() {
            world.at(epoch, Some(batch));
            let place = worker.alive.iter().position(|alive| *alive == rank);
            let minibatch = place.and_then(|place| order.get(position + place));
            let minibatch = *minibatch.ok_or_else(|| beyond(rank, workers))?;
            position += worker.alive.len();
            let is_last = epoch + 1 == epochs && position + worker.alive.len() > order.len();
            worker
                .step(world, step, epoch, minibatch as usize, is_last)
                .await?;
            if worker.removes(world, step).await? == Some(rank) {
                world.end_step();
                return Ok(Outcome::Finished);
            }
            // The end of an epoch, or of training.
            let is_finished = worker.inbox.is_last(step);
            if is_finished || position + worker.alive.len() > order.len() {
                let is_last = is_finished || epoch + 1 == epochs;
                let loss = worker.detect_convergence(world, epoch, is_last).await?;
                let replica = &mut worker.replica;
                follow_together(world, &mut monitor, replica, loss, epoch).await?;
                let is_over = is_last || monitor.as_ref().is_some_and(|monitor| monitor.is_over);
                if epoch + 1 == end && !is_over {
                    worker.hand_over(world, end).await?;
                    world.end_step();
                    return go_on(world, end, None).await;
                }
            }
            world.end_step();
            step += 1;
            batch += 1;
            if is_finished {
                break 'epochs;
            }
        }
        if monitor.as_ref().is_some_and(|monitor| monitor.is_over) {
            break;
        }
    }
    if worker.settings.final_model == FinalModel::Mean {
        worker.average_models(world, step, ended).await?;
        world.end_step();
    }
    Ok(Outcome::Finished)
}

fn beyond(rank: usize, workers: usize) -> SystemError {
    SystemError::malformed(
        "the input of a worker",
        format!("it names rank {rank} of {workers}"),
    )
}

/// Announced updates: rank and step.
type Announced = Vec<(usize, u64)>;

struct Worker {
    settings: Settings,
    trial: String,
    queue: String,
    replica: Replica,
    significance: Significance,
    inbox: Inbox,
    /// Workers that have not left, in order.
    alive: Vec<usize>,
    /// The last epoch that was evaluated.
    evaluated: Option<usize>,
    /// Number of steps whose barriers have opened.
    opened: u64,
    /// Number of steps whose own updates were deleted.
    deleted: u64,
}

impl Worker {
    /// Draws the parameters, binds the queue and waits for the start message; after the first epoch takes
    /// what the last invocation left.
    async fn start(world: &mut World, settings: Settings) -> Result<Self> {
        let trial = world.task.job.trial.clone();
        let replica = Replica::initial(world, settings.seeded_replicas).await?;
        let mut worker = Self {
            queue: worker_queue(&trial, world.rank()),
            trial,
            replica,
            significance: Significance::new(&settings),
            settings,
            inbox: Inbox::default(),
            alive: (0..world.workers()).collect(),
            evaluated: None,
            opened: 0,
            deleted: 0,
        };
        if world.task.epoch > 0 {
            worker.take_over(world).await?;
            return Ok(worker);
        }
        world.enter(Stage::Wait);
        let queue = &world.exchange.queue;
        queue.bind(&worker.trial, &worker.queue).await?;
        loop {
            match next_message(world, &worker.queue).await? {
                Message::Start => return Ok(worker),
                early => worker.inbox.sort(early)?,
            }
        }
    }

    /// Leaves what the next invocation, which begins at `epoch`, goes on with: the replica, what was not
    /// sent, and the messages of workers that are ahead.
    async fn hand_over(&mut self, world: &mut World, epoch: usize) -> Result<()> {
        world.enter(Stage::Put);
        save_own(world, &self.replica, Iteration { epoch, batch: 0 }).await?;
        let [unsent, inbox] = left_keys(world.rank(), epoch);
        let objects = &world.state.objects;
        let body = Vector::Real(std::mem::take(self.significance.unsent())).encode();
        objects.put(LEFT_BUCKET, &unsent, body).await?;
        let text = serde_json::to_vec(&self.inbox).map_err(|error| damaged(&inbox, &error))?;
        Ok(objects.put(LEFT_BUCKET, &inbox, text.into()).await?)
    }

    async fn take_over(&mut self, world: &mut World) -> Result<()> {
        world.enter(Stage::Get);
        let (rank, epoch) = (world.rank(), world.task.epoch);
        let checkpoint = take_own(world, Iteration { epoch, batch: 0 }).await?;
        self.replica.restore(&checkpoint)?;
        let keys = left_keys(rank, epoch);
        let [unsent, inbox] = &keys;
        let objects = &world.state.objects;
        let body = Vector::decode(&objects.expect(LEFT_BUCKET, unsent).await?)?;
        *self.significance.unsent() = body.real().unwrap_or_default().to_vec();
        let text = objects.expect(LEFT_BUCKET, inbox).await?;
        let read = serde_json::from_slice(text.bytes()?);
        self.inbox = read.map_err(|error| damaged(inbox, &error))?;
        objects.delete(LEFT_BUCKET, &keys).await?;
        // Every step of the epochs before is open, and the updates before the last are deleted.
        self.opened = (epoch * world.task.job.batches_per_worker) as u64;
        self.deleted = self.opened.saturating_sub(1);
        Ok(())
    }

    async fn step(
        &mut self,
        world: &mut World,
        step: u64,
        epoch: usize,
        minibatch: usize,
        is_last: bool,
    ) -> Result<()> {
        world.enter(Stage::FetchDataset);
        let batches = world.task.job.batches_per_worker;
        let (owner, number) = (minibatch / batches, minibatch % batches);
        let records = data::minibatch(world, owner, epoch, number).await?;
        world.enter(Stage::ComputeGradients);
        let (parameters, statistics) = (&self.replica.parameters, &mut self.replica.statistics);
        let computing = world.compute.gradient(parameters, statistics, &records);
        let output = computing.await?;
        world.note_loss(output.loss);
        published::log(world, self.settings.rewrites_log, "gradient computed").await?;

        // Send what is significant of the gradient or the local update.
        let change = match self.settings.exchange {
            Exchange::Gradients => output.gradient,
            Exchange::Updates => {
                world.enter(Stage::UpdateModel);
                self.local_step(&output.gradient)?
            }
        };
        let own = self.send(world, change, step, output.loss).await?;
        published::log(world, self.settings.rewrites_log, "update sent").await?;
        // Wait for the barrier, and fetch the announced updates.
        world.enter(Stage::Wait);
        let announced = match self.settings.slack {
            0 => self.barrier(world, step).await?,
            slack => {
                let slack = if is_last { 0 } else { slack as u64 };
                self.come_so_far(world, step.checked_sub(slack)).await?
            }
        };
        world.enter(Stage::Get);
        let updates = self.fetch(world, announced, own.as_ref()).await?;
        // Apply them.
        world.enter(Stage::Aggregate);
        self.apply(world, own.as_ref(), &updates)?;
        self.delete_read(world).await?;
        world.note_parameters(&self.replica.parameters);
        published::log(world, self.settings.rewrites_log, "model updated").await
    }

    /// Steps the local model; returns by how much it changed.
    fn local_step(&mut self, gradient: &Vector) -> Result<Vector> {
        let before = self.replica.parameters.clone();
        self.replica.update(gradient)?;
        Ok(match (&self.replica.parameters, before) {
            (Vector::Real(after), Vector::Real(mut change)) => {
                for (before, after) in change.iter_mut().zip(after) {
                    *before = after - *before;
                }
                Vector::Real(change)
            }
            (_, before) => before,
        })
    }

    /// Stores and announces what is significant now; reports to the supervisor.
    async fn send(
        &mut self,
        world: &mut World,
        change: Vector,
        step: u64,
        loss: Option<f64>,
    ) -> Result<Option<Update>> {
        let (rank, workers) = (world.rank(), world.workers());
        world.enter(Stage::Serialise);
        let (parameters, recorded) = (&self.replica.parameters, world.recorded_density());
        let filtered = self.significance.filter(parameters, change, step, recorded);
        let (own, density) = filtered?;
        world.note_density(density);
        let form = self.settings.form();
        let payload = own.as_ref().map(|own| own.encode(form));
        world.enter(Stage::Put);
        let queue = &world.exchange.queue;
        // Store and announce the update, if there is one.
        if let Some(payload) = payload {
            let key = update_key(&self.trial, rank, step);
            world.exchange.objects.put(BUCKET, &key, payload).await?;
            let announcement = Message::Update { rank, step }.encode(workers);
            queue.publish_fanout(&self.trial, announcement).await?;
        }
        // Report to the supervisor.
        let report = Message::Report {
            rank,
            step,
            loss: loss.unwrap_or(f64::NAN),
            samples: world.task.job.batch_size,
            has_update: own.is_some(),
        };
        let supervisor = supervisor_queue(&self.trial);
        let report = report.encode(workers);
        queue.publish(&supervisor, report).await?;
        Ok(own)
    }

    /// Waits until the barrier of `step` and all before it are open; returns who sent an update
    /// in `step`, as announced.
    async fn open(&mut self, world: &World, step: u64) -> Result<Vec<usize>> {
        let mut senders = Vec::new();
        while self.opened <= step {
            match self.inbox.open(self.opened) {
                Some(named) => {
                    senders = named;
                    self.opened += 1;
                }
                None => self.inbox.sort(next_message(world, &self.queue).await?)?,
            }
        }
        Ok(senders)
    }

    /// The updates of `step`, rank and step in the order of addition, once the
    /// supervisor reports that they are all.
    async fn barrier(&mut self, world: &World, step: u64) -> Result<Announced> {
        let mut senders = self.open(world, step).await?;
        self.inbox.take_fresh();
        if self.settings.addition_order == AdditionOrder::Rank {
            senders.sort_unstable();
        }
        Ok(senders.into_iter().map(|rank| (rank, step)).collect())
    }

    /// The updates that have come and were not added, rank and step in the order of addition,
    /// once all of the steps up to `behind` have.
    async fn come_so_far(&mut self, world: &World, behind: Option<u64>) -> Result<Announced> {
        let queue = &world.exchange.queue;
        while let Some(payload) = queue.consume(&self.queue, Duration::ZERO).await? {
            self.inbox
                .sort(Message::decode(&payload, world.workers())?)?;
        }
        if let Some(behind) = behind {
            self.open(world, behind).await?;
        }
        let mut come = self.inbox.take_fresh();
        // The own update is in the model since the local step.
        come.retain(|(rank, _)| *rank != world.rank() || self.settings.reads_own_update);
        if self.settings.addition_order == AdditionOrder::Rank {
            come.sort_unstable_by_key(|(rank, step)| (*step, *rank));
        }
        Ok(come)
    }

    /// The `announced` updates, in their order.
    async fn fetch(
        &self,
        world: &World,
        announced: Announced,
        own: Option<&Update>,
    ) -> Result<Vec<(usize, Update)>> {
        let announced = announced.as_slice();
        let form = self.settings.form();
        let fetched = move |index: usize| async move {
            let (rank, step) = announced[index];
            let update = match own {
                Some(own) if rank == world.rank() && !self.settings.reads_own_update => own.clone(),
                _ => {
                    let key = update_key(&self.trial, rank, step);
                    let payload = world.exchange.objects.expect(BUCKET, &key).await?;
                    Update::decode(&payload, self.replica.parameters.len(), form)?
                }
            };
            Ok((rank, update))
        };
        in_turn(self.settings.transfers_at_once, announced.len(), fetched).await
    }

    fn apply(
        &mut self,
        world: &mut World,
        own: Option<&Update>,
        updates: &[(usize, Update)],
    ) -> Result<()> {
        let rank = world.rank();
        let n = self.replica.parameters.len();
        // Each update is read, and what it is added to is read and written.
        arithmetic::note(3 * updates.len(), n);
        let Some(parameters) = self.replica.parameters.real_mut() else {
            return match world.recorded_density() {
                Some(_) => self.apply_recorded(world, own, updates),
                None => Ok(()),
            };
        };
        if updates.is_empty() {
            return Ok(());
        }
        match (self.settings.exchange, self.settings.aggregate) {
            // The own update is in the model since the local step.
            (Exchange::Updates, Aggregate::Sum) => {
                for (_, update) in updates.iter().filter(|(sender, _)| *sender != rank) {
                    update.add_to(parameters)?;
                }
            }
            (Exchange::Updates, Aggregate::Mean) => {
                let mut change = mean(updates, n)?;
                let own = update::sum(own, n)?;
                for (change, own) in change.iter_mut().zip(own) {
                    *change -= own;
                }
                reduce::add_assign(parameters, &change)?;
            }
            (Exchange::Gradients, aggregate) => {
                let gradient = match aggregate {
                    Aggregate::Sum => update::sum(updates.iter().map(|(_, update)| update), n)?,
                    Aggregate::Mean => mean(updates, n)?,
                };
                world.enter(Stage::UpdateModel);
                self.replica.update(&Vector::Real(gradient))?;
            }
        }
        Ok(())
    }

    /// Takes the time of [`apply`](Self::apply) where a trial is timed again.
    fn apply_recorded(
        &mut self,
        world: &mut World,
        own: Option<&Update>,
        updates: &[(usize, Update)],
    ) -> Result<()> {
        if updates.is_empty() {
            return Ok(());
        }
        let (exchange, aggregate) = (self.settings.exchange, self.settings.aggregate);
        // The own update is in the model since the local step.
        let leaves_out_own = (exchange, aggregate) == (Exchange::Updates, Aggregate::Sum);
        for (sender, update) in updates {
            if !(leaves_out_own && *sender == world.rank()) {
                update.note_addition();
            }
        }
        match (exchange, aggregate) {
            (Exchange::Updates, Aggregate::Sum) => {}
            (Exchange::Updates, Aggregate::Mean) => own.into_iter().for_each(Update::note_addition),
            (Exchange::Gradients, _) => {
                world.enter(Stage::UpdateModel);
                let len = self.replica.parameters.len();
                self.replica.update(&Vector::Phantom { len })?;
            }
        }
        Ok(())
    }

    /// Deletes own updates that all have read: those of the step before the last that all have
    /// reported, and with slack s of the s + 1st before it, which all have waited for.
    async fn delete_read(&mut self, world: &World) -> Result<()> {
        let read = self.opened.saturating_sub(1 + self.settings.slack as u64);
        if self.settings.keeps_updates || read <= self.deleted {
            return Ok(());
        }
        let (trial, rank) = (&self.trial, world.rank());
        let keys = (self.deleted..read).map(|step| update_key(trial, rank, step));
        let keys: Vec<String> = keys.collect();
        self.deleted = read;
        Ok(world.exchange.objects.delete(BUCKET, &keys).await?)
    }

    /// Has the worker leave that the supervisor named for `step`, if any: it stores its model, and
    /// the others average theirs with it. Returns its rank.
    async fn removes(&mut self, world: &mut World, step: u64) -> Result<Option<usize>> {
        let Some(leaving) = self.inbox.removed(step) else {
            return Ok(None);
        };
        self.alive.retain(|rank| *rank != leaving);
        let objects = world.exchange.objects.clone();
        let key = model_key(&self.trial, leaving);
        if world.rank() == leaving {
            world.enter(Stage::Put);
            let model = self.replica.parameters.encode();
            objects.put(BUCKET, &key, model).await?;
            let rank = leaving;
            let departure = Message::Departure { rank, step }.encode(world.workers());
            let queue = &world.exchange.queue;
            queue.publish_fanout(&self.trial, departure).await?;
            return Ok(Some(leaving));
        }
        world.enter(Stage::Wait);
        while !self.inbox.departed.contains(&leaving) {
            self.inbox.sort(next_message(world, &self.queue).await?)?;
        }
        world.enter(Stage::Get);
        let model = Vector::decode(&world.exchange.objects.expect(BUCKET, &key).await?)?;
        world.enter(Stage::Aggregate);
        self.replica.parameters = Vector::mean(&[self.replica.parameters.clone(), model])?;
        world.note_parameters(&self.replica.parameters);
        Ok(Some(leaving))
    }

    /// Evaluates worker 0's replica, unless it is the mean that will be; returns the loss on the
    /// validation split.
    async fn detect_convergence(
        &mut self,
        world: &mut World,
        epoch: usize,
        is_last: bool,
    ) -> Result<Option<f64>> {
        world.enter(Stage::DetectConvergence);
        let waits_for_mean = is_last && self.settings.final_model == FinalModel::Mean;
        if world.rank() > 0 || waits_for_mean || !is_evaluated(world, epoch, is_last) {
            return Ok(None);
        }
        self.evaluated = Some(epoch);
        self.replica.evaluate(world, epoch).await
    }

    /// Gives the final model to worker 0, which evaluates the mean of all.
    /// Models of workers that have left count with the others, as published.
    async fn average_models(&mut self, world: &mut World, step: u64, epoch: usize) -> Result<()> {
        let (rank, workers) = (world.rank(), world.workers());
        // Other workers than 0 store and announce their models.
        if rank > 0 {
            world.enter(Stage::Put);
            let model = self.replica.parameters.encode();
            let key = model_key(&self.trial, rank);
            world.exchange.objects.put(BUCKET, &key, model).await?;
            let announcement = Message::Model { rank, step }.encode(workers);
            let first = worker_queue(&self.trial, 0);
            return Ok(world.exchange.queue.publish(&first, announcement).await?);
        }
        // Worker 0 waits for all models, fetches and averages them.
        world.enter(Stage::Wait);
        while self.inbox.models.len() + 1 < self.alive.len() {
            self.inbox.sort(next_message(world, &self.queue).await?)?;
        }
        world.enter(Stage::Get);
        let this = &*self;
        let objects = &world.exchange.objects;
        let fetched = (1..workers).map(|peer| async move {
            let key = model_key(&this.trial, peer);
            Vector::decode(&objects.expect(BUCKET, &key).await?)
        });
        let mut models = vec![self.replica.parameters.clone()];
        models.extend(at_once(self.settings.transfers_at_once, fetched).await?);
        world.enter(Stage::Aggregate);
        self.replica.parameters = Vector::mean(&models)?;
        // The mean is what is evaluated.
        world.enter(Stage::DetectConvergence);
        // An epoch that early stopping ended is evaluated already.
        if self.evaluated != Some(epoch) && is_evaluated(world, epoch, true) {
            self.replica.evaluate(world, epoch).await?;
        }
        Ok(())
    }
}

/// Whether the model after `epoch` is evaluated, which may be the last before its time.
fn is_evaluated(world: &World, epoch: usize, is_last: bool) -> bool {
    let job = &world.task.job;
    job.evaluates_after(epoch) || is_last && job.evaluate != Evaluate::Never
}

/// The mean over the workers that sent an update.
fn mean(updates: &[(usize, Update)], n: usize) -> Result<Vec<f32>> {
    let mut mean = update::sum(updates.iter().map(|(_, update)| update), n)?;
    reduce::divide(&mut mean, updates.len() as f32);
    Ok(mean)
}
