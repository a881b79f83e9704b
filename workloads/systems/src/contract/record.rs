use std::ops::{AddAssign, Sub};

use epochcost_channels::{Stored, Traffic};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{StageUsages, Task, weight};

/// A line of a worker's log that starts with this carries one [`Record`] as JSON.
pub const RECORD_PREFIX: &str = "EPOCHCOST\t";
/// A worker's last line in an invocation starts with this; the request id follows.
pub const LAST_LINE_PREFIX: &str = "EPOCHCOST-LAST\t";
/// A function's first line in an invocation starts with this; what it works on
/// follows as JSON, an [`InvokedTask`].
pub const TASK_PREFIX: &str = "EPOCHCOST-TASK\t";
/// Prefix of the line that states how a task or an invocation ended; the outcome as JSON follows.
pub const OUTCOME_PREFIX: &str = "EPOCHCOST-OUTCOME\t";

/// Prefix of the line that names an invocation's task, for readers of its log alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvokedTask {
    /// The system's function.
    pub function: String,
    /// The worker or peer it works for.
    pub rank: usize,
    /// The epoch it starts at.
    pub epoch: usize,
    /// The mini-batch, if it works on one.
    pub batch: Option<usize>,
}

impl From<&Task> for InvokedTask {
    fn from(task: &Task) -> Self {
        Self {
            function: task.function.clone(),
            rank: task.rank,
            epoch: task.epoch,
            batch: task.batch,
        }
    }
}

/// What a worker is doing, in the paper's words; the five parts of
/// "synchronise" are separate stages.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Getting training data from the store.
    FetchDataset,
    /// Forward and backward.
    ComputeGradients,
    /// Synchronise: turning gradients into bytes and back.
    Serialise,
    /// Synchronise: sending.
    Put,
    /// Synchronise: waiting for others.
    Wait,
    /// Synchronise: fetching what others sent.
    Get,
    /// Synchronise: reducing.
    Aggregate,
    /// The optimizer step.
    UpdateModel,
    /// Evaluation and the decision to stop.
    DetectConvergence,
}

impl Stage {
    /// All of them, in the order in which results name them.
    pub const ALL: [Self; 9] = [
        Self::FetchDataset,
        Self::ComputeGradients,
        Self::Serialise,
        Self::Put,
        Self::Wait,
        Self::Get,
        Self::Aggregate,
        Self::UpdateModel,
        Self::DetectConvergence,
    ];

    /// The word used in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FetchDataset => "fetch_dataset",
            Self::ComputeGradients => "compute_gradients",
            Self::Serialise => "serialise",
            Self::Put => "put",
            Self::Wait => "wait",
            Self::Get => "get",
            Self::Aggregate => "aggregate",
            Self::UpdateModel => "update_model",
            Self::DetectConvergence => "detect_convergence",
        }
    }
}

/// Seconds spent in each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageSeconds {
    /// See [`Stage::FetchDataset`].
    pub fetch_dataset: f64,
    /// See [`Stage::ComputeGradients`].
    pub compute_gradients: f64,
    /// See [`Stage::Serialise`].
    pub serialise: f64,
    /// See [`Stage::Put`].
    pub put: f64,
    /// See [`Stage::Wait`].
    pub wait: f64,
    /// See [`Stage::Get`].
    pub get: f64,
    /// See [`Stage::Aggregate`].
    pub aggregate: f64,
    /// See [`Stage::UpdateModel`].
    pub update_model: f64,
    /// See [`Stage::DetectConvergence`].
    pub detect_convergence: f64,
}

impl StageSeconds {
    /// Seconds of one stage.
    pub fn of(&self, stage: Stage) -> f64 {
        let mut own = *self;
        *own.slot(stage)
    }

    /// Adds `seconds` to `stage`.
    pub fn add(&mut self, stage: Stage, seconds: f64) {
        *self.slot(stage) += seconds;
    }

    fn slot(&mut self, stage: Stage) -> &mut f64 {
        match stage {
            Stage::FetchDataset => &mut self.fetch_dataset,
            Stage::ComputeGradients => &mut self.compute_gradients,
            Stage::Serialise => &mut self.serialise,
            Stage::Put => &mut self.put,
            Stage::Wait => &mut self.wait,
            Stage::Get => &mut self.get,
            Stage::Aggregate => &mut self.aggregate,
            Stage::UpdateModel => &mut self.update_model,
            Stage::DetectConvergence => &mut self.detect_convergence,
        }
    }

    /// The paper's "synchronise" stage: serialise, put, wait, get, aggregate.
    pub fn synchronise(&self) -> f64 {
        self.serialise + self.put + self.wait + self.get + self.aggregate
    }

    /// Returns the seconds of all stages, which follow one another.
    pub fn total(&self) -> f64 {
        self.fetch_dataset
            + self.compute_gradients
            + self.synchronise()
            + self.update_model
            + self.detect_convergence
    }

