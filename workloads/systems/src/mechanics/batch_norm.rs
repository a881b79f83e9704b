//! Batch-norm statistics where every mini-batch has a function of its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::World;

/// Batch-norm statistics that outlive a gradient function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BatchNorm {
    /// Statistics of the peer's mini-batch 0.
    FirstBatch,
    /// No statistics: every function starts afresh, and evaluation uses the initial
    /// statistics, as published.
    Fresh,
}

impl BatchNorm {
    /// Whether the model has statistics that outlive a function.
    pub(crate) fn is_kept(self, world: &World) -> bool {
        self == Self::FirstBatch && world.compute.statistics() > 0
    }
}
