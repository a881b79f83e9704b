use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redis_protocol::resp2::types::BytesFrame;
use tokio::runtime::Handle;
use tracing::debug;

use super::redis::{Address, Connection, Pool, blob};
use super::wire::Asked;
use crate::{Channel, Endpoint, Payload, QueueCommand, Reply, Result};

const CONSUME: &str = "QUEUE.CONSUME";

/// A queue behind the Redis protocol that knows the commands `QUEUE.*`.
///
/// A consume that waits uses a connection of its own, so that it blocks no other
/// command; idle connections are reused. A consume that is dropped while it waits
/// ends its connection; a message that was on its way goes back to the front of its queue.
pub struct RedisQueue {
    commands: Arc<Connection>,
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
            commands: Arc::new(Connection::open(address.clone()).await?),
            waiting: Pool::new(address),
        })
    }

    async fn consume(&self, queue: String, wait: Duration) -> Result<Reply> {
        // Rounded up: a wait under a millisecond is still a wait.
        let milliseconds = wait.as_nanos().div_ceil(1_000_000).to_string();
        let queue = Bytes::from(queue);
        let connection = self.waiting.take().await?;
        let arguments = vec![queue.clone(), milliseconds.into()];
        let asked = connection.start(CONSUME, arguments);
        let mut consume = Consume {
            on: Some((connection, asked)),
            commands: Arc::clone(&self.commands),
            queue,
        };
        let message = consume.message(wait).await?;
        if let Some((connection, _)) = consume.on.take() {
            self.waiting.give(connection);
        }
        Ok(Reply::Value(message))
    }
}

/// A consume in progress. Dropped, it gives back a message that was on its way.
struct Consume {
    /// Its connection, until the message is handed over.
    on: Option<(Connection, Asked)>,
    commands: Arc<Connection>,
    queue: Bytes,
}

impl Consume {
    async fn message(&mut self, wait: Duration) -> Result<Option<Payload>> {
        let Some((connection, asked)) = &mut self.on else {
            return Ok(None);
        };
        let reply = connection.reply(CONSUME, asked, wait).await?;
        connection.payload(CONSUME, reply)
    }
}

impl Drop for Consume {
    fn drop(&mut self) {
        // Without a runtime the process ends, and the connection with it.
        if let (Some((connection, asked)), Ok(runtime)) = (self.on.take(), Handle::try_current()) {
            let (commands, queue) = (Arc::clone(&self.commands), self.queue.clone());
            runtime.spawn(async move {
                let Some(BytesFrame::BulkString(message)) = connection.end(asked).await else {
                    return;
                };
                if let Err(error) = commands.done("QUEUE.RESTORE", vec![queue, message]).await {
                    debug!("a message that nobody took could not be given back: {error}");
                }
            });
        }
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