    /// Returns the seconds of so many workers that are alike.
    #[must_use]
    pub fn times(self, alike: u64) -> Self {
        let mut all = Self::default();
        for stage in Stage::ALL {
            all.add(stage, self.of(stage) * alike as f64);
        }
        all
    }
}

impl AddAssign for StageSeconds {
    fn add_assign(&mut self, other: Self) {
        for stage in Stage::ALL {
            self.add(stage, other.of(stage));
        }
    }
}

/// Traffic by what it is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PurposeTraffic {
    /// The exchange that the papers compare: gradients, updates, parameters, barriers.
    pub exchange: ChannelTraffic,
    /// Fetching training and test data.
    pub dataset: ChannelTraffic,
    /// Checkpoints, batch-norm statistics, log objects: what is not the exchange.
    pub state: ChannelTraffic,
}

/// Traffic by channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelTraffic {
    /// Traffic over the object store.
    pub objects: Traffic,
    /// Traffic over the tensor stores.
    pub tensors: Traffic,
    /// Traffic over the queue.
    pub queue: Traffic,
}

impl ChannelTraffic {
    /// All channels together.
    pub fn total(&self) -> Traffic {
        let mut total = self.objects;
        total += self.tensors;
        total += self.queue;
        total
    }

    /// Returns `each` of both values of every channel.
    fn zip(self, other: Self, each: impl Fn(Traffic, Traffic) -> Traffic) -> Self {
        Self {
            objects: each(self.objects, other.objects),
            tensors: each(self.tensors, other.tensors),
            queue: each(self.queue, other.queue),
        }
    }
}

impl PurposeTraffic {
    /// Returns `each` of both values of every channel, for every purpose.
    fn zip(self, other: Self, each: impl Fn(Traffic, Traffic) -> Traffic) -> Self {
        Self {
            exchange: self.exchange.zip(other.exchange, &each),
            dataset: self.dataset.zip(other.dataset, &each),
            state: self.state.zip(other.state, &each),
        }
    }

    /// Returns the bytes written to the object store, for all purposes.
    pub fn object_bytes_up(&self) -> u64 {
        let purposes = [self.exchange, self.dataset, self.state];
        purposes
            .iter()
            .map(|channels| channels.objects.bytes_up)
            .sum()
    }

    /// Returns the traffic of so many workers that are alike.
    #[must_use]
    pub fn times(self, alike: u64) -> Self {
        self.zip(self, |traffic, _| traffic.times(alike))
    }
}

impl AddAssign for PurposeTraffic {
    fn add_assign(&mut self, other: Self) {
        *self = self.zip(other, |mut sum, more| {
            sum += more;
            sum
        });
    }
}

impl Sub for PurposeTraffic {
    type Output = Self;

    /// Returns the traffic since `earlier`.
    fn sub(self, earlier: Self) -> Self {
        self.zip(earlier, |now, then| now - then)
    }
}

/// Polls that found nothing, of waits for what another worker sends.
///
/// Their number depends on how fast the service answers. Their time does not, so
/// that both tell how many polls another service would have answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Polls {
    /// Requests, also those that a simulation skips.
    pub requests: u64,
    /// Time of the polls and of the pauses after them, seconds.
    pub seconds: f64,
    /// Pauses between a poll and the next, as the system's settings state them,
    /// seconds.
    pub paused_s: f64,
}

impl AddAssign for Polls {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.seconds += other.seconds;
        self.paused_s += other.paused_s;
    }
}

/// Polls that found nothing, by kind of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waits {
    /// Gets of objects that were not there yet.
    pub gets: Polls,
    /// Listings without an object that was awaited.
    pub lists: Polls,
    /// Counts of messages in a queue that holds too few.
    pub counts: Polls,
}

impl Waits {
    /// Returns the polls of so many workers that are alike.
    #[must_use]
    pub fn times(self, alike: u64) -> Self {
        let of = |polls: Polls| Polls {
            requests: polls.requests * alike,
            seconds: polls.seconds * alike as f64,
            paused_s: polls.paused_s * alike as f64,
        };
        Self {
            gets: of(self.gets),
            lists: of(self.lists),
            counts: of(self.counts),
        }
    }
}

impl AddAssign for Waits {
    fn add_assign(&mut self, other: Self) {
        self.gets += other.gets;
        self.lists += other.lists;
        self.counts += other.counts;
    }
}

