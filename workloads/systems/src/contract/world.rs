use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use epochcost_channels::{
    ChannelError, Links, Meter, ObjectStore, Payload, Queue, TensorStore, Traffic,
};
use tokio::sync::mpsc::UnboundedSender;

use crate::contract::attack;
use crate::contract::data;
use crate::contract::pause::{Pause, SkippedPolls};
use crate::contract::record::ChannelTraffic;
use crate::contract::resources;
use crate::contract::stage_hook::{StageEntry, StageHook};
use crate::{
    Evaluation, ExecutionStatus, Outcome, PurposeTraffic, Reading, Record, Resources, Result,
    Stage, StepRecord, Task, Vector, Waits,
};

/// The one source of time, real or virtual.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Time since an origin that all workers of a trial share.
    fn now(&self) -> Duration;
    /// Lets `duration` pass; zero lets others run.
    async fn sleep(&self, duration: Duration);
    /// Lets the time pass until the next poll for something that is not there
    /// yet. Returns the polls that it skipped before that one, because they
    /// would have found nothing. Their time has passed, too, and the caller
    /// counts them as made.
    ///
    /// A real clock skips none. Virtual time would otherwise be spent on polls
    /// in vain: a thousand workers that poll ten times per second.
    async fn pause(&self, pause: &Pause<'_>) -> SkippedPolls {
        self.sleep(pause.interval).await;
        SkippedPolls::default()
    }
}

/// Asks the platform to start other work.
#[async_trait]
pub trait Invoke: Send + Sync {
    /// Invokes a function and waits for its answer.
    async fn call(&self, task: Task) -> Result<Outcome>;
    /// Invokes a function and does not wait for its answer.
    async fn forget(&self, task: Task) -> Result<()>;
    /// Starts an execution of the peer's state machine at `task.epoch`, with
    /// the task as its input, and gives its name. A peer has one per epoch and round.
    async fn start_workflow(&self, task: Task) -> Result<String>;
    /// Returns the status of the execution of that name.
    async fn status(&self, execution: &str) -> Result<ExecutionStatus>;
}

/// Takes what the harness will collect.
pub trait Recorder: Send + Sync {
    /// Writes one record.
    fn record(&self, record: Record);
}

/// A mini-batch of records, or records of a split that is evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The worker it belongs to.
    pub rank: usize,
    /// The epoch it is used in.
    pub epoch: usize,
    /// Number of the mini-batch in the epoch; of a split that is evaluated, 0 for the test
    /// split and 1 for the validation split.
    pub index: usize,
    /// The records, one after another.
    pub records: Payload,
}

/// Result of one forward and backward pass.
#[derive(Clone, Debug, PartialEq)]
pub struct GradientOutput {
    /// Mean loss of the batch; `None` where nothing was computed.
    pub loss: Option<f64>,
    /// The mean gradient, flat, in the model's fixed parameter order.
    pub gradient: Vector,
}

impl GradientOutput {
    /// Sends all `cuts` of the gradient, each with its position among them.
    pub(crate) fn send_parts(
        &self,
        cuts: &[Range<usize>],
        ready: &UnboundedSender<(usize, Vector)>,
    ) -> Result<()> {
        for (part, cut) in cuts.iter().enumerate() {
            // A receiver that is gone has failed, and reports its own error.
            let _ = ready.send((part, self.gradient.slice(cut.clone())?));
        }
        Ok(())
    }
}

