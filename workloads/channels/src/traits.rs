use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Payload, Result, RobustMean, SgdStep};

/// Page of an object listing: the result of one LIST request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// Keys in lexicographic order, at most 1,000 (S3's page size). Shared,
    /// since many readers may receive the same page.
    pub keys: Arc<[String]>,
    /// Whether more keys follow; the next page starts after the last key.
    pub truncated: bool,
}

/// A store of named objects in buckets, modelled on S3.
///
/// Every method is exactly one request.
#[async_trait]
pub trait ObjectStore: Send + Sync {
    /// Stores `body` under `key`, replacing what was there.
    async fn put(&self, bucket: &str, key: &str, body: Payload) -> Result<()>;
    /// Returns the object, or `None` if there is none (a missed get).
    async fn get(&self, bucket: &str, key: &str) -> Result<Option<Payload>>;
    /// Returns the bytes `range` of the object, or `None` if there is none.
    async fn get_range(
        &self,
        bucket: &str,
        key: &str,
        range: Range<u64>,
    ) -> Result<Option<Payload>>;
    /// Returns one page of the keys that start with `prefix`, after the key `after`.
    async fn list(&self, bucket: &str, prefix: &str, after: Option<&str>) -> Result<ListPage>;
    /// Deletes `keys` (at most 1,000) in one request; absent keys are no error.
    async fn delete(&self, bucket: &str, keys: &[String]) -> Result<()>;
}

/// A store of flat f32 vectors (little-endian, 4 bytes per element) that
/// computes on them in place.
///
/// Reductions add in the order of their sources. Every method is exactly one
/// command.
#[async_trait]
pub trait TensorStore: Send + Sync {
    /// Stores a value, replacing what was there.
    async fn set(&self, key: &str, value: Payload) -> Result<()>;
    /// Returns the value, or `None` if there is none.
    async fn get(&self, key: &str) -> Result<Option<Payload>>;
    /// Returns `elements` (not bytes) of the tensor, or `None` if there is none.
    async fn get_range(&self, key: &str, elements: Range<u64>) -> Result<Option<Payload>>;
    /// Adds `value` to the tensor at `key`, or stores it if there is none.
    async fn accumulate(&self, key: &str, value: Payload) -> Result<()>;
    /// Stores the elementwise mean of `sources` at `destination`.
    async fn mean(&self, destination: &str, sources: &[String]) -> Result<()>;
    /// Stores the robust mean of `sources` at `destination`. Centred clipping starts from
    /// the tensor that is there, if there is one.
    async fn robust_mean(
        &self,
        destination: &str,
        rule: RobustMean,
        sources: &[String],
    ) -> Result<()>;
    /// Takes one SGD step on `parameters` with the tensor at `gradient`.
    async fn sgd(&self, parameters: &str, gradient: &str, step: SgdStep) -> Result<()>;
    /// Fuses [`mean`](Self::mean) and [`sgd`](Self::sgd), bit-identical to both in turn.
    async fn mean_sgd(&self, parameters: &str, sources: &[String], step: SgdStep) -> Result<()>;
    /// Appends a value to the list at `key`: Redis' RPUSH.
    async fn push(&self, key: &str, value: Payload) -> Result<()>;
    /// Returns the mean of the first `count` JSON texts of the list at `key`, as
    /// JSON text, divided by the number of items found: SPIRT's published Lua script.
    async fn json_mean(&self, key: &str, count: u64) -> Result<Payload>;
    /// Deletes `keys` in one command; absent keys are no error.
    async fn delete(&self, keys: &[String]) -> Result<()>;
    /// Answers if the store is alive.
    async fn ping(&self) -> Result<()>;
}

/// Connections between the workers of a trial, which talk to each other without a service.
///
/// Every worker is named by its rank; messages from one worker to another arrive in order.
#[async_trait]
pub trait Links: Send + Sync {
    /// Makes worker `rank`, which is this one, reachable; returns the address at which.
    async fn listen(&self, rank: usize) -> Result<String>;
    /// Connects worker `rank` to the worker `to`, which listens at `address`.
    async fn connect(&self, rank: usize, to: usize, address: &str) -> Result<()>;
    /// Sends `message` from worker `rank` to the worker `to`, to which it is connected.
    async fn send(&self, rank: usize, to: usize, message: Payload) -> Result<()>;
    /// Takes the oldest message of worker `from` to worker `rank`, and waits for it; an
    /// error once that worker is gone.
    async fn receive(&self, rank: usize, from: usize) -> Result<Payload>;
}

/// A message queue with fan-out.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Sends a message to one queue, creating it if there is none.
    async fn publish(&self, queue: &str, message: Payload) -> Result<()>;
    /// Sends a message to every queue bound to `exchange`: one publish, as
    /// many deliveries as queues.
    async fn publish_fanout(&self, exchange: &str, message: Payload) -> Result<()>;
    /// Binds `queue` to `exchange`, creating both.
    async fn bind(&self, exchange: &str, queue: &str) -> Result<()>;
    /// Takes the oldest message, and waits for one up to `wait` (zero: not at all).
    /// Returns `None` if none came.
    async fn consume(&self, queue: &str, wait: Duration) -> Result<Option<Payload>>;
    /// Returns the oldest message without taking it; `None` if there is none.
    async fn peek(&self, queue: &str) -> Result<Option<Payload>>;
    /// Replaces all messages of `queue` by `message`: a purge and a publish, so
    /// that a poll between the two finds nothing.
    async fn replace(&self, queue: &str, message: Payload) -> Result<()> {
        self.purge(queue).await?;
        self.publish(queue, message).await
    }
    /// Returns the number of messages in `queue`.
    async fn count(&self, queue: &str) -> Result<u64>;
    /// Drops every message in `queue`.
    async fn purge(&self, queue: &str) -> Result<()>;
}