/// A step of a worker, or a stage function of a workflow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepRecord {
    /// The function it ran in.
    pub function: String,
    /// The worker or peer.
    pub rank: usize,
    /// Number of workers that did the same at the same time, this one included: in a simulation
    /// one stands for those of the ranks up to its own.
    #[serde(default = "weight::one", skip_serializing_if = "weight::is_one")]
    pub alike: u64,
    /// The epoch.
    pub epoch: usize,
    /// The mini-batch, if the step is about one.
    pub batch: Option<usize>,
    /// Start of the step, seconds on the platform's clock.
    pub started_s: f64,
    /// Seconds by stage.
    pub seconds: StageSeconds,
    /// What each stage used of the processor and of memory; nothing in a
    /// simulation.
    pub usage: StageUsages,
    /// Traffic that it sent and received.
    pub traffic: PurposeTraffic,
    /// Storage of objects up to its end, of what it wrote and removed for all purposes.
    #[serde(default, skip_serializing_if = "Stored::is_none")]
    pub stored: Stored,
    /// Polls of its waits, part of its traffic.
    pub waits: Waits,
    /// Mean training loss of the mini-batch, before the update.
    pub loss: Option<f64>,
    /// Share of the gradient's entries that were sent (1 without a filter).
    pub update_density: Option<f64>,
    /// Mean age, in epochs before the step, of the gradients of others that it
    /// used; null where peers wait for each other.
    pub staleness: Option<f64>,
    /// xxh3 of the parameters after the update, in hexadecimal.
    pub parameters_digest: Option<String>,
}

impl StepRecord {
    /// Returns the end of its stages, which follow one another, seconds.
    pub fn ended_s(&self) -> f64 {
        self.started_s + self.seconds.total()
    }

    /// Returns the bytes of objects that it wrote, less those that it removed.
    pub fn net_bytes(&self) -> f64 {
        self.traffic.object_bytes_up() as f64 - self.stored.removed_bytes as f64
    }

    /// Returns the byte-seconds of objects up to `until_s`, or to its end if that is later: of all that
    /// it wrote and did not remove. The sum over the steps of a trial is that of the store.
    pub fn stored_byte_s(&self, until_s: f64) -> f64 {
        self.stored.byte_s + self.net_bytes() * (until_s - self.ended_s()).max(0.0)
    }
}

/// Loss and accuracy on the test split or the validation split.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// Mean loss; NaN, written as null, where training diverged.
    #[serde(deserialize_with = "null_is_nan")]
    pub loss: f64,
    /// Correct predictions.
    pub correct: usize,
    /// Samples evaluated.
    pub samples: usize,
}

/// Reads a number, of which JSON writes null where it is not finite.
fn null_is_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

impl Evaluation {
    /// Returns the result on all shares, weighted by samples; `None` if nothing was evaluated.
    pub(crate) fn together(shares: &[Self]) -> Option<Self> {
        let evaluated = || shares.iter().filter(|share| share.samples > 0);
        let samples: usize = evaluated().map(|share| share.samples).sum();
        let weighted = |share: &Self| share.loss * share.samples as f64;
        (samples > 0).then(|| Self {
            loss: evaluated().map(weighted).sum::<f64>() / samples as f64,
            correct: evaluated().map(|share| share.correct).sum(),
            samples,
        })
    }

    /// Correct over samples, in 0..=1.
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.samples as f64
    }
}

/// Use of a worker's GPU during one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuUsage {
    /// The worker.
    pub rank: usize,
    /// The GPU's name.
    pub name: String,
    /// The most memory that the worker's process held, MB of 1,048,576 bytes; null where the
    /// driver does not distinguish processes.
    pub memory_mb: Option<f64>,
    /// The most memory that all processes held together, MB of 1,048,576 bytes.
    pub device_memory_mb: f64,
    /// Share of the time in which any process computed on it, the mean of the samples.
    pub utilisation: f64,
    /// Samples that were taken.
    pub samples: usize,
}

/// A record that a worker writes into its log for the harness to collect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A step ended.
    Step(Box<StepRecord>),
    /// The model was evaluated after `epoch`.
    Evaluated {
        /// The worker that evaluated.
        rank: usize,
        /// The epoch that was evaluated.
        epoch: usize,
        /// Time, seconds on the platform's clock.
        at_s: f64,
        /// The result on the test split.
        evaluation: Evaluation,
        /// The result on the validation split, where the job has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        validation: Option<Evaluation>,
    },
    /// A loss or a model's evaluation was not a finite number: training diverged. Written
    /// once per invocation.
    Diverged {
        /// The worker.
        rank: usize,
        /// The epoch.
        epoch: usize,
        /// The mini-batch; null where the step was a whole epoch, or an evaluation found it.
        #[serde(default)]
        batch: Option<usize>,
    },
    /// An injected fault happens; written before its effect.
    Fault {
        /// The worker.
        rank: usize,
        /// Number of the fault in the row's list, from 0.
        fault: usize,
    },
    /// A task that computed on a GPU ended.
    Gpu(GpuUsage),
    /// Something a reader of the results must know.
    Warning {
        /// The worker.
        rank: usize,
        /// What.
        text: String,
    },
}
