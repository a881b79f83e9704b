use std::fmt::{self, Display};
use std::num::NonZeroUsize;
use std::ops::Range;

use epochcost_kernels::chunk::chunk_range;
use epochcost_kernels::optimizer::OptimizerSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Attack, Result, StepRecord, SystemError, Techniques};

/// Description of a system that is followed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Fidelity {
    /// The system as the paper describes it.
    Paper,
    /// The behaviour of the published code, its defects included.
    Code,
    /// The same idea done as well as we can.
    Tuned,
}

impl Fidelity {
    /// Every fidelity, in the order of reports.
    pub const ALL: [Self; 3] = [Self::Paper, Self::Code, Self::Tuned];

    /// The word used in experiments and results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Code => "code",
            Self::Tuned => "tuned",
        }
    }
}

/// Epochs after which the model is evaluated on the test split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Evaluate {
    /// Every epoch.
    EveryEpoch,
    /// Each epoch whose number, from 1, is a multiple of this, and the last.
    Every(#[schemars(range(min = 1, max = 100_000))] NonZeroUsize),
    /// The last epoch.
    Last,
    /// Never.
    Never,
}

/// Device that computes gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU through CUDA.
    Cuda,
}

impl Display for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        })
    }
}

/// The data of a job, as objects in the dataset bucket.
///
/// A record is one label byte followed by the pixel bytes, channel by channel:
/// CIFAR-10's own binary format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataPlan {
    /// The dataset's name.
    pub dataset: String,
    /// Bytes of one record.
    pub record_bytes: usize,
    /// Samples that are trained on: the first of the dataset's training split.
    pub train_samples: usize,
    /// Samples of the training split that are held out, those after the first
    /// `train_samples`: techniques and searches follow the loss on them. 0: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub validation_samples: usize,
    /// Test samples evaluated on.
    pub test_samples: usize,
    /// Whether training images are cropped and flipped at random.
    pub augment: bool,
}

/// A training job: the same for every worker of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Unique name of the trial.
    pub trial: String,
    /// The training system's name.
    pub system: String,
    /// The description of the system that is followed.
    pub fidelity: Fidelity,
    /// The system's settings, complete.
    pub settings: serde_json::Value,
    /// The model's name.
    pub model: String,
    /// The data.
    pub data: DataPlan,
    /// Data-parallel replicas (W).
    pub workers: usize,
    /// Samples in a mini-batch (b).
    pub batch_size: usize,
    /// Mini-batches per worker and epoch (B).
    pub batches_per_worker: usize,
    /// Samples of the last mini-batch of an epoch, where the end of a worker's share is smaller
    /// than the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_batch: Option<usize>,
    /// Epochs (E).
    pub epochs: usize,
    /// Seed of every random draw.
    pub seed: u64,
    /// The optimizer and its hyper-parameters.
    pub optimizer: OptimizerSpec,
    /// Epochs after which the model is evaluated.
    pub evaluate: Evaluate,
    /// Device that computes gradients.
    pub device: Device,
    /// Workers that send something else than their gradients; none: all are honest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attack: Option<Attack>,
}

impl Job {
    /// Returns the techniques for a loss that no longer falls, which every system states under the
    /// same names.
    pub(crate) fn techniques(&self) -> Techniques {
        // Settings of other types are refused where the system reads them.
        Techniques::deserialize(&self.settings).unwrap_or_default()
    }

    /// Returns the samples that a worker trains on in an epoch.
    pub fn samples_per_worker(&self) -> usize {
        let full = self.batch_size * self.batches_per_worker;
        full - self.last_batch.map_or(0, |last| self.batch_size - last)
    }

    /// Returns the samples of the `batch`-th mini-batch of an epoch.
    pub fn samples_of(&self, batch: usize) -> usize {
        let last = self
            .last_batch
            .filter(|_| batch + 1 == self.batches_per_worker);
        last.unwrap_or(self.batch_size)
    }

    /// The job with the epochs that `steps` report as run: fewer, where early
    /// stopping ended it.
    #[must_use]
    pub(crate) fn as_run(&self, steps: &[&StepRecord]) -> Self {
        let last = steps.iter().map(|step| step.epoch).max();
        Self {
            epochs: last.map_or(self.epochs, |last| last + 1),
            ..self.clone()
        }
    }

    /// The same job for another trial-wide epoch: whether `epoch` is followed by an evaluation.
    pub fn evaluates_after(&self, epoch: usize) -> bool {
        match self.evaluate {
            Evaluate::EveryEpoch => true,
            Evaluate::Every(epochs) => {
                (epoch + 1).is_multiple_of(epochs.get()) || epoch + 1 == self.epochs
            }
            Evaluate::Last => epoch + 1 == self.epochs,
            Evaluate::Never => false,
        }
    }
}

/// The input of one invocation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The job that is trained.
    pub job: Job,
    /// Name of the system's function.
    pub function: String,
    /// The worker or peer it works for, in `0..workers`.
    pub rank: usize,
    /// The epoch it starts at.
    pub epoch: usize,
    /// The mini-batch it works on, for functions that do one.
    pub batch: Option<usize>,
    /// The round of the epoch, for functions of a workflow that has several per epoch.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub round: usize,
}

/// Whether a count is its default, which is not written.
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Task {
    /// Returns the mini-batch of a function that works on one.
    ///
    /// # Errors
    /// When the task, which errors call `what`, names none.
    pub(crate) fn minibatch(&self, what: &str) -> Result<usize> {
        let missing = || SystemError::malformed(what, "it names no mini-batch");
        self.batch.ok_or_else(missing)
    }

    /// Returns the mini-batches of the task's round, where an epoch has `rounds`: an even
    /// share of them, the first rounds one more.
    pub fn minibatches(&self, rounds: usize) -> Range<usize> {
        chunk_range(self.job.batches_per_worker, rounds.max(1), self.round)
    }

    /// Returns the task of the round after this one, in this epoch or the next; `None`
    /// after the last round of the last epoch.
    pub fn next_round(&self, rounds: usize) -> Option<Self> {
        let is_last = self.round + 1 >= rounds;
        let next = Self {
            round: if is_last { 0 } else { self.round + 1 },
            epoch: self.epoch + usize::from(is_last),
            batch: None,
            ..self.clone()
        };
        (next.epoch < self.job.epochs).then_some(next)
    }
}
