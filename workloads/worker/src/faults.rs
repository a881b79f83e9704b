//! Injected faults, for tests of failure behaviour.

use std::process::{self, Command};
use std::sync::Arc;
use std::time::Duration;
use std::{env, thread};

use async_trait::async_trait;
use epochcost_systems::{
    Batch, ComputeHook, Fault, FaultKind, Faults, MessageFaults, Record, Recorder, Result,
    StageEntry, StageHook, SystemError,
};
use tokio::time::sleep;

use crate::control::Control;
use crate::output::Output;

/// The injected faults of one function's invocations, applied to this process, or by the
/// platform to a server.
#[derive(Clone)]
pub struct Injected {
    faults: Faults,
    control: Arc<Control>,
    /// Those of messages that it has met.
    pub messages: MessageFaults,
}

impl Injected {
    /// Takes from a row's `faults` those of `function`.
    pub fn new(faults: &[Fault], function: &str, control: Arc<Control>) -> Self {
        Self {
            faults: Faults::new(faults, function),
            control,
            messages: MessageFaults::new(Arc::new(Output)),
        }
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
impl ComputeHook for Injected {
    async fn before_gradient(&mut self, batch: &Batch) -> Result<()> {
        for (number, fault) in self.faults.before_gradient(batch) {
            if self.messages.meet(number, fault) {
                continue;
            }
            record(number, fault);
            match fault.kind {
                FaultKind::Server(_) => self.control.break_server(number).await?,
                kind => apply(kind).await?,
            }
        }
        Ok(())
    }
}

impl StageHook for Injected {
    fn before_stage(&self, entry: StageEntry) {
        for (number, fault) in self.faults.before_stage(entry) {
            if self.messages.meet(number, fault) {
                continue;
            }
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
        // The platform's, and those of the worker's queue.
        FaultKind::Server(_) | FaultKind::LosesMessage | FaultKind::DoublesMessage => Ok(()),
    }
}

/// Applies a fault to the thread that trains. An experiment gives a stage no other kinds.
fn apply_to_thread(kind: FaultKind) {
    match kind {
        FaultKind::Crash => crash(),
        FaultKind::Hang => hang(),
        FaultKind::StragglerMs(late_ms) => thread::sleep(Duration::from_millis(late_ms)),
        FaultKind::Error
        | FaultKind::OutOfMemory
        | FaultKind::Server(_)
        | FaultKind::LosesMessage
        | FaultKind::DoublesMessage => {}
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
