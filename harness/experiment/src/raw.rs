//! The fields of an experiment file, before they are checked.

use std::collections::BTreeMap;

use epochcost_channels::LatencyMs;
use epochcost_kernels::optimizer::OptimizerSpec;
use epochcost_platform::PlatformKind;
use epochcost_simulator::profile::Client;
use epochcost_spec::rows::sandbox::{Account, EPHEMERAL_STORAGE_MB};
use epochcost_spec::rows::{
    self, Fault, OneMachine, OwnModel, Precision, StatedConstant, TensorStoreChoice,
};
use epochcost_systems::{Attack, Device, Evaluate, Fidelity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::names;
use super::simulation::SimulationChoice;

/// The file format that this program reads.
pub const SCHEMA: u64 = 1;

/// What serves the channels of the local platform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Services {
    /// Servers within this process.
    #[default]
    Embedded,
    /// RabbitMQ, an S3-compatible server and a Redis per tensor store, which the run starts on loopback.
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

/// The fields that describe the experiment as a whole. Lists, the sweep and the fields of
/// [`Training`] are read on their own.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version of this format.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: u64,
    /// Name, part of run directories' names: letters, digits, `-`, `_` and `.`.
    #[schemars(length(max = 100), regex(pattern = "^[A-Za-z0-9._-]+$"))]
    pub name: String,
    /// Purpose of the experiment.
    #[serde(default)]
    pub description: String,
    /// Platform that the rows run on.
    #[serde(default)]
    pub platform: PlatformKind,
    /// On `local`: what serves the channels.
    #[serde(default)]
    pub services: Services,
    /// On `aws`: one rented `instance_type` runs the whole of each trial by the local platform, in place of
    /// functions and services.
    pub one_machine: Option<OneMachine>,
    /// Trial t of every row has a seed that is mixed from this and t.
    #[serde(default = "defaults::seed")]
    #[schemars(range(max = u64::MAX))]
    pub seed: u64,
    /// Repetitions of each row, interleaved; 200,000 over all rows.
    #[serde(default = "defaults::trials")]
    #[schemars(range(min = 1, max = 10_000))]
    pub trials: usize,
    /// Most repetitions of rows that an open claim compares. By default `trials`, on `local` from 2 on
    /// four times that.
    #[schemars(range(min = 1, max = 10_000))]
    pub most_trials: Option<usize>,
    /// Data to train on.
    pub dataset: DatasetChoice,
    /// Profiles and options of a simulation; ignored on other platforms.
    #[serde(default)]
    pub simulation: SimulationChoice,
    /// Models that exist as sizes only, for simulations.
    #[serde(default)]
    #[schemars(length(max = 1_000))]
    pub models: Vec<OwnModel>,
}

/// Data to train on: files of a known dataset, or, with `samples`, sizes only, for simulations without
/// `real_compute`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DatasetChoice {
    /// Name (`epochcost list datasets`); of data that are sizes only, any.
    #[schemars(transform = names::datasets)]
    pub name: Option<String>,
    /// Training samples of data that are sizes only.
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub samples: Option<usize>,
    /// Bytes of a stored sample of data that are sizes only.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub bytes_per_sample: Option<usize>,
    /// Training samples of a generated set, 10 to 65,536; by default the list's.
    #[schemars(range(min = 1, max = 65_536))]
    pub train: Option<usize>,
    /// Test samples of a generated set, or of data that are sizes only (there 0 by default).
    #[schemars(range(max = 1_000_000_000_000_u64))]
    pub test: Option<usize>,
    /// Share of the training samples, above 0 and below 1, that is held out, the last ones in every
    /// trial; techniques and searches follow the loss on them.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub validation: Option<f64>,
    /// Seed of a generated set; by default the list's.
    #[schemars(range(max = u64::MAX))]
    pub seed: Option<u64>,
    /// Directory of the files. By default `data/<name>`, of generated sets
    /// `data/<name>-<train>-<test>-<seed>`.
    pub directory: Option<String>,
}

