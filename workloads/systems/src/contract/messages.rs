//! Messages that injected faults lose or double on their way to the queue.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use epochcost_channels::{Channel, Queue, QueueCommand, Reply};

use crate::{Fault, FaultKind, Record, Recorder};

/// Faults that the next messages of a worker suffer, each with its number in the row's list, in the
/// order in which the worker met them. Clones share them.
#[derive(Clone)]
pub struct MessageFaults {
    met: Arc<Mutex<VecDeque<(usize, Fault)>>>,
    recorder: Arc<dyn Recorder>,
}

impl MessageFaults {
    /// Makes the faults of a worker that has met none; `recorder` hears of each that happens.
    pub fn new(recorder: Arc<dyn Recorder>) -> Self {
        let met = Arc::default();
        Self { met, recorder }
    }

    /// Notes a fault that the worker meets; returns whether it is one of a message.
    pub fn meet(&self, number: usize, fault: &Fault) -> bool {
        let is_own = fault.kind.is_of_message();
        if is_own {
            let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
            met.push_back((number, fault.clone()));
        }
        is_own
    }

    /// Returns the queue to which the worker sends.
    pub fn before(&self, queue: Queue) -> Queue {
        let faults = self.clone();
        Queue::new(Arc::new(FaultyQueue { queue, faults }))
    }

    /// Returns what happens to the message that is sent now, and records it.
    fn happens(&self) -> Option<FaultKind> {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, fault) = met.pop_front()?;
        self.recorder.record(Record::Fault {
            rank: fault.rank,
            fault: number,
        });
        Some(fault.kind)
    }
}

/// A queue to which some messages come twice, or not at all.
struct FaultyQueue {
    queue: Queue,
    faults: MessageFaults,
}

#[async_trait]
impl Channel<QueueCommand> for FaultyQueue {
    async fn run(&self, command: QueueCommand) -> epochcost_channels::Result<Reply> {
        use QueueCommand::{FanOut, Publish};
        let is_message = matches!(command, Publish { .. } | FanOut { .. });
        match is_message.then(|| self.faults.happens()).flatten() {
            Some(FaultKind::LosesMessage) => Ok(Reply::Done),
            Some(FaultKind::DoublesMessage) => {
                self.queue.run(command.clone()).await?;
                self.queue.run(command).await
            }
            _ => self.queue.run(command).await,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use epochcost_channels::memory::MemoryQueue;

    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<usize>>);

    impl Recorder for Heard {
        fn record(&self, record: Record) {
            if let Record::Fault { fault, .. } = record {
                self.0.lock().unwrap().push(fault);
            }
        }
    }

    #[tokio::test]
    async fn messages_are_lost_and_doubled_in_the_order_of_their_faults() {
        let heard = Arc::new(Heard::default());
        let faults = MessageFaults::new(heard.clone());
        let queue = faults.before(Queue::new(Arc::new(MemoryQueue::default())));
        queue.bind("all", "a").await.unwrap();
        let fault = |kind| Fault::at_gradient(1, 0, 0, kind);
        assert!(!faults.meet(4, &fault(FaultKind::Crash)));
        assert!(faults.meet(7, &fault(FaultKind::LosesMessage)));
        assert!(faults.meet(5, &fault(FaultKind::DoublesMessage)));
        // A request that sends nothing meets none of them.
        assert_eq!(queue.count("a").await.unwrap(), 0);
        queue.publish("a", vec![1].into()).await.unwrap();
        queue.publish_fanout("all", vec![2].into()).await.unwrap();
        queue.publish("a", vec![3].into()).await.unwrap();
        let mut came = Vec::new();
        while let Some(message) = queue.consume("a", Duration::ZERO).await.unwrap() {
            came.extend_from_slice(message.bytes().unwrap());
        }
        assert_eq!(came, [2, 2, 3]);
        assert_eq!(*heard.0.lock().unwrap(), [7, 5]);
    }
}
