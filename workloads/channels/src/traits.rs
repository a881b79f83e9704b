use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Payload, Result, RobustRule, SgdStep};

/// One page of an object listing: what one LIST request returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// Keys in lexicographic order, at most 1,000 (S3's page size). Shared,
    /// since many readers may receive the same page.
    pub keys: Arc<[String]>,
    /// Whether more keys follow: ask again after the last one.
    pub truncated: bool,
}

/// A store of named objects in buckets, after S3.
///
/// Every method is exactly one request.
#[async_trait]
pub trait ObjectStore: Send + Sync {
    /// Stores `body` under `key`, replacing what was there.
    async fn put(&self, bucket: &str, key: &str, body: Payload) -> Result<()>;
    /// The object, or `None` if there is none (a missed get).
    async fn get(&self, bucket: &str, key: &str) -> Result<Option<Payload>>;
    /// The bytes `range` of the object, or `None` if there is none.
    async fn get_range(
        &self,
        bucket: &str,
        key: &str,
        range: Range<u64>,
    ) -> Result<Option<Payload>>;
    /// One page of the keys that start with `prefix`, after the key `after`.
    async fn list(&self, bucket: &str, prefix: &str, after: Option<&str>) -> Result<ListPage>;
    /// Deletes `keys` (at most 1,000) in one request; absent keys are no error.
    async fn delete(&self, bucket: &str, keys: &[String]) -> Result<()>;
}

/// A store of flat f32 vectors (little-endian, 4 bytes per element) that
/// computes on them where they lie.
///
/// Reductions add in the order of their sources. Every method is exactly one
/// command.
#[async_trait]
pub trait TensorStore: Send + Sync {
    /// Stores a value, replacing what was there.
    async fn set(&self, key: &str, value: Payload) -> Result<()>;
    /// The value, or `None` if there is none.
    async fn get(&self, key: &str) -> Result<Option<Payload>>;
    /// `elements` (not bytes) of the tensor, or `None` if there is none.
    async fn get_range(&self, key: &str, elements: Range<u64>) -> Result<Option<Payload>>;
    /// Adds `value` to the tensor at `key`, or stores it if there is none.
    async fn accumulate(&self, key: &str, value: Payload) -> Result<()>;
    /// `destination` = the elementwise mean of `sources`.
    async fn mean(&self, destination: &str, sources: &[String]) -> Result<()>;
    /// `destination` = the robust mean of `sources`.
    async fn robust_mean(
        &self,
        destination: &str,
        rule: RobustRule,
        sources: &[String],
    ) -> Result<()>;
    /// One SGD step on `parameters` with the tensor at `gradient`.
    async fn sgd(&self, parameters: &str, gradient: &str, step: SgdStep) -> Result<()>;
    /// [`mean`](Self::mean) and [`sgd`](Self::sgd) fused: bit-identical to both in turn.
    async fn mean_sgd(&self, parameters: &str, sources: &[String], step: SgdStep) -> Result<()>;
    /// Appends a value to the list at `key`: Redis' RPUSH.
    async fn push(&self, key: &str, value: Payload) -> Result<()>;
    /// The mean of the first `count` JSON texts of the list at `key`, as JSON
    /// text: what SPIRT's published Lua script does. Divides by the number of
    /// items found.
    async fn json_mean(&self, key: &str, count: u64) -> Result<Payload>;
    /// Deletes `keys` in one command; absent keys are no error.
    async fn delete(&self, keys: &[String]) -> Result<()>;
    /// Answers if the store is alive.
    async fn ping(&self) -> Result<()>;
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
    /// Takes the oldest message, waiting for one up to `wait` (zero: not at
    /// all). `None` if none came.
    async fn consume(&self, queue: &str, wait: Duration) -> Result<Option<Payload>>;
    /// The oldest message, which stays where it is; `None` if there is none.
    async fn peek(&self, queue: &str) -> Result<Option<Payload>>;
    /// Replaces all messages of `queue` by `message`: a purge and a publish, so
    /// that a poll between the two finds nothing.
    async fn replace(&self, queue: &str, message: Payload) -> Result<()> {
        self.purge(queue).await?;
        self.publish(queue, message).await
    }
    /// How many messages wait in `queue`.
    async fn count(&self, queue: &str) -> Result<u64>;
    /// Drops every message in `queue`.
    async fn purge(&self, queue: &str) -> Result<()>;
}
