use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::{BUCKET, ByReference, Reference, reference};
use crate::{Payload, Queue, Result};

impl ByReference<dyn Queue> {
    /// Returns the message, or a reference to it if it must be sent by reference.
    async fn as_sent(&self, message: Payload, shared: bool) -> Result<Payload> {
        if !self.must_refer(&message) {
            return Ok(message);
        }
        self.refer(format!("queue/{}", Uuid::new_v4()), shared, message)
            .await
    }

    /// Takes a message that an earlier call took from `queue` and did not hand over,
    /// or else the next message.
    async fn next(&self, queue: &str, wait: Duration) -> Result<Option<Payload>> {
        match self.taken.take(queue) {
            Some(message) => Ok(Some(message)),
            None => self.channel.consume(queue, wait).await,
        }
    }

    /// Fetches the message of `reference`, and deletes its object if there is only
    /// one receiver.
    async fn receive(&self, reference: &Reference) -> Result<Payload> {
        let message = self.fetch(reference).await?;
        if !reference.shared {
            let keys = [reference.key.clone()];
            self.objects.delete(BUCKET, &keys).await?;
        }
        Ok(message)
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
        // If this consume is dropped, the message goes to the next one.
        let reservation = self.taken.reserve(queue, frame);
        let message = self.receive(&found).await?;
        reservation.release();
        Ok(Some(message))
    }

    async fn peek(&self, queue: &str) -> Result<Option<Payload>> {
        let frame = match self.taken.peek(queue) {
            Some(frame) => Some(frame),
            None => self.channel.peek(queue).await?,
        };
        let Some(frame) = frame else {
            return Ok(None);
        };
        match reference(&frame)? {
            // The message stays in the queue, and its object in the store.
            Some(found) => self.fetch(&found).await.map(Some),
            None => Ok(Some(frame)),
        }
    }

    async fn count(&self, queue: &str) -> Result<u64> {
        Ok(self.channel.count(queue).await? + self.taken.count(queue))
    }

    async fn purge(&self, queue: &str) -> Result<()> {
        self.channel.purge(queue).await?;
        self.taken.purge(queue);
        Ok(())
    }
}
