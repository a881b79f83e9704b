//! Injected faults: what happens to which worker, and when.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Batch, Stage, StageEntry};

/// A fault injected into one worker, before one gradient or one stage of a step, each time that it gets
/// there: a repeated invocation meets it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Rank of the worker.
    #[schemars(range(max = 100_000))]
    pub rank: usize,
    /// The epoch, from 0.
    #[schemars(range(max = 100_000))]
    pub epoch: usize,
    /// The mini-batch, from 0; 0 for a step that is a whole epoch.
    #[schemars(range(max = 1_000_000))]
    pub batch: usize,
    /// What happens.
    pub kind: FaultKind,
    /// The stage of the step before which it happens; by default before the gradient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// The function of the system in which it happens; by default any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
}

impl Fault {
    /// A fault before one gradient, whenever the worker gets there.
    pub const fn at_gradient(rank: usize, epoch: usize, batch: usize, kind: FaultKind) -> Self {
        Self {
            rank,
            epoch,
            batch,
            kind,
            stage: None,
            function: None,
        }
    }

    /// Returns the warning of a trial in which it did not happen.
    pub fn did_not_happen(&self) -> String {
        format!("an injected fault did not happen: {self}")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rank, epoch, batch, ..
        } = self;
        match self.kind {
            FaultKind::Crash => f.write_str("crash")?,
            FaultKind::Hang => f.write_str("hang")?,
            FaultKind::Error => f.write_str("error")?,
            FaultKind::StragglerMs(late_ms) => write!(f, "delay of {late_ms} ms")?,
            FaultKind::OutOfMemory => f.write_str("lack of memory")?,
            FaultKind::Server(BrokenServer { which, does }) => write!(f, "{which} that {does}")?,
            FaultKind::LosesMessage => f.write_str("loss of the next message")?,
            FaultKind::DoublesMessage => f.write_str("doubling of the next message")?,
        }
        let place = self.stage.map_or("gradient", Stage::as_str);
        write!(
            f,
            " of worker {rank} before {place}, epoch {epoch}, mini-batch {batch}"
        )
    }
}

/// The effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The process ends at once.
    Crash,
    /// The process stops, and its connections stay open.
    Hang,
    /// The function returns an error.
    Error,
    /// The worker is late by this many milliseconds.
    StragglerMs(#[schemars(range(max = 86_400_000))] u64),
    /// The worker allocates memory until it is stopped.
    OutOfMemory,
    /// A server that the workers of the trial use breaks; the worker goes on.
    Server(BrokenServer),
    /// The next message that the worker sends to the queue is lost, for all its receivers.
    LosesMessage,
    /// The next message that the worker sends to the queue arrives twice: queues deliver at least once.
    DoublesMessage,
}

impl FaultKind {
    /// Returns whether it happens to a message.
    pub const fn is_of_message(self) -> bool {
        matches!(self, Self::LosesMessage | Self::DoublesMessage)
    }
}

/// A server that breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BrokenServer {
    /// The server.
    pub which: Server,
    /// What it does from then on.
    pub does: Breakdown,
}

/// A server of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Server {
    /// The object store.
    ObjectStore,
    /// The tensor store of the peer whose rank the fault has; of fewer stores than peers, that of
    /// the rank modulo their number.
    TensorStore,
    /// The queue.
    Queue,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ObjectStore => "object store",
            Self::TensorStore => "tensor store",
            Self::Queue => "queue",
        })
    }
}

/// What a broken server does to its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Breakdown {
    /// Its connections end, and no others are taken.
    Dies,
    /// It answers nothing, and its connections stay open.
    Hangs,
    /// It dies, and is there again after so many milliseconds, with all that it held. Requests under way
    /// fail; timing decides which, so that platforms may differ. Clients of a tensor store and of the
    /// queue connect once: the next request of a worker that was connected fails.
    RestartsAfterMs(#[schemars(range(max = 86_400_000))] u64),
    /// Every answer comes so many milliseconds later.
    SlowByMs(#[schemars(range(max = 86_400_000))] u64),
}

impl fmt::Display for Breakdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dies => f.write_str("dies"),
            Self::Hangs => f.write_str("hangs"),
            Self::RestartsAfterMs(ms) => write!(f, "restarts after {ms} ms"),
            Self::SlowByMs(ms) => write!(f, "is slow by {ms} ms"),
        }
    }
}

/// The faults of one function's invocations, with their numbers in the row's list.
#[derive(Clone, Debug)]
pub struct Faults(Arc<[(usize, Fault)]>);

impl Faults {
    /// Takes from a row's `faults` those of `function`.
    pub fn new(faults: &[Fault], function: &str) -> Self {
        let is_own = |fault: &Fault| fault.function.as_ref().is_none_or(|name| name == function);
        let own = faults.iter().cloned().enumerate();
        Self(own.filter(|(_, fault)| is_own(fault)).collect())
    }

    /// Returns the faults that happen before the gradient of `batch`.
    pub fn before_gradient(
        &self,
        batch: &Batch,
    ) -> impl Iterator<Item = (usize, &Fault)> + use<'_> {
        self.at(None, (batch.rank, batch.epoch, batch.index))
    }

    /// Returns the faults that happen before a stage.
    pub fn before_stage(
        &self,
        entry: StageEntry,
    ) -> impl Iterator<Item = (usize, &Fault)> + use<'_> {
        let at = (entry.rank, entry.epoch, entry.batch.unwrap_or(0));
        self.at(Some(entry.stage), at)
    }

    fn at(
        &self,
        stage: Option<Stage>,
        at: (usize, usize, usize),
    ) -> impl Iterator<Item = (usize, &Fault)> + use<'_> {
        let numbered = self.0.iter().map(|(number, fault)| (*number, fault));
        numbered.filter(move |(_, fault)| {
            fault.stage == stage && (fault.rank, fault.epoch, fault.batch) == at
        })
    }
}
