//! Input and outcome of a simulation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use epochcost_channels::Traffic;
use epochcost_systems::{
    Compute, Fault, Host, InvokedTask, Job, Record, Result, Sizes, Totals, weight,
};
use serde::{Deserialize, Serialize};

use crate::limits::Infeasible;
use crate::profile::{ModelCost, Profile};
use crate::recorded::Recorded;

/// The description of a simulated trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulation {
    /// The training job.
    pub job: Job,
    /// Sizes of the job's model.
    pub sizes: Sizes,
    /// Memory size of every function, MB.
    pub memory_mb: u32,
    /// Memory sizes of functions that have their own, MB, by name.
    #[serde(default)]
    pub function_memory_mb: BTreeMap<String, u32>,
    /// Longest invocation before the platform ends it, seconds.
    pub timeout_s: f64,
    /// The platform.
    pub profile: Profile<f64>,
    /// The cost of a training step on the platform.
    pub cost: ModelCost,
    /// Whether the platform's limits apply.
    pub has_limits: bool,
    /// Injected faults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// Trainings like this one, itself included, that run at once on the same servers and GPUs, with
    /// names of their own; the outcome is the first one's.
    #[serde(default = "weight::one", skip_serializing_if = "weight::is_one")]
    pub jobs: u64,
}

/// A maker of the real model of an invocation.
pub type MakeCompute = Box<dyn Fn() -> Result<Box<dyn Compute>> + Send + Sync>;

/// Data, model and observer of a simulation: what its description cannot hold.
#[derive(Default)]
pub struct Options {
    /// The records to train and test on; without them only sizes exist.
    pub data: Option<(Bytes, Bytes)>,
    /// The maker of real models; without it, values are sizes only.
    pub compute: Option<MakeCompute>,
    /// Records of a trained trial that is timed again: what depends on values and decides
    /// times. Only sizes exist then.
    pub recorded: Option<Arc<Recorded>>,
    /// Whether the record of every step is kept, or only their totals.
    pub keeps_steps: bool,
    /// Whether one invocation is kept of those that are billed alike: where nobody asks for
    /// single ones, memory does not grow with their number.
    pub merges_invocations: bool,
    /// Whether every poll is simulated, also those that would find nothing: the same
    /// outcome, in more time.
    pub simulates_every_poll: bool,
    /// Number of workers above which workers that are alike are simulated by a few of them;
    /// none: every worker is simulated.
    pub classes_above: Option<usize>,
    /// Real instant at which the simulation is given up with [`SimulationError::GivenUp`].
    ///
    /// [`SimulationError::GivenUp`]: crate::SimulationError::GivenUp
    pub give_up_at: Option<Instant>,
    /// An observer that receives the number of ended steps.
    pub progress: Option<Box<dyn Fn(u64) + Send + Sync>>,
}

/// A simulated invocation, or instance. Times are in virtual time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invocation {
    /// Number, unique in the trial.
    pub id: u64,
    /// The work.
    pub task: InvokedTask,
    /// Kind of host: function or instance.
    pub host: Host,
    /// The sandbox that served it.
    pub sandbox: u64,
    /// Start of its code, seconds.
    pub started_s: f64,
    /// Run time, seconds.
    pub duration_s: f64,
    /// Billed init of a cold sandbox, or boot of an instance, seconds.
    pub init_s: Option<f64>,
    /// Memory size, MB; none for instances.
    pub memory_mb: Option<u32>,
    /// Peak memory of its sandbox so far, MB.
    pub peak_memory_mb: f64,
    /// The error, if it failed.
    pub error: Option<String>,
    /// Number of invocations that are alike, this one included.
    #[serde(default = "weight::one")]
    pub alike: u64,
}

/// The outcome of a simulation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulated {
    /// Evaluations, warnings, and steps if they were kept.
    pub records: Vec<Record>,
    /// Sums over all steps.
    pub totals: Totals,
    /// Every invocation that ended, in the order in which they ended.
    pub invocations: Vec<Invocation>,
    /// Most requests of an invocation of each function to the object store, of each kind.
    pub most_requests: BTreeMap<String, Traffic>,
    /// State transitions of workflows.
    pub transitions: u64,
    /// Virtual seconds from the first start to the last end.
    pub wall_s: f64,
    /// Events that the simulation went through.
    pub events: u64,
    /// The limit that makes the setting impossible.
    pub infeasible: Option<Infeasible>,
    /// The failure, if no limit caused it.
    pub failure: Option<String>,
}