/// The model: gradients at given parameters, and evaluation.
///
/// Batch-norm statistics go in and out beside the parameters and are never
/// part of a gradient.
#[async_trait]
pub trait Compute: Send + Sync {
    /// Trainable scalars (n).
    fn parameters(&self) -> usize;
    /// Batch-norm statistics.
    fn statistics(&self) -> usize;
    /// Initial parameters for a seed.
    async fn initial_parameters(&mut self, seed: u64) -> Result<Vector>;
    /// Initial batch-norm statistics.
    fn initial_statistics(&self) -> Vector;
    /// Loss and gradient of a batch at `parameters`; updates `statistics`.
    async fn gradient(
        &mut self,
        parameters: &Vector,
        statistics: &mut Vector,
        batch: &Batch,
    ) -> Result<GradientOutput>;
    /// Computes [`Compute::gradient`] and sends each of the gradient's `cuts`, with its
    /// position among them, as soon as nothing is added to it any more: a backward
    /// pass goes from the last layer to the first. Where nothing is known before the
    /// end, all are sent there.
    async fn gradient_in_parts(
        &mut self,
        parameters: &Vector,
        statistics: &mut Vector,
        batch: &Batch,
        cuts: &[Range<usize>],
        ready: UnboundedSender<(usize, Vector)>,
    ) -> Result<GradientOutput> {
        let output = self.gradient(parameters, statistics, batch).await?;
        output.send_parts(cuts, &ready)?;
        Ok(output)
    }
    /// Losses and gradients of several batches at the same `parameters`, each
    /// with `statistics` of its own, on devices that work at the same time
    /// where there are several.
    async fn gradients(
        &mut self,
        parameters: &Vector,
        statistics: &mut [Vector],
        batches: &[Batch],
    ) -> Result<Vec<GradientOutput>> {
        let mut outputs = Vec::with_capacity(batches.len());
        for (statistics, batch) in statistics.iter_mut().zip(batches) {
            outputs.push(self.gradient(parameters, statistics, batch).await?);
        }
        Ok(outputs)
    }
    /// Loss and accuracy on the test split; `None` where nothing is computed.
    async fn evaluate(
        &mut self,
        parameters: &Vector,
        statistics: &Vector,
        test: &Batch,
    ) -> Result<Option<Evaluation>>;
    /// Returns the share of entries that the update of a step had in the recorded trial
    /// that is timed again; `None` in any other trial.
    fn recorded_density(&self, _epoch: usize, _batch: Option<usize>) -> Option<f64> {
        None
    }
    /// Computes an attacker's gradients as they are, but for flipped labels: the system
    /// itself sends something else.
    fn leave_attack_to_system(&mut self) {}
}

/// The tensor stores of all peers.
pub trait TensorStores: Send + Sync {
    /// The store of a peer; `None` if there is no such peer.
    fn of(&self, rank: usize) -> Option<TensorStore>;
}

impl TensorStores for Vec<TensorStore> {
    fn of(&self, rank: usize) -> Option<TensorStore> {
        self.get(rank).cloned()
    }
}

/// Tensor stores that count on one meter.
struct MeteredStores {
    stores: Arc<dyn TensorStores>,
    meter: Meter,
}

impl TensorStores for MeteredStores {
    fn of(&self, rank: usize) -> Option<TensorStore> {
        let store = self.stores.of(rank)?;
        Some(store.metered(&self.meter))
    }
}

/// The channels of one purpose.
#[derive(Clone)]
pub struct Channels {
    /// The object store.
    pub objects: ObjectStore,
    /// The tensor store of each peer.
    pub tensors: Arc<dyn TensorStores>,
    /// The queue.
    pub queue: Queue,
    /// Connections between workers, where a system's deployment has them. Their messages
    /// are metered as the queue's.
    pub links: Links,
}

impl Channels {
    /// Returns the tensor store of a peer.
    pub(crate) fn store(&self, rank: usize) -> Result<TensorStore> {
        let missing = || ChannelError::Missing {
            service: "tensor stores",
            key: format!("store {rank}"),
        };
        Ok(self.tensors.of(rank).ok_or_else(missing)?)
    }
}

#[derive(Clone)]
pub(crate) struct Meters {
    pub(crate) objects: Meter,
    tensors: Meter,
    pub(crate) queue: Meter,
}

