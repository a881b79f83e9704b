use epochcost_kernels::optimizer::OptimizerSpec;
use serde::{Deserialize, Serialize};

use crate::StepRecord;

/// Which description of a system is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fidelity {
    /// As the paper describes it.
    Paper,
    /// As the published code behaves, its defects included.
    Code,
    /// The same idea done as well as we can.
    Tuned,
}

impl Fidelity {
    /// All of them, in the order in which reports name them.
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

/// When the model is evaluated on the test split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evaluate {
    /// After every epoch.
    EveryEpoch,
    /// After the last epoch.
    Last,
    /// Never.
    Never,
}

/// What gradients are computed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU through CUDA.
    Cuda,
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
    /// Training samples of the whole dataset.
    pub train_samples: usize,
    /// Test samples evaluated on.
    pub test_samples: usize,
    /// Whether training images are cropped and flipped at random.
    pub augment: bool,
}

/// What to train and how: the same for every worker of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Unique name of the trial.
    pub trial: String,
    /// The training system's name.
    pub system: String,
    /// Which description of it is followed.
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
    /// Mini-batches a worker an epoch (B).
    pub batches_per_worker: usize,
    /// Epochs (E).
    pub epochs: usize,
    /// Everything random is drawn from this.
    pub seed: u64,
    /// The optimizer and its hyper-parameters.
    pub optimizer: OptimizerSpec,
    /// When to evaluate.
    pub evaluate: Evaluate,
    /// What to compute on.
    pub device: Device,
}

impl Job {
    /// The job with the epochs that `steps` say were run: fewer, where early
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
            Evaluate::Last => epoch + 1 == self.epochs,
            Evaluate::Never => false,
        }
    }
}

/// The input of one invocation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// What is being trained.
    pub job: Job,
    /// Which of the system's functions this is.
    pub function: String,
    /// The worker or peer it works for, in `0..workers`.
    pub rank: usize,
    /// The epoch it starts at.
    pub epoch: usize,
    /// The mini-batch it works on, for functions that do one.
    pub batch: Option<usize>,
}
