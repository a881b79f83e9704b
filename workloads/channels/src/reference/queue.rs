use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::{BUCKET, ByReference, Reference, reference};
use crate::{Payload, Queue, Result};

impl ByReference<dyn Queue> {
    /// The message, or a reference to it.
    async fn as_sent(&self, message: Payload, shared: bool) -> Result<Payload> {
        if !self.must_refer(&message) {
            return Ok(message);
        }
        self.refer(format!("queue/{}", Uuid::new_v4()), shared, message)
            .await
    }

    /// What an earlier call took from `queue` and could not hand over, or the
    /// next message.
    async fn next(&self, queue: &str, wait: Duration) -> Result<Option<Payload>> {
        {
            let mut taken = self.taken();
            if let Some(first) = taken.iter().position(|(name, _)| name == queue) {
                return Ok(Some(taken.remove(first).1));
            }
        }
        self.channel.consume(queue, wait).await
    }

    /// The message that `reference` stands for; of one receiver's own, the
    /// object is deleted.
    async fn receive(&self, reference: &Reference) -> Result<Payload> {
        let message = self.fetch(reference).await?;
        if !reference.shared {
            let keys = [reference.key.clone()];
            self.objects.delete(BUCKET, &keys).await?;
        }
        Ok(message)
    }
}

/// A reference that its queue has given away: put aside for the next consumer
/// here unless its message is handed over.
struct Held<'a> {
    queue: &'a ByReference<dyn Queue>,
    name: &'a str,
    frame: Option<Payload>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(frame) = self.frame.take() {
            self.queue.taken().push((self.name.to_owned(), frame));
        }
    }
}

#[async_trait]
impl Queue for ByReference<dyn Queue> {
    async fn publish(&self, queue: &str, message: Payload) -> Result<()> {
        let message = self.as_sent(message, false).await?;
        self.channel.publish(queue, message).await
    }

    async fn publish_fanout(&self, exchange: &str, message: Payload) -> Result<()> {
        let message = self.as_sent(message, true).await?;
        self.channel.publish_fanout(exchange, message).await
    }

    async fn bind(&self, exchange: &str, queue: &str) -> Result<()> {
        self.channel.bind(exchange, queue).await
    }

    async fn consume(&self, queue: &str, wait: Duration) -> Result<Option<Payload>> {
        let Some(frame) = self.next(queue, wait).await? else {
            return Ok(None);
        };
        let Some(found) = reference(&frame)? else {
            return Ok(Some(frame));
        };
        let mut held = Held {
            queue: self,
            name: queue,
            frame: Some(frame),
        };
        let message = self.receive(&found).await?;
        held.frame = None;
        Ok(Some(message))
    }

    async fn peek(&self, queue: &str) -> Result<Option<Payload>> {
        let here = self.taken().iter().find(|(name, _)| name == queue).cloned();
        let frame = match here {
            Some((_, frame)) => Some(frame),
            None => self.channel.peek(queue).await?,
        };
        let Some(frame) = frame else {
            return Ok(None);
        };
        match reference(&frame)? {
            // The message stays, and with it its object.
            Some(found) => self.fetch(&found).await.map(Some),
            None => Ok(Some(frame)),
        }
    }

    async fn count(&self, queue: &str) -> Result<u64> {
        let here = self
            .taken()
            .iter()
            .filter(|(name, _)| name == queue)
            .count();
        Ok(self.channel.count(queue).await? + here as u64)
    }

    async fn purge(&self, queue: &str) -> Result<()> {
        self.channel.purge(queue).await?;
        self.taken().retain(|(name, _)| name != queue);
        Ok(())
    }
}
