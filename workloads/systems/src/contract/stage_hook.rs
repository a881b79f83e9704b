//! Code that runs when a worker enters a stage: injected faults, or a test's own.

use crate::Stage;

/// A moment of a trial: one worker enters one stage of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageEntry {
    /// The worker.
    pub rank: usize,
    /// The epoch of the step.
    pub epoch: usize,
    /// The mini-batch of the step; `None` where the step is a whole epoch.
    pub batch: Option<usize>,
    /// The stage.
    pub stage: Stage,
}

/// Code that runs when a worker enters a stage.
pub trait StageHook: Send + Sync {
    /// Runs before anything of the stage is done.
    fn before_stage(&self, entry: StageEntry);
}
