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
//! - `QUEUE.RESTORE queue blob`: puts a message that was taken and not used to the front
//! - `QUEUE.PEEK queue` (blob or nil): the oldest message, which stays in the queue
//! - `QUEUE.COUNT queue` (integer): messages that are not reserved for a waiting consumer
//! - `QUEUE.PURGE queue`: drops these
//!
//! A message is removed once its reply is written; if it cannot be, the message returns to the front.
//! There is no acknowledgement: a client that no longer wants what it was sent restores it.

use std::time::Duration;

use async_trait::async_trait;
use epochcost_tensor_commands::{Arguments, CommandError};
use redis_protocol::resp2::types::BytesFrame;

use super::connection::{Commands, Parsed, RespServer, frame, housekeeping, ok};
use super::request::Request;
use crate::memory::MemoryQueue;
use crate::{Channel, QueueCommand};

/// A message queue on loopback, framed as the Redis protocol.
pub type QueueServer = RespServer<MemoryQueue>;

const CONSUME: &str = "QUEUE.CONSUME";

#[async_trait]
impl Commands for MemoryQueue {
    const SERVICE: &'static str = "queue";

    async fn execute(&self, request: &Request) -> BytesFrame {
        match housekeeping(request) {
            Some(reply) => reply,
            None => execute(self, request).await.unwrap_or_else(|error| error.0),
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
            self.restore(queue, message.into());
        }
    }
}

async fn execute(store: &MemoryQueue, request: &Request) -> Parsed<BytesFrame> {
    if request.name == "QUEUE.RESTORE" {
        let mut arguments = Arguments::new(&request.name, &request.arguments);
        let (queue, message) = (arguments.key()?, arguments.blob()?.clone());
        arguments.end()?;
        store.restore(&queue, message.into());
        return Ok(ok());
    }
    let command = parse(request)?;
    let QueueCommand::Consume { queue, .. } = &command else {
        return frame(store.run(command).await?);
    };
    let queue = queue.clone();
    let message = store.run(command).await?.value()?;
    frame(message.clone().into()).inspect_err(|_| {
        // A phantom, which stays in the queue.
        if let Some(message) = message {
            store.restore(&queue, message);
        }
    })
}

fn parse(request: &Request) -> Result<QueueCommand, CommandError> {
    let mut arguments = Arguments::new(&request.name, &request.arguments);
    let command = match request.name.as_str() {
        "QUEUE.PUBLISH" => QueueCommand::Publish {
            queue: arguments.key()?,
            message: arguments.blob()?.clone().into(),
        },
        "QUEUE.FANOUT" => QueueCommand::FanOut {
            exchange: arguments.key()?,
            message: arguments.blob()?.clone().into(),
        },
        "QUEUE.BIND" => QueueCommand::Bind {
            exchange: arguments.key()?,
            queue: arguments.key()?,
        },
        CONSUME => QueueCommand::Consume {
            queue: arguments.key()?,
            wait: Duration::from_millis(arguments.integer()?),
        },
        "QUEUE.PEEK" => QueueCommand::Peek {
            queue: arguments.key()?,
        },
        "QUEUE.COUNT" => QueueCommand::Count {
            queue: arguments.key()?,
        },
        "QUEUE.PURGE" => QueueCommand::Purge {
            queue: arguments.key()?,
        },
        _ => return Err(CommandError::unknown(&request.name)),
    };
    arguments.end()?;
    Ok(command)
}