/// The fields of one row. Each may be at the top of the file, for all systems, or in a system's entry,
/// and may be swept.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// Training system (`epochcost list systems`).
    #[schemars(transform = names::systems)]
    pub system: String,
    /// Unique id, followed by swept values; by default system, model and fidelity. Characters other than
    /// ASCII letters, digits and `.` become `-`; a name longer than 110 is cut and ends in 16 digits of
    /// its SHA-256.
    pub name: Option<String>,
    /// Description of the system that is followed.
    #[serde(default = "defaults::fidelity")]
    pub fidelity: Fidelity,
    /// Model (`epochcost list models`, or one of `models`). It must take the dataset's images: no larger
    /// than its input, of as many channels or one, of no more classes.
    #[schemars(transform = names::models)]
    pub model: String,
    /// Classes of the model's head, where they are not its own: sizes alone, so that the row can be simulated
    /// only, without `real_compute`. Its step costs what the model's does.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub classes: Option<usize>,
    /// Data-parallel replicas (W). A row that may exchange more than 10¹⁸ bytes (W² · B · E gradients)
    /// is an error.
    #[schemars(range(min = 1, max = 100_000))]
    pub workers: usize,
    /// Samples in a mini-batch (b).
    #[schemars(range(min = 1, max = 10_000_000))]
    pub batch_size: usize,
    /// Mini-batches per worker and epoch (B), at most ⌊share / b⌋ of a share of ⌊samples / W⌋ where data are
    /// read (a simulation of sizes has as many samples as are asked for); by default one pass over it.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub batches_per_worker: Option<usize>,
    /// Samples of the whole training over all workers, in place of `batches_per_worker`:
    /// B = ⌈samples / (W·b·E)⌉ in simulations, ⌊…⌋ where data are read.
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub samples: Option<usize>,
    /// Epochs (E).
    #[schemars(range(min = 1, max = 100_000))]
    pub epochs: usize,
    /// Epochs after which the model is evaluated on the test split, and on the validation split if there
    /// is one. By default `last`, of a model of `models` `never`.
    pub evaluate: Option<Evaluate>,
    /// Whether training images are cropped and flipped at random.
    #[serde(default)]
    pub augment: bool,
    /// Memory of every function, MB: 1,769 are one virtual CPU. 128 to 10,240, on `sim` any.
    #[serde(default = "defaults::memory_mb")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub memory_mb: u64,
    /// Memory of single functions, MB, by name (`epochcost list systems NAME`). Not on `aws`.
    #[serde(default)]
    #[schemars(extend("additionalProperties" = {"type": "integer", "minimum": 1, "maximum": 10_000_000}))]
    pub function_memory_mb: BTreeMap<String, u32>,
    /// Time-out of every invocation, seconds; on `aws` at most. A local trial is ended after (E × functions of the system
    /// + 1) times that.
    #[serde(default = "defaults::timeout_s")]
    #[schemars(range(min = 1, max = 900))]
    pub timeout_s: u64,
    /// Size of each sandbox's `/tmp`, MB, on `local`. No cost model includes Lambda's price above 512.
    #[serde(default = "defaults::ephemeral_storage_mb")]
    #[schemars(range(min = *EPHEMERAL_STORAGE_MB.start(), max = *EPHEMERAL_STORAGE_MB.end()))]
    pub ephemeral_storage_mb: u64,
    /// Variables of the functions, on `local`, except Lambda's own and this program's (`AWS_…`,
    /// `LAMBDA_…`, `_HANDLER`, `TZ`, `EPOCHCOST_…`). Not secret: they are written to `plan.json`.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Limits of the account. On `sim` the constants `function.*` of these names.
    pub account: Option<Account>,
    /// Bandwidth and latency of every worker process's network, on `local`.
    pub network: Option<NetworkChoice>,
    /// Type of workers' instances, which needs a price in the price book. By default the publication's:
    /// `g4dn.xlarge`; P2P `t2.large`, P2P with Lambda and KubeML's job `t2.small`. On GPUs, `mirrored`
    /// needs a type with W of them.
    #[schemars(transform = names::instances)]
    pub instance_type: Option<String>,
    /// Device that workers compute on. By default of functions and P2P the CPU, of the GPU baseline and
    /// `mirrored` `cuda` with `fallback`. Functions with `cuda` are `kubeml`'s on `local` alone, which
    /// share GPUs.
    pub device: Option<DeviceChoice>,
    /// Optimizer, with PyTorch's semantics; by default that of the fidelity's source, which also fills in
    /// what a swept or `--set` path leaves out. SPIRT takes SGD only.
    pub optimizer: Option<OptimizerSpec>,
    /// Switches of the system (`epochcost list systems NAME` has their values by fidelity).
    #[serde(default)]
    pub settings: Map<String, Value>,
    /// Injected failures, for tests; plans leave them out. One that cannot occur is an error, one that
    /// did not happen a warning.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// Workers that send something else than their gradients. Not in a simulation without `real_compute`.
    pub attack: Option<Attack>,
    /// In simulations: constants of the platform profile for this row alone, as in `simulation`.
    #[serde(default)]
    pub constants: BTreeMap<String, StatedConstant>,
    /// In simulations: the client of this row's functions, as in `simulation`.
    pub client: Option<Client>,
    /// Trainings of the row that run at once, names apart, on the same object store, broker, tensor stores and
    /// GPUs of functions; workers' instances are each one's own. They pay the hosts of stores and broker in equal
    /// parts, all else as if alone. Figures are the first one's. On `sim`, and on `local` with `services: real`.
    #[serde(default = "rows::one")]
    #[schemars(range(min = 1, max = 64))]
    pub jobs: usize,
    /// With `services: real`: what computes on tensors.
    pub tensor_store: Option<TensorStoreChoice>,
}

/// A network: a platform profile's, or one in figures; a figure that is left out is not shaped.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkChoice {
    /// Platform profile, by name or file: its bandwidth of a function of the row's memory size (of an
    /// instance, without functions), and its latency of each service.
    pub profile: Option<String>,
    /// Bandwidth of each direction of a worker process, Mbit/s (10⁶ bits/s).
    #[schemars(range(min = 0.001, max = 1e9))]
    pub bandwidth_mbit_s: Option<f64>,
    /// Latency of a request of each channel, without its bytes, ms.
    pub latency_ms: Option<LatencyMs>,
}

/// Device that workers compute on.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceChoice {
    /// The device.
    pub kind: Device,
    /// Whether the CPU in fp32 takes the place of a GPU that is missing, with a warning; otherwise the run
    /// ends with exit code 5.
    #[serde(default)]
    pub fallback: bool,
    /// Numeric precision of matrix products on the GPU, on `local` and `aws`.
    #[serde(default)]
    pub precision: Precision,
}

mod defaults {
    use epochcost_spec::rows::sandbox::EPHEMERAL_STORAGE_MB;

    use super::Fidelity;

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