impl Meters {
    fn new(clock: &Arc<dyn Clock>) -> Self {
        let clock = clock.clone();
        Self {
            objects: Meter::timed(move || clock.now()),
            tensors: Meter::default(),
            queue: Meter::default(),
        }
    }

    fn wrap(&self, channels: &Channels) -> Channels {
        Channels {
            objects: channels.objects.metered(&self.objects),
            tensors: Arc::new(MeteredStores {
                stores: channels.tensors.clone(),
                meter: self.tensors.clone(),
            }),
            queue: channels.queue.metered(&self.queue),
            links: channels.links.metered(&self.queue),
        }
    }

    fn read(&self) -> ChannelTraffic {
        ChannelTraffic {
            objects: self.objects.read(),
            tensors: self.tensors.read(),
            queue: self.queue.read(),
        }
    }
}

/// A worker's view of everything around it, for one invocation.
pub struct World {
    /// Input of the invocation.
    pub task: Task,
    /// Channels for the exchange that the papers compare.
    pub exchange: Channels,
    /// Channels for training and test data.
    pub dataset: Channels,
    /// Channels for checkpoints, batch-norm statistics and logs.
    pub state: Channels,
    /// The model.
    pub compute: Box<dyn Compute>,
    /// Starts other work.
    pub invoke: Arc<dyn Invoke>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    recorder: Arc<dyn Recorder>,
    /// Time on the clock at which the platform ends the invocation.
    deadline: Option<Duration>,
    resources: Arc<dyn Resources>,
    stage_hook: Option<Arc<dyn StageHook>>,
    has_diverged: bool,
    pub(crate) meters: [Meters; 3],
    pub(crate) step: Step,
    /// Polls of the waits of the step in progress.
    waits: Mutex<Waits>,
}

/// The step in progress.
pub(crate) struct Step {
    stage: Stage,
    since: Duration,
    /// Resources that the process had used when the stage began.
    reading: Option<Reading>,
    /// Traffic of the steps before.
    before: PurposeTraffic,
    pub(crate) record: StepRecord,
}

impl World {
    /// A view over `channels`, each purpose metered apart. The clock of the
    /// first step starts now, at [`Stage::FetchDataset`].
    pub fn new(
        task: Task,
        channels: &Channels,
        compute: Box<dyn Compute>,
        invoke: Arc<dyn Invoke>,
        clock: Arc<dyn Clock>,
        recorder: Arc<dyn Recorder>,
    ) -> Self {
        let meters: [Meters; 3] = std::array::from_fn(|_| Meters::new(&clock));
        let compute = attack::armed(&task.job, compute);
        let step = Step::begin(clock.now(), &task, task.epoch, task.batch);
        Self {
            exchange: meters[0].wrap(channels),
            dataset: meters[1].wrap(channels),
            state: meters[2].wrap(channels),
            task,
            compute,
            invoke,
            clock,
            recorder,
            deadline: None,
            resources: Arc::new(resources::Unknown),
            stage_hook: None,
            has_diverged: false,
            meters,
            step,
            waits: Mutex::default(),
        }
    }

    /// The same view of an invocation that the platform ends after `limit`.
    #[must_use]
    pub fn with_limit(mut self, limit: Option<Duration>) -> Self {
        self.deadline = limit.map(|limit| self.clock.now() + limit);
        self
    }

