//! Injected faults, for tests of failure behaviour.

use std::time::Duration;
use std::{env, process};

use async_trait::async_trait;
use epochcost_systems::{Batch, ComputeHook, Result, SystemError};
use serde::Deserialize;
use tokio::time::sleep;

/// A fault injected into one gradient of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Rank of the worker.
    pub rank: usize,
    /// The epoch.
    pub epoch: usize,
    /// The mini-batch.
    pub batch: usize,
    /// Kind of the fault.
    pub kind: FaultKind,
}

/// The effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The process ends at once.
    Crash,
    /// The function returns an error.
    Error,
    /// The worker is delayed by this many milliseconds.
    StragglerMs(u64),
    /// The worker allocates memory until it is stopped.
    OutOfMemory,
}

/// The faults of a worker, applied before each gradient.
pub struct Faults(pub Vec<Fault>);

#[async_trait]
impl ComputeHook for Faults {
    async fn before_gradient(&mut self, batch: &Batch) -> Result<()> {
        let applies = |fault: &&Fault| {
            (fault.rank, fault.epoch, fault.batch) == (batch.rank, batch.epoch, batch.index)
        };
        for fault in self.0.iter().filter(applies) {
            apply(fault.kind).await?;
        }
        Ok(())
    }
}

/// Applies a fault.
async fn apply(kind: FaultKind) -> Result<()> {
    match kind {
        FaultKind::Crash => {
            eprintln!("injected fault: crash");
            process::exit(1)
        }
        FaultKind::Error => Err(SystemError::Compute("injected fault: error".into())),
        FaultKind::StragglerMs(late_ms) => {
            sleep(Duration::from_millis(late_ms)).await;
            Ok(())
        }
        FaultKind::OutOfMemory => allocate().await,
    }
}

/// Allocates memory until the platform ends the process.
///
/// # Errors
/// [`SystemError::Compute`] when twice the function's memory is allocated and the
/// platform has not ended the process.
pub async fn allocate() -> Result<()> {
    const BLOCK_MB: usize = 16;
    let memory_mb = env::var("AWS_LAMBDA_FUNCTION_MEMORY_SIZE").ok();
    let memory_mb: usize = memory_mb.and_then(|mb| mb.parse().ok()).unwrap_or(512);
    let mut taken = Vec::new();
    while taken.len() * BLOCK_MB < 2 * memory_mb {
        taken.push(vec![1u8; BLOCK_MB << 20]);
        sleep(Duration::from_millis(5)).await;
    }
    Err(SystemError::Compute(format!(
        "{} MB were taken and nothing happened",
        taken.len() * BLOCK_MB
    )))
}
