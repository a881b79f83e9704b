//! What runs at a moment: for the reason why a trial did not end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Task;

type Counts = BTreeMap<(String, usize), usize>;

fn locked(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Functions and ranks whose code has begun and not ended, and how often.
#[derive(Clone, Debug, Default)]
pub struct Running(Arc<Mutex<Counts>>);

impl Running {
    /// Notes code that runs until the guard is dropped.
    pub(crate) fn begin(&self, task: &Task) -> RunningGuard {
        let key = (task.function.clone(), task.rank);
        *locked(&self.0).entry(key.clone()).or_default() += 1;
        RunningGuard(self.clone(), key)
    }

    /// Returns the first of them in words, and how many more there are.
    pub fn named(&self) -> String {
        named(locked(&self.0).keys())
    }
}

/// Most functions that a reason names.
const MOST_NAMED: usize = 8;

/// Returns the first functions and ranks in words, and how many more there are.
pub fn named<'a>(running: impl ExactSizeIterator<Item = &'a (String, usize)>) -> String {
    let more = running.len().saturating_sub(MOST_NAMED);
    let named = running.map(|(function, rank)| format!("{function} of worker {rank}"));
    let named: Vec<String> = named.take(MOST_NAMED).collect();
    match more {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

pub(crate) struct RunningGuard(Running, (String, usize));

impl Drop for RunningGuard {
    fn drop(&mut self) {
        let mut running = locked(&self.0.0);
        if let Some(count) = running.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.1);
            }
        }
    }
}
