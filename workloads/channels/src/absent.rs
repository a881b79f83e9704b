//! The queue and the links of deployments without them.

use std::time::Duration;

use async_trait::async_trait;

use crate::{ChannelError, Links, Payload, Queue, Result};

/// Stand-in for the queue of a deployment that has none: every operation is refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct AbsentQueue;

fn absent<T>(operation: &str, name: &str) -> Result<T> {
    Err(ChannelError::Refused {
        service: "queue",
        operation: format!("{operation} of {name}"),
        reason: "this deployment has no queue".into(),
    })
}

#[async_trait]
impl Queue for AbsentQueue {
    async fn publish(&self, queue: &str, _: Payload) -> Result<()> {
        absent("publish", queue)
    }

    async fn publish_fanout(&self, exchange: &str, _: Payload) -> Result<()> {
        absent("publish", exchange)
    }

    async fn bind(&self, exchange: &str, _: &str) -> Result<()> {
        absent("bind", exchange)
    }

    async fn consume(&self, queue: &str, _: Duration) -> Result<Option<Payload>> {
        absent("consume", queue)
    }

    async fn peek(&self, queue: &str) -> Result<Option<Payload>> {
        absent("peek", queue)
    }

    async fn count(&self, queue: &str) -> Result<u64> {
        absent("count", queue)
    }

    async fn purge(&self, queue: &str) -> Result<()> {
        absent("purge", queue)
    }
}

/// Stand-in for the links of a deployment whose workers cannot reach each other: every
/// operation is refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct AbsentLinks;

fn unlinked<T>(operation: &str) -> Result<T> {
    Err(ChannelError::Refused {
        service: "a link between workers",
        operation: operation.to_owned(),
        reason: "the workers of this deployment cannot reach each other".into(),
    })
}

#[async_trait]
impl Links for AbsentLinks {
    async fn listen(&self, _: usize) -> Result<String> {
        unlinked("listening")
    }

    async fn connect(&self, _: usize, _: usize, _: &str) -> Result<()> {
        unlinked("connecting")
    }

    async fn send(&self, _: usize, _: usize, _: Payload) -> Result<()> {
        unlinked("sending")
    }

    async fn receive(&self, _: usize, _: usize) -> Result<Payload> {
        unlinked("receiving")
    }
}
