//! What a simulation is given, and what it gives.

use std::collections::BTreeMap;

use bytes::Bytes;
use epochcost_systems::{
    Compute, Host, InvokedTask, Job, PurposeTraffic, Record, Result, Sizes, StageSeconds,
};
use serde::{Deserialize, Serialize};

use crate::limits::Infeasible;
use crate::profile::{ModelCost, Profile};

/// What to simulate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulation {
    /// What is trained.
    pub job: Job,
    /// Sizes of its model.
    pub sizes: Sizes,
    /// Memory size of every function, MB.
    pub memory_mb: u32,
    /// When the platform ends an invocation, seconds.
    pub timeout_s: f64,
    /// The platform.
    pub profile: Profile<f64>,
    /// What a training step costs there.
    pub cost: ModelCost,
    /// Whether the platform's limits hold.
    pub has_limits: bool,
}

/// Makes the real model of an invocation, where one computes.
pub type MakeCompute = Box<dyn Fn() -> Result<Box<dyn Compute>> + Send + Sync>;

/// What a simulation needs beside its description.
#[derive(Default)]
pub struct Options {
    /// The records to train and test on; without them only sizes exist.
    pub data: Option<(Bytes, Bytes)>,
    /// Makes the real model of an invocation.
    pub compute: Option<MakeCompute>,
    /// Whether the record of every step is kept, or only their totals.
    pub keeps_steps: bool,
    /// Whether every look for something that is not there yet is gone
    /// through, instead of leaving out those that would find nothing: the same
    /// outcome, for the longer time that it takes.
    pub makes_every_look: bool,
    /// Told how many steps have ended.
    pub progress: Option<Box<dyn Fn(u64) + Send + Sync>>,
}

/// A simulated invocation, or instance. Times are seconds of virtual time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invocation {
    /// Its number.
    pub id: u64,
    /// What it did.
    pub task: InvokedTask,
    /// Function, or instance.
    pub host: Host,
    /// The sandbox that served it.
    pub sandbox: u64,
    /// When its code began.
    pub started_s: f64,
    /// How long it ran.
    pub duration_s: f64,
    /// Billed init of a cold sandbox, or the boot of an instance.
    pub init_s: Option<f64>,
    /// Memory size, MB; of an instance, null.
    pub memory_mb: Option<u32>,
    /// Peak memory of its sandbox so far, MB.
    pub peak_memory_mb: f64,
    /// Why it failed.
    pub error: Option<String>,
}

/// What all steps of a trial together did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Steps that ended.
    pub steps: u64,
    /// Seconds by stage, by function.
    pub seconds: BTreeMap<String, StageSeconds>,
    /// Everything that was sent and received.
    pub traffic: PurposeTraffic,
}

/// What a simulation gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulated {
    /// Evaluations, warnings, and steps if they were kept.
    pub records: Vec<Record>,
    /// What all steps together did.
    pub totals: Totals,
    /// Every invocation that ended, in the order in which they ended.
    pub invocations: Vec<Invocation>,
    /// State transitions of workflows.
    pub transitions: u64,
    /// Virtual seconds from the first start to the last end.
    pub wall_s: f64,
    /// Events that the simulation went through.
    pub events: u64,
    /// The limit that makes it impossible.
    pub infeasible: Option<Infeasible>,
    /// Why it failed, where no limit is to blame.
    pub failure: Option<String>,
}
