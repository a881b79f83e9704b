//! The queue of deployments without a queue.

use std::time::Duration;

use async_trait::async_trait;

use crate::{ChannelError, Payload, Queue, Result};

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
