use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use super::message::Message;
use crate::{Result, SystemError};

/// Messages that came, by step.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Inbox {
    announced: BTreeMap<u64, Announced>,
    /// Updates that were announced and not taken yet, as announced: rank and step.
    fresh: Vec<(usize, u64)>,
    /// Ranks that the supervisor named.
    named: BTreeMap<u64, Vec<usize>>,
    /// Ranks whose final model was announced.
    pub(super) models: Vec<usize>,
    /// The worker that leaves after a step.
    removed: BTreeMap<u64, usize>,
    /// Ranks whose model was announced when they left.
    pub(super) departed: Vec<usize>,
    /// The last step, if it was named.
    last: Option<u64>,
    /// Number of steps whose barriers have opened.
    opened: u64,
}

/// Ranks whose update of a step was announced.
#[derive(Default, Serialize, Deserialize)]
struct Announced {
    in_order: Vec<usize>,
    known: HashSet<usize>,
}

impl Inbox {
    /// Takes in one message. One that comes again changes nothing.
    pub(super) fn sort(&mut self, message: Message) -> Result<()> {
        match message {
            Message::Start => {}
            // All updates and the barrier of a step that has opened have come.
            Message::Update { step, .. } | Message::Barrier { step, .. } if step < self.opened => {}
            Message::Update { rank, step } => {
                let announced = self.announced.entry(step).or_default();
                if announced.known.insert(rank) {
                    announced.in_order.push(rank);
                    self.fresh.push((rank, step));
                }
            }
            Message::Barrier { step, senders } => {
                self.named.insert(step, senders);
            }
            Message::Model { rank, .. } if self.models.contains(&rank) => {}
            Message::Model { rank, .. } => self.models.push(rank),
            Message::Removal { rank, step } => {
                self.removed.insert(step, rank);
            }
            Message::Departure { rank, .. } => self.departed.push(rank),
            Message::Finish { step } => self.last = Some(step),
            Message::Report { .. } => {
                let reason = "it is a report to the supervisor";
                return Err(SystemError::malformed("a message to a worker", reason));
            }
        }
        Ok(())
    }

    /// Takes the updates, rank and step, that were announced since the last call.
    pub(super) fn take_fresh(&mut self) -> Vec<(usize, u64)> {
        std::mem::take(&mut self.fresh)
    }

    /// The worker that leaves after `step`. The supervisor names it before it opens the
    /// barrier of that step.
    pub(super) fn removed(&mut self, step: u64) -> Option<usize> {
        self.removed.remove(&step)
    }

    /// Whether `step` was named the last, before its barrier opened.
    pub(super) fn is_last(&self, step: u64) -> bool {
        self.last == Some(step)
    }

    /// The announced ranks of `step`, as announced, once they are the named ones.
    pub(super) fn open(&mut self, step: u64) -> Option<Vec<usize>> {
        let named = self.named.get(&step)?;
        let announced = self.announced.entry(step).or_default();
        let is_known = |rank| announced.known.contains(rank);
        if announced.in_order.len() != named.len() || !named.iter().all(is_known) {
            return None;
        }
        self.named.remove(&step);
        self.opened = self.opened.max(step + 1);
        Some(self.announced.remove(&step)?.in_order)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn barrier(step: u64, senders: Vec<usize>) -> Message {
        Message::Barrier { step, senders }
    }

    #[test]
    fn the_barrier_opens_when_announced_and_named_agree() {
        let mut inbox = Inbox::default();
        // Of a worker that is a step ahead already.
        inbox.sort(Message::Update { rank: 2, step: 1 }).unwrap();
        inbox.sort(Message::Update { rank: 1, step: 0 }).unwrap();
        inbox.sort(barrier(0, vec![0, 1])).unwrap();
        assert_eq!(inbox.open(0), None);
        inbox.sort(Message::Update { rank: 0, step: 0 }).unwrap();
        assert_eq!(inbox.open(0), Some(vec![1, 0]));
        assert_eq!(inbox.open(1), None);
        inbox.sort(barrier(1, vec![2])).unwrap();
        assert_eq!(inbox.open(1), Some(vec![2]));
        inbox.sort(barrier(2, vec![])).unwrap();
        assert_eq!(inbox.open(2), Some(vec![]));
    }

    #[test]
    fn a_message_that_comes_twice_counts_once() {
        let mut inbox = Inbox::default();
        let update = || Message::Update { rank: 1, step: 0 };
        let barrier = || barrier(0, vec![1]);
        for message in [update(), update(), barrier(), barrier()] {
            inbox.sort(message).unwrap();
        }
        assert_eq!(inbox.open(0), Some(vec![1]));
        for message in [update(), barrier()] {
            inbox.sort(message).unwrap();
        }
        assert_eq!(inbox.take_fresh(), [(1, 0)]);
        assert_eq!(inbox.open(0), None);
        for _ in 0..2 {
            let model = Message::Model { rank: 2, step: 0 };
            inbox.sort(model).unwrap();
        }
        assert_eq!(inbox.models, [2]);
    }

    #[test]
    fn an_update_is_taken_once_whenever_its_barrier_opens() {
        let mut inbox = Inbox::default();
        inbox.sort(Message::Update { rank: 1, step: 2 }).unwrap();
        inbox.sort(Message::Update { rank: 0, step: 0 }).unwrap();
        assert_eq!(inbox.take_fresh(), [(1, 2), (0, 0)]);
        inbox.sort(barrier(0, vec![0])).unwrap();
        assert_eq!(inbox.open(0), Some(vec![0]));
        inbox.sort(Message::Update { rank: 0, step: 1 }).unwrap();
        assert_eq!(inbox.take_fresh(), [(0, 1)]);
        assert!(inbox.take_fresh().is_empty());
    }
}
