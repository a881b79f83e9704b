//! The queue's commands, `QUEUE.*`.
//!
//! The first use of a name creates the queue. Messages and waiting consumers are served in the order of
//! arrival. Replies are OK, or as in parentheses.
//!
//! - `QUEUE.PUBLISH queue blob`: appends a message
//! - `QUEUE.BIND exchange queue`: binds the queue to the exchange; creates both
//! - `QUEUE.FANOUT exchange blob` (integer: queues reached): appends to every bound queue, to all in
//!   one step
//! - `QUEUE.CONSUME queue wait-ms` (blob or nil): takes the oldest message, waiting up to `wait-ms`
//!   milliseconds for one; 0 does not wait
//! - `QUEUE.PEEK queue` (blob or nil): the oldest message, which stays in the queue
//! - `QUEUE.COUNT queue` (integer): messages that are not reserved for a waiting consumer
//! - `QUEUE.PURGE queue`: drops these
//!
//! A message is removed once its reply is written; if it cannot be, the message returns to the front.
//! There is no acknowledgement.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use epochcost_tensor_commands::{Arguments, CommandError};
use redis_protocol::resp2::types::BytesFrame;

use super::Password;
use super::connection::{Commands, Parsed, RespServer, housekeeping, ok};
use super::request::Request;
use crate::memory::MemoryQueue;
use crate::{ChannelError, Queue, Result};

/// A message queue on loopback, framed as the Redis protocol.
#[derive(Debug)]
pub struct QueueServer(RespServer);

impl QueueServer {
    /// Serves `queue` on a free port until dropped, to every client on this machine.
    ///
    /// # Errors
    /// [`Unreachable`](crate::ChannelError::Unreachable) if no port can be listened on.
    pub async fn start(queue: Arc<MemoryQueue>) -> Result<Self> {
        Self::serve(queue, None).await
    }

    /// Serves `queue` on a free port until dropped, to clients that give a random password,
    /// which is part of the address.
    ///
    /// # Errors
    /// As [`QueueServer::start`].
    pub async fn start_private(queue: Arc<MemoryQueue>) -> Result<Self> {
        Self::serve(queue, Some(Password::random())).await
    }

    async fn serve(queue: Arc<MemoryQueue>, password: Option<Password>) -> Result<Self> {
        let commands = Arc::new(QueueCommands(queue));
        let server = RespServer::start("queue", commands, password);
        server.await.map(Self)
    }

    /// Returns the address of the server: `redis://127.0.0.1:PORT`, or
    /// `redis://:PASSWORD@127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        self.0.endpoint()
    }
}

struct QueueCommands(Arc<MemoryQueue>);

const CONSUME: &str = "QUEUE.CONSUME";

#[async_trait]
impl Commands for QueueCommands {
    async fn execute(&self, request: &Request) -> BytesFrame {
        match housekeeping(request) {
            Some(reply) => reply,
            None => self.queue(request).await.unwrap_or_else(|error| error.0),
        }
    }

    fn waits(&self, request: &Request) -> bool {
        request.name == CONSUME
    }

    fn undelivered(&self, request: &Request, reply: BytesFrame) {
        let queue = request
            .arguments
            .first()
            .and_then(|queue| std::str::from_utf8(queue).ok());
        if let (Some(queue), BytesFrame::BulkString(message)) = (queue, reply) {
            self.0.restore(queue, message.into());
        }
    }
}

impl QueueCommands {
    async fn queue(&self, request: &Request) -> Parsed<BytesFrame> {
        let mut arguments = Arguments::new(&request.name, &request.arguments);
        // The first argument of every command is a queue or an exchange.
        let target = match request.name.strip_prefix("QUEUE.") {
            Some("PUBLISH" | "FANOUT" | "BIND" | "CONSUME" | "PEEK" | "COUNT" | "PURGE") => {
                arguments.key()?
            }
            _ => return Err(CommandError::unknown(&request.name).into()),
        };
        // Remaining arguments and effect of each command.
        let reply = match request.name.as_str() {
            "QUEUE.PUBLISH" => {
                let message = arguments.blob()?;
                arguments.end()?;
                self.0
                    .publish(&target, message.clone().into())
                    .await
                    .map(|()| ok())
            }
            "QUEUE.FANOUT" => {
                let message = arguments.blob()?;
                arguments.end()?;
                self.0
                    .fanout(&target, &message.clone().into())
                    .map(|n| BytesFrame::Integer(n as i64))
            }
            "QUEUE.BIND" => {
                let queue = arguments.key()?;
                arguments.end()?;
                self.0.bind(&target, &queue).await.map(|()| ok())
            }
            CONSUME => {
                let wait = Duration::from_millis(arguments.integer()?);
                arguments.end()?;
                self.consume(&target, wait).await
            }
            "QUEUE.PEEK" => {
                arguments.end()?;
                match self.0.peek(&target).await? {
                    None => Ok(BytesFrame::Null),
                    Some(message) => {
                        (message.bytes()).map(|bytes| BytesFrame::BulkString(bytes.clone()))
                    }
                }
            }
            "QUEUE.COUNT" => {
                arguments.end()?;
                self.0
                    .count(&target)
                    .await
                    .map(|n| BytesFrame::Integer(n as i64))
            }
            _ => {
                arguments.end()?;
                self.0.purge(&target).await.map(|()| ok())
            }
        };
        Ok(reply?)
    }

    async fn consume(&self, queue: &str, wait: Duration) -> Result<BytesFrame, ChannelError> {
        let Some(message) = self.0.consume(queue, wait).await? else {
            return Ok(BytesFrame::Null);
        };
        match message.bytes() {
            Ok(bytes) => Ok(BytesFrame::BulkString(bytes.clone())),
            Err(phantom) => {
                self.0.restore(queue, message);
                Err(phantom)
            }
        }
    }
}
