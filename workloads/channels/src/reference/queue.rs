use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::{BUCKET, ByReference, reference};
use crate::{Channel, Payload, QueueCommand, Reply, Result};

impl ByReference<QueueCommand> {
    /// Replaces the message by a reference to it if it must be sent by reference.
    async fn refer_if_needed(&self, message: &mut Payload, shared: bool) -> Result<()> {
        if self.must_refer(message) {
            let key = format!("queue/{}", Uuid::new_v4());
            *message = self.refer(key, shared, message.clone()).await?;
        }
        Ok(())
    }

    /// Takes a message that an earlier call took from `queue` and did not hand over,
    /// or else the next message. Fetches it if it is a reference, and deletes its object if there is
    /// only one receiver.
    async fn consume(&self, queue: String, wait: Duration) -> Result<Option<Payload>> {
        let frame = match self.taken.take(&queue) {
            Some(frame) => Some(frame),
            None => {
                let queue = queue.clone();
                let consume = QueueCommand::Consume { queue, wait };
                self.channel.run(consume).await?.value()?
            }
        };
        let Some(frame) = frame else {
            return Ok(None);
        };
        let Some(found) = reference(&frame)? else {
            return Ok(Some(frame));
        };
        // If this consume is dropped, the message goes to the next one.
        let reservation = self.taken.reserve(&queue, frame);
        let message = self.fetch(&found).await?;
        if !found.shared {
            self.objects.delete(BUCKET, &[found.key]).await?;
        }
        reservation.release();
        Ok(Some(message))
    }
}

#[async_trait]
impl Channel<QueueCommand> for ByReference<QueueCommand> {
    async fn run(&self, mut command: QueueCommand) -> Result<Reply> {
        match &mut command {
            QueueCommand::Publish { message, .. } => self.refer_if_needed(message, false).await?,
            QueueCommand::FanOut { message, .. } => self.refer_if_needed(message, true).await?,
            _ => {}
        }
        match command {
            QueueCommand::Consume { queue, wait } => {
                self.consume(queue, wait).await.map(Reply::Value)
            }
            QueueCommand::Peek { queue } => {
                let frame = match self.taken.peek(&queue) {
                    Some(frame) => Some(frame),
                    None => {
                        let peek = QueueCommand::Peek { queue };
                        self.channel.run(peek).await?.value()?
                    }
                };
                // The message stays in the queue, and its object in the store.
                self.resolve(frame).await.map(Reply::Value)
            }
            QueueCommand::Count { queue } => {
                let taken = self.taken.count(&queue);
                let count = self.channel.run(QueueCommand::Count { queue }).await?;
                Ok(Reply::Count(count.count()? + taken))
            }
            QueueCommand::Purge { queue } => {
                let name = queue.clone();
                self.channel.run(QueueCommand::Purge { queue }).await?;
                self.taken.purge(&name);
                Ok(Reply::Done)
            }
            other => self.channel.run(other).await,
        }
    }
}
