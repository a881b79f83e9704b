use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mechanics::transfers::TRANSFERS_AT_ONCE;
use crate::{EarlyStopping, Fidelity, ReduceOnPlateau};

/// Treatment of a function that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailedFunction {
    /// Counted as one that reported, as published: what it stored last
    /// is added, and if it has stored nothing, nothing is; the divisor counts
    /// it in any case.
    Stale,
    /// The merge is of those that reported.
    LeftOut,
    /// Called again, for the rest of its epoch, three times in all; then it is left out.
    CalledAgain,
}

/// Calls of one function in an epoch at most, under
/// [`FailedFunction::CalledAgain`].
pub const CALLS: usize = 3;

/// Treatment of the optimizer's state (momentum) at a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OptimizerState {
    /// Cleared, as published.
    Cleared,
    /// Kept as long as its function: an epoch.
    Kept,
}

/// Process that takes the mean of the functions' models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MergeBy {
    /// The job, which fetches all of them and stores their mean.
    Job,
    /// The tensor store.
    Store,
}

/// KubeML's settings: what its command line takes, and every difference
/// between the paper, the published code and what can be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// K: mini-batches between two merges, rounded up to whole documents; −1:
    /// one merge per epoch (K = ∞ in the paper).
    #[schemars(range(min = -1, max = 1_000_000))]
    pub k: i64,
    /// Whether every epoch has W functions. Otherwise W is the default
    /// parallelism, which the scheduler changes after each epoch.
    #[serde(rename = "static")]
    pub is_static: bool,
    /// The scheduler never asks for fewer functions; 0 as published.
    #[schemars(range(max = 100_000))]
    pub parallelism_at_least: usize,
    /// Samples of a document of the dataset.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub document_samples: usize,
    /// Treatment of a function that fails.
    pub failed_function: FailedFunction,
    /// Treatment of the optimizer's state at a merge.
    pub optimizer_state: OptimizerState,
    /// Process that merges.
    pub merge_by: MergeBy,
    /// Number of tensors that a function gets or stores at once.
    #[schemars(range(min = 1, max = 10_000))]
    pub function_tensors_at_once: usize,
    /// Number of tensors that the job gets or stores at once.
    #[schemars(range(min = 1, max = 10_000))]
    pub job_tensors_at_once: usize,
    /// Whether the model is deleted when the job ends, as published.
    pub deletes_model: bool,
    /// Reduction of the learning rate when the loss no longer falls; null: none.
    pub reduce_on_plateau: Option<ReduceOnPlateau>,
    /// End of training before its last epoch; null: none.
    pub early_stopping: Option<EarlyStopping>,
}

impl Settings {
    /// The settings of a fidelity.
    pub fn new(fidelity: Fidelity) -> Self {
        match fidelity {
            Fidelity::Paper => Self {
                k: -1,
                is_static: true,
                parallelism_at_least: 1,
                document_samples: 64,
                failed_function: FailedFunction::CalledAgain,
                optimizer_state: OptimizerState::Kept,
                merge_by: MergeBy::Job,
                function_tensors_at_once: 1,
                job_tensors_at_once: 50,
                deletes_model: false,
                reduce_on_plateau: None,
                early_stopping: None,
            },
            Fidelity::Code => Self {
                parallelism_at_least: 0,
                failed_function: FailedFunction::Stale,
                optimizer_state: OptimizerState::Cleared,
                deletes_model: true,
                ..Self::new(Fidelity::Paper)
            },
            Fidelity::Tuned => Self {
                merge_by: MergeBy::Store,
                function_tensors_at_once: TRANSFERS_AT_ONCE,
                job_tensors_at_once: TRANSFERS_AT_ONCE,
                ..Self::new(Fidelity::Paper)
            },
        }
    }
}
