//! The fields of an experiment file, before they are checked.

use std::collections::BTreeMap;

use epochcost_channels::LatencyMs;
use epochcost_kernels::optimizer::OptimizerSpec;
use epochcost_simulator::profile::Client;
use epochcost_systems::{Attack, Device, Evaluate, Fidelity};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::simulation::SimulationChoice;
use crate::platform::PlatformKind;
use crate::rows::sandbox::Account;
use crate::rows::{Fault, OwnModel, Precision, StatedConstant, TensorStoreChoice};

/// The file format that this program reads.
pub const SCHEMA: u64 = 1;

/// What serves the channels of the local platform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Services {
    /// This process.
    #[default]
    Embedded,
    /// Redis with the module, RabbitMQ and an S3-compatible server.
    Real,
}

impl Services {
    /// The word used in experiments and results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Real => "real",
        }
    }
}

/// The fields that describe the experiment as a whole. `systems`, `sweep`,
/// `claims` and the fields of [`Training`] are read on their own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The version of this format.
    pub schema: u64,
    /// The experiment's name; part of its run directories' names.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// The platform to run on.
    #[serde(default)]
    pub platform: PlatformKind,
    /// What serves the channels.
    #[serde(default)]
    pub services: Services,
    /// Everything random is drawn from this.
    #[serde(default = "defaults::seed")]
    pub seed: u64,
    /// Repetitions of each row.
    #[serde(default = "defaults::trials")]
    pub trials: usize,
    /// Repetitions of a row at most, where a claim cannot be decided after `trials`.
    #[serde(default)]
    pub most_trials: Option<usize>,
    /// What to train on.
    pub dataset: DatasetChoice,
    /// What a simulation stands on.
    #[serde(default)]
    pub simulation: SimulationChoice,
    /// Models of the experiment's own, to be simulated.
    #[serde(default)]
    pub models: Vec<OwnModel>,
}

/// The data to train on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetChoice {
    /// The dataset's name; of described data, any word.
    pub name: Option<String>,
    /// Training samples of described data, which exist as sizes only.
    pub samples: Option<usize>,
    /// Bytes of one stored sample of described data.
    pub bytes_per_sample: Option<usize>,
    /// Training samples, of a generated set.
    pub train: Option<usize>,
    /// Test samples, of a generated set or of described data.
    pub test: Option<usize>,
    /// Share of the training samples that is held out as a validation split.
    pub validation: Option<f64>,
    /// The generator's seed, of a generated set.
    pub seed: Option<u64>,
    /// Directory of the files; by default one under `data/`.
    pub directory: Option<String>,
}

/// The fields of one row. Each may stand at the top of the file, for all
/// systems, or in a system's entry, and may be swept.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// The training system.
    pub system: String,
    /// A name for this row, where one system is listed more than once.
    pub name: Option<String>,
    /// The description of the system that is followed.
    #[serde(default = "defaults::fidelity")]
    pub fidelity: Fidelity,
    /// The model.
    pub model: String,
    /// Data-parallel replicas (W).
    pub workers: usize,
    /// Samples in a mini-batch (b).
    pub batch_size: usize,
    /// Mini-batches per worker and epoch (B); by default one pass over its share.
    pub batches_per_worker: Option<usize>,
    /// Samples of the whole training, which all workers share; in the place of
    /// `batches_per_worker`.
    pub samples: Option<usize>,
    /// Epochs (E).
    pub epochs: usize,
    /// Schedule of evaluations on the test split; by default after the last epoch, and
    /// never of a model that is only described.
    pub evaluate: Option<Evaluate>,
    /// Whether training images are cropped and flipped at random.
    #[serde(default)]
    pub augment: bool,
    /// Memory size of every function, MB.
    #[serde(default = "defaults::memory_mb")]
    pub memory_mb: u64,
    /// Memory sizes of functions that have their own, MB, by name.
    #[serde(default)]
    pub function_memory_mb: BTreeMap<String, u32>,
    /// Time limit of an invocation, seconds.
    #[serde(default = "defaults::timeout_s")]
    pub timeout_s: u64,
    /// Size of each sandbox's `/tmp`, MB.
    #[serde(default = "defaults::ephemeral_storage_mb")]
    pub ephemeral_storage_mb: u64,
    /// The functions' own environment variables.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// How many functions the account runs.
    pub account: Option<Account>,
    /// The network that is imposed on worker processes.
    pub network: Option<NetworkChoice>,
    /// EC2 instance type of workers that run on instances; by default that of
    /// the system's publication.
    pub instance_type: Option<String>,
    /// What workers compute on.
    pub device: Option<DeviceChoice>,
    /// The optimizer; by default that of the source which the fidelity follows.
    pub optimizer: Option<OptimizerSpec>,
    /// The system's own switches.
    #[serde(default)]
    pub settings: Map<String, Value>,
    /// Faults to inject.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// Workers that send something else than their gradients.
    pub attack: Option<Attack>,
    /// Constants of the platform profile that hold for this row alone.
    #[serde(default)]
    pub constants: BTreeMap<String, StatedConstant>,
    /// How the programs of its functions are executed, in simulations.
    pub client: Option<Client>,
    /// The Redis variant that holds the peers' tensors, on real services.
    pub tensor_store: Option<TensorStoreChoice>,
}

impl Training {
    /// The names of its fields.
    pub const FIELDS: &[&str] = &[
        "system",
        "name",
        "fidelity",
        "model",
        "workers",
        "batch_size",
        "batches_per_worker",
        "samples",
        "epochs",
        "evaluate",
        "augment",
        "memory_mb",
        "function_memory_mb",
        "timeout_s",
        "ephemeral_storage_mb",
        "environment",
        "account",
        "network",
        "instance_type",
        "device",
        "optimizer",
        "settings",
        "faults",
        "attack",
        "constants",
        "client",
        "tensor_store",
    ];

    /// Returns the fields that may stand at the top of the file.
    pub fn common_fields() -> impl Iterator<Item = &'static str> {
        // At the top, `name` is the experiment's.
        Self::FIELDS
            .iter()
            .copied()
            .filter(|field| !matches!(*field, "system" | "name" | "faults" | "constants"))
    }
}

/// A network: a platform profile's, or one in figures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkChoice {
    /// The profile, by name or file.
    pub profile: Option<String>,
    /// Bandwidth of each direction, Mbit/s.
    pub bandwidth_mbit_s: Option<f64>,
    /// Latency of a request.
    pub latency_ms: Option<LatencyMs>,
}

/// What workers compute on.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceChoice {
    /// The device.
    pub kind: Device,
    /// Whether to take the CPU, in `fp32`, where there is no such device.
    #[serde(default)]
    pub fallback: bool,
    /// Numeric precision of matrix products.
    #[serde(default)]
    pub precision: Precision,
}

mod defaults {
    use super::Fidelity;
    use crate::rows::sandbox::EPHEMERAL_STORAGE_MB;

    pub fn seed() -> u64 {
        42
    }
    pub fn trials() -> usize {
        1
    }
    pub fn fidelity() -> Fidelity {
        Fidelity::Paper
    }
    pub fn memory_mb() -> u64 {
        2048
    }
    pub fn timeout_s() -> u64 {
        900
    }
    pub fn ephemeral_storage_mb() -> u64 {
        u64::from(*EPHEMERAL_STORAGE_MB.start())
    }
}
