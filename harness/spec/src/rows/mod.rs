//! Rows: what the harness asks a platform to run, and what a simulation of it
//! stands on.

mod own_model;
pub mod sandbox;
mod simulation;
mod stated;

use std::collections::BTreeMap;

use epochcost_servers::Allocator;
use epochcost_simulator::profile::Client;
use epochcost_systems::{Job, Sizes, find, find_model};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use epochcost_systems::{Fault, FaultKind};
pub use own_model::OwnModel;
pub use simulation::stated;
pub use simulation::{STATED_BY_EXPERIMENT, Simulation, device, draw_seed};
pub use stated::{Basis, StatedConstant};

use sandbox::Sandbox;

/// Optimizer steps below which a run without a target accuracy is too short to compare.
pub const FEW_STEPS: usize = 50;

/// One row of the results: a system under one setting, repeated in trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Unique name inside the run, made of the system and the swept values.
    pub id: String,
    /// What to train; its `trial` and `seed` are filled in for each trial.
    pub job: Job,
    /// Memory size of every function, MB; decides the CPU share (1,769 MB = 1 vCPU).
    pub memory_mb: u32,
    /// Memory sizes of functions that have their own, MB, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub function_memory_mb: BTreeMap<String, u32>,
    /// Time limit of an invocation, seconds.
    pub timeout_s: u64,
    /// EC2 instance type of workers that run on instances.
    pub instance_type: String,
    /// Whether a worker may fall back to the CPU in `fp32` where the GPU is missing.
    pub cpu_fallback: bool,
    /// Numeric precision of matrix products.
    #[serde(default, skip_serializing_if = "Precision::is_default")]
    pub precision: Precision,
    /// Faults to inject, for tests of failure behaviour.
    pub faults: Vec<Fault>,
    /// What the experiment states about its model, where this program has none of
    /// that name: the row can be simulated only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_model: Option<OwnModel>,
    /// Classes of its model's head, where they are not the model's own: the row can be simulated
    /// only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<usize>,
    /// Constants of the platform profile that this row alone states otherwise,
    /// by their paths: the row can be simulated only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub constants: BTreeMap<String, StatedConstant>,
    /// The client of its functions, where it is not the experiment's: the row can be
    /// simulated only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Client>,
    /// The Redis that holds the peers' tensors; none but on real services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensor_store: Option<TensorStoreChoice>,
    /// Trainings like it, itself included, that run at once on the same servers and GPUs of
    /// functions; figures are the first one's.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub jobs: usize,
    /// The rented instance that runs the whole of a trial by the local platform; none of other rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_machine: Option<OneMachine>,
    /// What surrounds its worker processes on the local platform.
    #[serde(default, skip_serializing_if = "Sandbox::is_default")]
    pub sandbox: Sandbox,
}

/// One training, which runs alone.
pub fn one() -> usize {
    1
}

/// Returns whether a training runs alone.
pub fn is_one(count: &usize) -> bool {
    *count == 1
}

/// A rented instance that runs the whole of a trial by the local platform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OneMachine {
    /// GPUs that its workers share; by default all.
    #[schemars(range(min = 1, max = 16))]
    pub gpus: Option<u32>,
}

/// How exact matrix products are; everything else is `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// `f32` throughout.
    #[default]
    Fp32,
    /// Factors may be rounded as a GPU's tensor cores take them, to 10 bits of mantissa.
    Tf32,
    /// Factors are rounded to bfloat16.
    Bf16,
}

impl Precision {
    /// Returns whether it is `fp32`, which is not written.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns its name in experiments and on the wire to workers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
        }
    }
}

/// The tensor stores of a row on real services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TensorStoreChoice {
    /// What computes.
    #[serde(default)]
    pub kind: TensorStoreKind,
    /// What Redis does with freed memory.
    #[serde(default)]
    pub allocator: Allocator,
}

/// What computes on tensors in Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TensorStoreKind {
    /// Redis, by this project's module.
    #[default]
    Module,
    /// The client, which fetches, computes and stores; Redis is as it comes.
    Plain,
    /// Redis, by Lua scripts; it is as it comes.
    Lua,
}

impl TensorStoreKind {
    /// Returns the scheme of the store's endpoint: what workers speak to it.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Module => "redis",
            Self::Plain => "redis+plain",
            Self::Lua => "redis+lua",
        }
    }
}

impl Row {
    /// Returns whether its tensors are computed on by the Redis module.
    pub fn needs_module(&self) -> bool {
        self.tensor_stores() > 0
            && self.tensor_store.unwrap_or_default().kind == TensorStoreKind::Module
    }

    /// Number of tensor stores that its workers use; 0 of a row that its system refuses.
    pub fn tensor_stores(&self) -> usize {
        let bound = find(&self.job.system).and_then(|system| system.bind(&self.job).ok());
        bound.map_or(0, |bound| bound.tensor_stores())
    }

    /// Sizes of its model.
    pub fn sizes(&self) -> Sizes {
        match &self.own_model {
            Some(model) => model.sizes(),
            // A checked row names a model of the table; the first stands in for the type's sake.
            None => {
                let model = find_model(&self.job.model).unwrap_or(&epochcost_systems::models()[0]);
                let classes = self.classes;
                classes.map_or(model.sizes, |classes| model.with_classes(classes))
            }
        }
    }
}

/// One repetition of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialPlan {
    /// The row it repeats, with the job's `trial` and `seed` set.
    pub row: Row,
    /// Number, from 0.
    pub trial: usize,
    /// Sizes of the model.
    pub sizes: Sizes,
}
