//! Invocations that ended.

use std::collections::HashMap;

use epochcost_systems::Host;

use crate::model::Invocation;

/// The invocations of a trial: every one, or one of those that are billed alike.
#[derive(Default)]
pub(crate) struct Calls {
    ended: Vec<Invocation>,
    /// Place of the one that stands for all that are billed as it is; none where every one is
    /// kept.
    places: Option<HashMap<Billed, usize>>,
}

/// Fields of an invocation that a bill depends on. The functions of a worker's mini-batches are billed
/// together, so that these keep their worker.
#[derive(PartialEq, Eq, Hash)]
struct Billed {
    function: String,
    host: Host,
    epoch: usize,
    rank: Option<usize>,
    duration: u64,
    init: Option<u64>,
    memory_mb: Option<u32>,
    error: Option<String>,
}

impl Billed {
    fn of(call: &Invocation) -> Self {
        Self {
            function: call.task.function.clone(),
            host: call.host,
            epoch: call.task.epoch,
            rank: call.task.batch.map(|_| call.task.rank),
            duration: call.duration_s.to_bits(),
            init: call.init_s.map(f64::to_bits),
            memory_mb: call.memory_mb,
            error: call.error.clone(),
        }
    }
}

impl Calls {
    /// Makes the list that keeps one of those that are billed alike, if `merges`.
    pub(crate) fn new(merges: bool) -> Self {
        Self {
            ended: Vec::new(),
            places: merges.then(HashMap::new),
        }
    }

    pub(crate) fn add(&mut self, call: Invocation) {
        let Some(places) = &mut self.places else {
            return self.ended.push(call);
        };
        let next = self.ended.len();
        let place = *places.entry(Billed::of(&call)).or_insert(next);
        match self.ended.get_mut(place) {
            Some(known) => {
                known.alike += call.alike;
                known.peak_memory_mb = known.peak_memory_mb.max(call.peak_memory_mb);
            }
            None => self.ended.push(call),
        }
    }

    pub(crate) fn into_list(self) -> Vec<Invocation> {
        self.ended
    }
}
