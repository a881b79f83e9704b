//! What the process of a worker uses, by stage.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Stage;

/// Resources that a process has used so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// CPU time, user and system, over all threads.
    pub cpu: Duration,
    /// Memory resident now, MB of 1,048,576 bytes.
    pub resident_mb: f64,
}

/// Reads what this worker's process uses.
pub trait Resources: Send + Sync {
    /// Returns the current usage; `None` where it is not available, as in a simulation.
    fn read(&self) -> Option<Reading>;
}

/// A source without readings.
pub(crate) struct Unknown;

impl Resources for Unknown {
    fn read(&self) -> Option<Reading> {
        None
    }
}

/// Resources that a stage of a step used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageUsage {
    /// CPU seconds, over all threads.
    pub cpu_s: f64,
    /// The most memory that was resident when it was left, MB.
    pub resident_mb: f64,
}

/// What each stage of a step used: those that it went through, where it is
/// known.
pub type StageUsages = BTreeMap<Stage, StageUsage>;

/// Adds what was used between two readings to `stage`.
pub(crate) fn add(
    usages: &mut StageUsages,
    stage: Stage,
    before: Option<Reading>,
    after: Option<Reading>,
) {
    if let (Some(before), Some(after)) = (before, after) {
        let usage = usages.entry(stage).or_default();
        usage.cpu_s += after.cpu.saturating_sub(before.cpu).as_secs_f64();
        usage.resident_mb = usage.resident_mb.max(after.resident_mb);
    }
}
