//! What an injected fault does to the process of a station.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use epochcost_systems::{
    Batch, ComputeHook, ExecutionStatus, FaultKind, Faults, Invoke, MessageFaults, Outcome, Record,
    Recorder, Requests, Result, StageEntry, StageHook, SystemError, Task,
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
            let _ = self.suffer(kind, self.rank()).await;
        }
    }

    async fn suffer(&self, kind: FaultKind, rank: usize) -> Result<()> {
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
            FaultKind::Server(broken) => self.services.suffer(broken, rank, &self.engine),
            // Those of its queue.
            FaultKind::LosesMessage | FaultKind::DoublesMessage => {}
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
    pub(crate) messages: MessageFaults,
}

impl Injected {
    fn record(&self, rank: usize, fault: usize) {
        self.recorder.record(Record::Fault { rank, fault });
    }
}

#[async_trait]
impl ComputeHook for Injected {
    async fn before_gradient(&mut self, batch: &Batch) -> Result<()> {
        let messages = &self.messages;
        let now: Vec<_> = (self.faults.before_gradient(batch))
            .filter(|(number, fault)| !messages.meet(*number, fault))
            .map(|(number, fault)| (number, fault.rank, fault.kind))
            .collect();
        for (number, rank, kind) in now {
            self.station.settle().await;
            self.record(rank, number);
            self.station.suffer(kind, rank).await?;
        }
        Ok(())
    }
}

impl StageHook for Injected {
    /// Notes the fault, which the station undergoes at the worker's next request, computation
    /// or pause: code between two of them takes no time.
    fn before_stage(&self, entry: StageEntry) {
        for (number, fault) in self.faults.before_stage(entry) {
            if self.messages.meet(number, fault) {
                continue;
            }
            self.record(fault.rank, number);
            locked(&self.station.fate.met).push(fault.kind);
        }
    }
}

/// What a process asks of the platform, once it has undergone the faults that it met.
pub(crate) struct Asking {
    pub(crate) requests: Requests,
    pub(crate) station: Arc<Station>,
}

#[async_trait]
impl Invoke for Asking {
    async fn call(&self, task: Task) -> Result<Outcome> {
        self.station.undergo().await;
        self.requests.call(task).await
    }

    async fn forget(&self, task: Task) -> Result<()> {
        self.station.undergo().await;
        self.requests.forget(task).await
    }

    async fn start_workflow(&self, task: Task) -> Result<String> {
        self.station.undergo().await;
        self.requests.start_workflow(task).await
    }

    async fn status(&self, execution: &str) -> Result<ExecutionStatus> {
        self.station.undergo().await;
        self.requests.status(execution).await
    }
}
