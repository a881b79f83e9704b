//! Records and invocations that a trial collects while it runs.

use std::sync::Mutex;

use epochcost_systems::Record;
use tokio::sync::watch;

use epochcost_spec::metering::{Invocation, log};

use crate::locked;

/// Records and invocations of one trial, in the order in which they came.
#[derive(Default)]
pub(super) struct Collector {
    records: Mutex<Vec<Record>>,
    invocations: Mutex<Vec<Invocation>>,
    unreadable: Mutex<Option<String>>,
    steps: watch::Sender<u64>,
    throttles: Mutex<Throttles>,
}

/// Invocations that were refused because too many ran.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Throttles {
    /// Number of all refusals.
    pub(super) refused: u64,
    /// Number of refusals that a workflow retried, each of which is a state transition.
    pub(super) retried: u64,
}

impl Collector {
    /// Collects the record on a line of output, if it contains one.
    pub(super) fn read(&self, line: &str) {
        match log::record(line) {
            None => {}
            Some(Ok(record)) => {
                let is_step = matches!(record, Record::Step(_));
                locked(&self.records).push(record);
                if is_step {
                    self.steps.send_modify(|steps| *steps += 1);
                }
            }
            Some(Err(error)) => {
                locked(&self.unreadable).get_or_insert_with(|| {
                    format!("a worker wrote a record that cannot be read ({error}): {line}")
                });
            }
        }
    }

    /// Collects an invocation that ended.
    pub(super) fn invocation(&self, invocation: Invocation) {
        locked(&self.invocations).push(invocation);
    }

    /// Counts an invocation that was refused, and whether a workflow retries it.
    pub(super) fn throttled(&self, retried: bool) {
        let mut throttles = locked(&self.throttles);
        throttles.refused += 1;
        throttles.retried += u64::from(retried);
    }

    /// Returns the refusals so far.
    pub(super) fn throttles(&self) -> Throttles {
        *locked(&self.throttles)
    }

    /// Returns a receiver of the number of steps that have ended.
    pub(super) fn steps(&self) -> watch::Receiver<u64> {
        self.steps.subscribe()
    }

    /// Returns everything collected so far, and a line that could not be read, if any.
    pub(super) fn take(&self) -> (Vec<Record>, Vec<Invocation>, Option<String>) {
        (
            std::mem::take(&mut *locked(&self.records)),
            std::mem::take(&mut *locked(&self.invocations)),
            locked(&self.unreadable).take(),
        )
    }
}
