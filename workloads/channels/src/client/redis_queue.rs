use std::time::Duration;

use async_trait::async_trait;

use super::redis::{Address, Connection, Pool, blob};
use crate::{Channel, Endpoint, QueueCommand, Reply, Result};

/// A queue behind the Redis protocol that knows the commands `QUEUE.*`.
///
/// A consume that waits uses a connection of its own, so that it blocks no other
/// command; idle connections are reused. A consume that is dropped while it waits
/// closes its connection, and the server keeps the message for other consumers.
pub struct RedisQueue {
    commands: Connection,
    waiting: Pool,
}

impl RedisQueue {
    /// Connects to `redis://HOST:PORT`.
    ///
    /// # Errors
    /// [`ChannelError`](crate::ChannelError).
    pub async fn connect(endpoint: Endpoint) -> Result<Self> {
        let address = Address::new("queue", endpoint);
        Ok(Self {
            commands: Connection::open(address.clone()).await?,
            waiting: Pool::new(address),
        })
    }

    async fn consume(&self, queue: String, wait: Duration) -> Result<Reply> {
        // Rounded up: a wait under a millisecond is still a wait.
        let milliseconds = wait.as_nanos().div_ceil(1_000_000).to_string();
        let arguments = vec![queue.into(), milliseconds.into()];
        let connection = self.waiting.take().await?;
        let reply = connection
            .call_for("QUEUE.CONSUME", arguments, wait)
            .await?;
        let message = connection.payload("QUEUE.CONSUME", reply)?;
        self.waiting.give(connection);
        Ok(Reply::Value(message))
    }
}

#[async_trait]
impl Channel<QueueCommand> for RedisQueue {
    async fn run(&self, command: QueueCommand) -> Result<Reply> {
        let (name, arguments) = match command {
            QueueCommand::Publish { queue, message } => {
                ("QUEUE.PUBLISH", vec![queue.into(), blob(&message)?])
            }
            QueueCommand::FanOut { exchange, message } => {
                ("QUEUE.FANOUT", vec![exchange.into(), blob(&message)?])
            }
            QueueCommand::Bind { exchange, queue } => {
                ("QUEUE.BIND", vec![exchange.into(), queue.into()])
            }
            QueueCommand::Consume { queue, wait } => return self.consume(queue, wait).await,
            QueueCommand::Peek { queue } => {
                let front = self.commands.value("QUEUE.PEEK", vec![queue.into()]);
                return front.await.map(Reply::Value);
            }
            QueueCommand::Count { queue } => {
                let count = self.commands.count("QUEUE.COUNT", vec![queue.into()]);
                return count.await.map(Reply::Count);
            }
            QueueCommand::Purge { queue } => ("QUEUE.PURGE", vec![queue.into()]),
        };
        self.commands.done(name, arguments).await.map(Reply::from)
    }
}
