//! Input and outcome of a simulation.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use epochcost_systems::{
    Compute, Fault, Host, InvokedTask, Job, PurposeTraffic, Record, Result, Sizes, Stage,
    StageSeconds, StepRecord, Waits,
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
    #[serde(default = "one")]
    pub alike: u64,
}

fn one() -> u64 {
    1
}

/// Sums over all steps of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Steps that ended.
    pub steps: u64,
    /// Seconds per function and stage.
    pub seconds: BTreeMap<String, StageSeconds>,
    /// All traffic, sent and received.
    pub traffic: PurposeTraffic,
    /// Polls that found nothing.
    #[serde(default)]
    pub waits: Waits,
    /// First start and last end of the steps of each epoch, seconds.
    #[serde(default)]
    pub epochs: BTreeMap<usize, (f64, f64)>,
}

impl Totals {
    /// Adds a step that ended, as often as there are steps alike.
    pub(crate) fn note(&mut self, step: &StepRecord, alike: u64) {
        self.steps += alike;
        let mut seconds = step.seconds;
        let mut end_s = step.started_s;
        for stage in Stage::ALL {
            end_s += step.seconds.of(stage);
            seconds.add(stage, step.seconds.of(stage) * (alike - 1) as f64);
        }
        match self.seconds.get_mut(&step.function) {
            Some(sum) => *sum += seconds,
            None => {
                self.seconds.insert(step.function.clone(), seconds);
            }
        }
        self.traffic += step.traffic.times(alike);
        self.waits += step.waits.unwrap_or_default().times(alike);
        let epoch = self.epochs.entry(step.epoch);
        let (first, last) = epoch.or_insert((f64::INFINITY, f64::NEG_INFINITY));
        *first = first.min(step.started_s);
        *last = last.max(end_s);
    }
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