    /// Returns the time until the platform ends the invocation; `None` without a limit.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let deadline = self.deadline?;
        Some(deadline.saturating_sub(self.clock.now()))
    }

    /// The same view, with what its process uses counted by stage from now on.
    #[must_use]
    pub fn with_resources(mut self, resources: Arc<dyn Resources>) -> Self {
        self.step.reading = resources.read();
        self.resources = resources;
        self
    }

    /// The same view, with `hook` called at every stage that is entered from now on.
    #[must_use]
    pub fn with_stage_hook(mut self, hook: Arc<dyn StageHook>) -> Self {
        self.stage_hook = Some(hook);
        self
    }

    /// Returns the requests to the object store so far, for all purposes.
    pub fn object_requests(&self) -> Traffic {
        let mut all = Traffic::default();
        for meters in &self.meters {
            all += meters.objects.read();
        }
        all
    }

    /// Returns this worker's rank.
    pub fn rank(&self) -> usize {
        self.task.rank
    }

    /// Returns the number of workers (W).
    pub fn workers(&self) -> usize {
        self.task.job.workers
    }

    /// Counts time for `stage` from now on.
    pub fn enter(&mut self, stage: Stage) {
        let now = self.clock.now();
        self.step.leave(now, self.resources.read());
        self.step.stage = stage;
        self.call_stage_hook();
    }

    /// Names the step in progress, which begins with the stage that it is in.
    pub fn at(&mut self, epoch: usize, batch: Option<usize>) {
        (self.step.record.epoch, self.step.record.batch) = (epoch, batch);
        self.call_stage_hook();
    }

    fn call_stage_hook(&self) {
        if let Some(hook) = &self.stage_hook {
            hook.before_stage(StageEntry {
                rank: self.task.rank,
                epoch: self.step.record.epoch,
                batch: self.step.record.batch,
                stage: self.step.stage,
            });
        }
    }

    /// Notes the training loss of the step in progress. One that is not finite is not
    /// recorded as a loss: training diverged.
    pub fn note_loss(&mut self, loss: Option<f64>) {
        let step = &mut self.step.record;
        step.loss = loss.filter(|loss| loss.is_finite());
        if step.loss != loss {
            let (epoch, batch) = (step.epoch, step.batch);
            self.note_divergence(epoch, batch);
        }
    }

    /// Notes the mean of several mini-batches' losses, if there are any.
    pub(crate) fn note_losses(&mut self, losses: &[f64]) {
        let mean = losses.iter().sum::<f64>() / losses.len() as f64;
        self.note_loss((!losses.is_empty()).then_some(mean));
    }

    /// Computes the gradient of a batch, and notes its loss.
    pub(crate) async fn gradient(
        &mut self,
        parameters: &Vector,
        statistics: &mut Vector,
        batch: &Batch,
    ) -> Result<Vector> {
        let computing = self.compute.gradient(parameters, statistics, batch);
        let output = computing.await?;
        self.note_loss(output.loss);
        Ok(output.gradient)
    }

    /// Records once that training diverged.
    fn note_divergence(&mut self, epoch: usize, batch: Option<usize>) {
        if !std::mem::replace(&mut self.has_diverged, true) {
            let rank = self.task.rank;
            self.recorder
                .record(Record::Diverged { rank, epoch, batch });
        }
    }

    /// Returns the density of the step in progress in the recorded trial that is timed
    /// again; `None` in any other trial.
    pub(crate) fn recorded_density(&self) -> Option<f64> {
        let StepRecord { epoch, batch, .. } = self.step.record;
        self.compute.recorded_density(epoch, batch)
    }

    /// Notes which share of the gradient the step in progress sends.
    pub fn note_density(&mut self, density: f64) {
        self.step.record.update_density = Some(density);
    }

    /// Notes how many epochs the gradients of others that the step in progress
    /// uses lie behind it, on average.
    pub fn note_staleness(&mut self, epochs: f64) {
        self.step.record.staleness = Some(epochs);
    }

    /// Notes the parameters after the update of the step in progress.
    pub fn note_parameters(&mut self, parameters: &Vector) {
        self.step.record.parameters_digest = parameters.digest();
    }

    /// Adds polls in vain to those of the step in progress.
    pub(crate) fn note_waits(&self, add: impl FnOnce(&mut Waits)) {
        add(&mut self.waits.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Ends the step in progress, records it and begins the next at
    /// [`Stage::FetchDataset`].
    pub fn end_step(&mut self) {
        let now = self.clock.now();
        self.step.leave(now, self.resources.read());
        let [exchange, dataset, state] = self.meters.each_ref().map(Meters::read);
        let total = PurposeTraffic {
            exchange,
            dataset,
            state,
        };
        let mut next = Step::begin(now, &self.task, self.step.record.epoch, None);
        (next.reading, next.before) = (self.step.reading, total);
        let Step {
            before, mut record, ..
        } = std::mem::replace(&mut self.step, next);
        record.traffic = total - before;
        for meters in &self.meters {
            record.stored += meters.objects.take_stored(now);
        }
        self.note_waits(|noted| record.waits = std::mem::take(noted));
        self.recorder.record(Record::Step(Box::new(record)));
    }

    /// Records the results of an evaluation on the test split, which ended at `at`, and on
    /// the validation split, where there is one.
    pub(crate) fn record_evaluation(
        &mut self,
        epoch: usize,
        at: Duration,
        evaluation: Option<Evaluation>,
        validation: Option<Evaluation>,
    ) {
        let Some(evaluation) = evaluation else {
            return;
        };
        if !evaluation.loss.is_finite() {
            self.note_divergence(epoch, None);
        }
        self.recorder.record(Record::Evaluated {
            rank: self.task.rank,
            epoch,
            at_s: at.as_secs_f64(),
            evaluation,
            validation,
        });
    }

    /// Evaluates a model on the test split and on the validation split, where the job has
    /// one, and records the results. Returns the loss on the validation split.
    pub(crate) async fn evaluate(
        &mut self,
        parameters: &Vector,
        statistics: &Vector,
        epoch: usize,
    ) -> Result<Option<f64>> {
        let test = data::test_split(self, epoch).await?;
        let found = self.compute.evaluate(parameters, statistics, &test).await?;
        let at = self.clock.now();
        let split = data::validation_split(self, epoch).await?;
        let validation = self.evaluate_on(parameters, statistics, split).await?;
        self.record_evaluation(epoch, at, found, validation);
        Ok(validation.map(|validation| validation.loss))
    }

    /// Evaluates a model on `split`, if there is one.
    pub(crate) async fn evaluate_on(
        &mut self,
        parameters: &Vector,
        statistics: &Vector,
        split: Option<Batch>,
    ) -> Result<Option<Evaluation>> {
        match split {
            Some(split) => self.compute.evaluate(parameters, statistics, &split).await,
            None => Ok(None),
        }
    }

    /// Evaluates a model on the test split alone, and records the results beside those on
    /// validation data that were found elsewhere.
    pub(crate) async fn evaluate_beside(
        &mut self,
        parameters: &Vector,
        statistics: &Vector,
        epoch: usize,
        validation: Option<Evaluation>,
    ) -> Result<()> {
        let test = data::test_split(self, epoch).await?;
        let found = self.compute.evaluate(parameters, statistics, &test).await?;
        self.record_evaluation(epoch, self.clock.now(), found, validation);
        Ok(())
    }

    /// Records something that a reader of the results must know.
    pub fn warn(&self, text: impl Into<String>) {
        self.recorder.record(Record::Warning {
            rank: self.task.rank,
            text: text.into(),
        });
    }
}

impl Step {
    fn begin(now: Duration, task: &Task, epoch: usize, batch: Option<usize>) -> Self {
        Self {
            stage: Stage::FetchDataset,
            since: now,
            reading: None,
            before: PurposeTraffic::default(),
            record: StepRecord {
                function: task.function.clone(),
                rank: task.rank,
                alike: 1,
                epoch,
                batch,
                started_s: now.as_secs_f64(),
                ..StepRecord::default()
            },
        }
    }

    fn leave(&mut self, now: Duration, reading: Option<Reading>) {
        let record = &mut self.record;
        resources::add(&mut record.usage, self.stage, self.reading, reading);
        self.reading = reading;
        let seconds = &mut record.seconds;
        seconds.add(self.stage, now.saturating_sub(self.since).as_secs_f64());
        self.since = now;
    }
}
