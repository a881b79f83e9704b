use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::{Channel, ChannelError, Payload, QueueCommand, Reply, Result, locked};

const SERVICE: &str = "queue";

/// A message queue in memory.
///
/// Messages leave a queue in the order they came, and consumers that wait are
/// served in the order they came. A consumer that stops waiting takes no message.
#[derive(Debug, Default)]
pub struct MemoryQueue {
    queues: Mutex<HashMap<String, Arc<Messages>>>,
    exchanges: Mutex<HashMap<String, BTreeSet<String>>>,
}

/// Messages of a queue, and a semaphore with one permit per message that is not
/// reserved for a waiting consumer. Both grow under the lock, so that a purge sees
/// equal numbers.
///
/// tokio's semaphore is first come, first served, and recovers the permit of a
/// waiter that is dropped, so that neither a wake-up nor a message is lost.
#[derive(Debug)]
struct Messages {
    waiting: Mutex<VecDeque<Payload>>,
    unclaimed: Semaphore,
}

impl Default for Messages {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
            unclaimed: Semaphore::new(0),
        }
    }
}

impl Messages {
    fn push(&self, message: Payload) {
        let mut waiting = locked(&self.waiting);
        waiting.push_back(message);
        self.unclaimed.add_permits(1);
    }

    /// Returns a message that could not be delivered to the front of the queue.
    fn restore(&self, message: Payload) {
        let mut waiting = locked(&self.waiting);
        waiting.push_front(message);
        self.unclaimed.add_permits(1);
    }

    fn try_take(&self) -> Option<Payload> {
        self.unclaimed.try_acquire().ok()?.forget();
        locked(&self.waiting).pop_front()
    }

    async fn take(&self) -> Option<Payload> {
        self.unclaimed.acquire().await.ok()?.forget();
        locked(&self.waiting).pop_front()
    }

    /// Drops all messages except those reserved for consumers that are about to
    /// run: these count as delivered before the purge.
    fn purge(&self) {
        let mut waiting = locked(&self.waiting);
        let dropped = self.unclaimed.forget_permits(waiting.len());
        let promised = waiting.len() - dropped;
        waiting.truncate(promised);
    }
}

impl MemoryQueue {
    fn queue(&self, name: &str) -> Arc<Messages> {
        let mut queues = locked(&self.queues);
        match queues.get(name) {
            Some(messages) => messages.clone(),
            None => queues.entry(name.to_owned()).or_default().clone(),
        }
    }

    /// Returns to the queue a message whose consumer disconnected before delivery.
    pub(crate) fn restore(&self, queue: &str, message: Payload) {
        self.queue(queue).restore(message);
    }

    /// Sends `message` to every queue bound to `exchange` and returns their
    /// number.
    fn fanout(&self, exchange: &str, message: &Payload) -> Result<usize> {
        // The lock covers all pushes, so that two fan-outs reach all queues in one order.
        let exchanges = locked(&self.exchanges);
        let bound = exchanges.get(exchange);
        let bound = bound.ok_or_else(|| ChannelError::missing(SERVICE, exchange))?;
        for queue in bound {
            self.queue(queue).push(message.clone());
        }
        Ok(bound.len())
    }

    async fn consume(&self, queue: &str, wait: Duration) -> Result<Option<Payload>> {
        let messages = self.queue(queue);
        if wait.is_zero() {
            return Ok(messages.try_take());
        }
        if Handle::try_current().is_err() {
            let reason = "waiting for a message needs a tokio runtime; consume with no wait";
            let operation = format!("consume from {queue}");
            return Err(ChannelError::refused(SERVICE, operation, reason));
        }
        let taken = tokio::time::timeout(wait, messages.take()).await;
        Ok(taken.unwrap_or(None))
    }
}

#[async_trait]
impl Channel<QueueCommand> for MemoryQueue {
    async fn run(&self, command: QueueCommand) -> Result<Reply> {
        match command {
            QueueCommand::Publish { queue, message } => self.queue(&queue).push(message),
            QueueCommand::FanOut { exchange, message } => {
                let reached = self.fanout(&exchange, &message)?;
                return Ok(Reply::Count(reached as u64));
            }
            QueueCommand::Bind { exchange, queue } => {
                self.queue(&queue);
                let mut exchanges = locked(&self.exchanges);
                exchanges.entry(exchange).or_default().insert(queue);
            }
            QueueCommand::Consume { queue, wait } => {
                return self.consume(&queue, wait).await.map(Reply::Value);
            }
            QueueCommand::Peek { queue } => {
                let front = locked(&self.queue(&queue).waiting).front().cloned();
                return Ok(Reply::Value(front));
            }
            QueueCommand::Count { queue } => {
                let messages = self.queue(&queue).unclaimed.available_permits();
                return Ok(Reply::Count(messages as u64));
            }
            QueueCommand::Purge { queue } => self.queue(&queue).purge(),
        }
        Ok(Reply::Done)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Queue;

    fn queue() -> (Arc<MemoryQueue>, Queue) {
        let memory = Arc::new(MemoryQueue::default());
        (memory.clone(), Queue::new(memory))
    }

    const LONG: Duration = Duration::from_secs(60);

    fn text(text: &str) -> Payload {
        text.as_bytes().to_vec().into()
    }

    #[tokio::test]
    async fn consumers_are_served_in_the_order_they_came() {
        let (memory, queue) = queue();
        let mut consumers = Vec::new();
        for _ in 0..3 {
            let queue = queue.clone();
            consumers.push(tokio::spawn(async move { queue.consume("q", LONG).await }));
            tokio::task::yield_now().await;
        }
        for message in ["1", "2", "3"] {
            queue.publish("q", text(message)).await.unwrap();
        }
        // Both consumers wait already: neither may take a message reserved for the other.
        assert_eq!(memory.queue("q").try_take(), None);
        for (consumer, message) in consumers.into_iter().zip(["1", "2", "3"]) {
            assert_eq!(consumer.await.unwrap().unwrap(), Some(text(message)));
        }
    }

    #[tokio::test]
    async fn a_consumer_that_goes_away_takes_no_message() {
        let (_, queue) = queue();
        let gone = tokio::spawn({
            let queue = queue.clone();
            async move { queue.consume("q", LONG).await }
        });
        tokio::task::yield_now().await;
        queue.publish("q", text("1")).await.unwrap();
        // On this single-threaded runtime the consumer has had no turn yet.
        gone.abort();
        assert!(gone.await.is_err());
        assert_eq!(queue.count("q").await.unwrap(), 1);
        assert_eq!(queue.consume("q", LONG).await.unwrap(), Some(text("1")));
    }

    #[test]
    fn waiting_without_a_runtime_is_an_error_and_no_panic() {
        let (_, queue) = queue();
        let consume = |wait| futures_util::FutureExt::now_or_never(queue.consume("q", wait));
        assert!(consume(LONG).unwrap().is_err());
        assert_eq!(consume(Duration::ZERO).unwrap().unwrap(), None);
    }
}
