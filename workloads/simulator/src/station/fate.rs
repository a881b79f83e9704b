//! What an injected fault does to the process of a station.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use epochcost_systems::{
    Batch, ComputeHook, FaultKind, Faults, Record, Recorder, Result, StageEntry, StageHook,
    SystemError,
};
use tokio::sync::oneshot;

use super::Station;
use crate::engine::locked;

/// The faults that a process has met and not undergone yet, and its end.
#[derive(Default)]
pub(crate) struct Fate {
    met: Mutex<Vec<FaultKind>>,
    death: Mutex<Option<oneshot::Sender<&'static str>>>,
}

impl Fate {
    /// Returns what ends when the process does, with the reason.
    pub(crate) fn death(&self) -> oneshot::Receiver<&'static str> {
        let (dies, death) = oneshot::channel();
        *locked(&self.death) = Some(dies);
        death
    }

    fn take(&self) -> Vec<FaultKind> {
        std::mem::take(&mut *locked(&self.met))
    }

    /// Ends the process, or only what it does, if no one waits for its end.
    async fn die(&self, reason: &'static str) {
        if let Some(dies) = locked(&self.death).take() {
            // The invocation may be over.
            let _ = dies.send(reason);
        }
        pending::<()>().await;
    }
}

impl Station {
    /// Undergoes the faults that were met since the last request: the process ends, stands
    /// still or is late.
    pub(super) async fn undergo(&self) {
        for kind in self.fate.take() {
            // No stage has a fault that is an answer.
            let _ = self.suffer(kind).await;
        }
    }

    async fn suffer(&self, kind: FaultKind) -> Result<()> {
        match kind {
            FaultKind::Crash => {
                let reason = "Runtime.ExitError: exit status 1 (injected fault: crash)";
                self.fate.die(reason).await;
            }
            FaultKind::OutOfMemory => {
                let reason = "Runtime.OutOfMemory (injected fault: lack of memory)";
                self.fate.die(reason).await;
            }
            FaultKind::Hang => pending().await,
            FaultKind::StragglerMs(late_ms) => {
                self.engine.sleep(Duration::from_millis(late_ms)).await;
            }
            FaultKind::Error => {
                return Err(SystemError::Compute("injected fault: error".into()));
            }
        }
        Ok(())
    }
}

/// The injected faults of one invocation, applied in virtual time.
#[derive(Clone)]
pub(crate) struct Injected {
    pub(crate) faults: Faults,
    pub(crate) station: Arc<Station>,
    pub(crate) recorder: Arc<dyn Recorder>,
}

impl Injected {
    fn record(&self, rank: usize, fault: usize) {
        self.recorder.record(Record::Fault { rank, fault });
    }
}

#[async_trait]
impl ComputeHook for Injected {
    async fn before_gradient(&mut self, batch: &Batch) -> Result<()> {
        let now: Vec<_> = (self.faults.before_gradient(batch))
            .map(|(number, fault)| (number, fault.rank, fault.kind))
            .collect();
        for (number, rank, kind) in now {
            self.station.settle().await;
            self.record(rank, number);
            self.station.suffer(kind).await?;
        }
        Ok(())
    }
}

impl StageHook for Injected {
    /// Notes the fault, which the station undergoes at the worker's next request, computation
    /// or pause: code between two of them takes no time.
    fn before_stage(&self, entry: StageEntry) {
        for (number, fault) in self.faults.before_stage(entry) {
            self.record(fault.rank, number);
            locked(&self.station.fate.met).push(fault.kind);
        }
    }
}
