use std::time::Duration;

use async_trait::async_trait;

use super::redis::{Address, Connection, Pool, blob};
use crate::{Endpoint, Payload, Queue, Result};

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
    pub async fn connect(endpoint: &str) -> Result<Self> {
        Self::open(endpoint.parse()?).await
    }

    pub(super) async fn open(endpoint: Endpoint) -> Result<Self> {
        let address = Address {
            service: "queue",
            endpoint,
        };
        Ok(Self {
            commands: Connection::open(address.clone()).await?,
            waiting: Pool::new(address),
        })
    }
}

#[async_trait]
impl Queue for RedisQueue {
    async fn publish(&self, queue: &str, message: Payload) -> Result<()> {
        self.commands
            .done("QUEUE.PUBLISH", vec![queue.into(), blob(&message)?])
            .await
    }

    async fn publish_fanout(&self, exchange: &str, message: Payload) -> Result<()> {
        self.commands
            .done("QUEUE.FANOUT", vec![exchange.into(), blob(&message)?])
            .await
    }

    async fn bind(&self, exchange: &str, queue: &str) -> Result<()> {
        self.commands
            .done("QUEUE.BIND", vec![exchange.into(), queue.into()])
            .await
    }

    async fn consume(&self, queue: &str, wait: Duration) -> Result<Option<Payload>> {
        // Rounded up: a wait under a millisecond is still a wait.
        let milliseconds = wait.as_nanos().div_ceil(1_000_000).to_string();
        let arguments = vec![queue.into(), milliseconds.into()];
        let connection = self.waiting.take().await?;
        let reply = connection
            .call_for("QUEUE.CONSUME", arguments, wait)
            .await?;
        let message = connection.payload("QUEUE.CONSUME", reply)?;
        self.waiting.give(connection);
        Ok(message)
    }

    async fn peek(&self, queue: &str) -> Result<Option<Payload>> {
        self.commands.value("QUEUE.PEEK", vec![queue.into()]).await
    }

    async fn count(&self, queue: &str) -> Result<u64> {
        self.commands.count("QUEUE.COUNT", vec![queue.into()]).await
    }

    async fn purge(&self, queue: &str) -> Result<()> {
        self.commands.done("QUEUE.PURGE", vec![queue.into()]).await
    }
}
