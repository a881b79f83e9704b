//! Injected faults, for tests of failure behaviour.

use std::process::{self, Command};
use std::sync::Arc;
use std::time::Duration;
use std::{env, thread};

use async_trait::async_trait;
use epochcost_systems::{
    Batch, ComputeHook, Record, Recorder, Result, Stage, StageEntry, StageHook, SystemError,
};
use serde::Deserialize;
use tokio::time::sleep;

use crate::output::Output;

/// A fault injected into one gradient, or one stage of a step, of one worker.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Rank of the worker.
    pub rank: usize,
    /// The epoch.
    pub epoch: usize,
    /// The mini-batch; 0 for a step that is a whole epoch.
    pub batch: usize,
    /// Kind of the fault.
    pub kind: FaultKind,
    /// The stage before which it happens; `None`: before the gradient.
    #[serde(default)]
    pub stage: Option<Stage>,
    /// The function in which it happens; `None`: in any.
    #[serde(default)]
    pub function: Option<String>,
}

/// The effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The process ends at once.
    Crash,
    /// The process stops, and its connections stay open.
    Hang,
    /// The function returns an error.
    Error,
    /// The worker is delayed by this many milliseconds.
    StragglerMs(u64),
    /// The worker allocates memory until it is stopped.
    OutOfMemory,
}

/// The faults of one function's invocations.
#[derive(Clone)]
pub struct Faults {
    /// The faults that can happen in this function, with their numbers in the row's list.
    faults: Arc<[(usize, Fault)]>,
}

impl Faults {
    /// Takes from a row's `faults` those of `function`.
    pub fn new(faults: &[Fault], function: &str) -> Self {
        let is_own = |fault: &Fault| fault.function.as_ref().is_none_or(|name| name == function);
        let own = faults.iter().cloned().enumerate();
        Self {
            faults: own.filter(|(_, fault)| is_own(fault)).collect(),
        }
    }

    /// Returns the faults that `applies` finds at this moment.
    fn due<'a>(
        &'a self,
        applies: impl Fn(&Fault) -> bool + 'a,
    ) -> impl Iterator<Item = (usize, &'a Fault)> {
        let numbered = self.faults.iter().map(|(number, fault)| (*number, fault));
        numbered.filter(move |(_, fault)| applies(fault))
    }
}

/// Records that a fault happens.
fn record(number: usize, fault: &Fault) {
    Output.record(Record::Fault {
        rank: fault.rank,
        fault: number,
    });
}

#[async_trait]
impl ComputeHook for Faults {
    async fn before_gradient(&mut self, batch: &Batch) -> Result<()> {
        let applies = |fault: &Fault| {
            fault.stage.is_none()
                && (fault.rank, fault.epoch, fault.batch) == (batch.rank, batch.epoch, batch.index)
        };
        for (number, fault) in self.due(applies) {
            record(number, fault);
            apply(fault.kind).await?;
        }
        Ok(())
    }
}

impl StageHook for Faults {
    fn before_stage(&self, entry: StageEntry) {
        let at = (entry.rank, entry.epoch, entry.batch.unwrap_or(0));
        let applies = |fault: &Fault| {
            fault.stage == Some(entry.stage) && (fault.rank, fault.epoch, fault.batch) == at
        };
        for (number, fault) in self.due(applies) {
            record(number, fault);
            apply_to_thread(fault.kind);
        }
    }
}

/// Applies a fault to a computation.
async fn apply(kind: FaultKind) -> Result<()> {
    match kind {
        FaultKind::Crash => crash(),
        FaultKind::Hang => hang(),
        FaultKind::Error => Err(SystemError::Compute("injected fault: error".into())),
        FaultKind::StragglerMs(late_ms) => {
            sleep(Duration::from_millis(late_ms)).await;
            Ok(())
        }
        FaultKind::OutOfMemory => allocate().await,
    }
}

/// Applies a fault to the thread that trains. An experiment gives a stage no other kinds.
fn apply_to_thread(kind: FaultKind) {
    match kind {
        FaultKind::Crash => crash(),
        FaultKind::Hang => hang(),
        FaultKind::StragglerMs(late_ms) => thread::sleep(Duration::from_millis(late_ms)),
        FaultKind::Error | FaultKind::OutOfMemory => {}
    }
}

/// Ends the process, without its destructors.
fn crash() -> ! {
    eprintln!("injected fault: crash");
    process::exit(1)
}

/// Stops the process as SIGSTOP does; where there is no `kill`, its training thread alone.
fn hang() -> ! {
    eprintln!("injected fault: hang");
    let own = process::id().to_string();
    // A failure leaves the thread parked, which is the same for all who wait for it.
    let _ = Command::new("kill").args(["-STOP", &own]).status();
    loop {
        thread::park();
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
