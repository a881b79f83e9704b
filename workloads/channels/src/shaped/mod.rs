//! Shaped channels: a decorator that adds the bandwidth of a process's network and
//! a latency per request.
//!
//! Every request takes the latency of its channel, and its payload the time of its
//! bytes on the process's link, in addition to the time of the service. All
//! channels of a process share one [`Link`], which is full duplex, as a network
//! interface is; transfers in one direction take turns, one piece each. Protocol
//! overhead is left out, as in the meter, which belongs above this decorator.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Links, ListPage, ObjectStore, Payload, Queue, Result, RobustMean, SgdStep, TensorStore,
};

/// Longest turn of a transfer on a link that others wait for.
const TURN: Duration = Duration::from_millis(10);

/// The network between one process and its services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkShape {
    /// Bandwidth of each direction, Mbit/s (10⁶ bits/s); null for no limit.
    pub bandwidth_mbit_s: Option<f64>,
    /// Latency of a request, without its bytes.
    pub latency_ms: LatencyMs,
}

/// Latency of a request of each channel, without its bytes, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LatencyMs {
    /// Latency of the object store.
    #[schemars(range(min = 0.0, max = 60_000.0))]
    pub objects: f64,
    /// Latency of a tensor store.
    #[schemars(range(min = 0.0, max = 60_000.0))]
    pub tensors: f64,
    /// Latency of the queue.
    #[schemars(range(min = 0.0, max = 60_000.0))]
    pub queue: f64,
}

/// Clock of a link.
#[async_trait]
trait Time: Send + Sync {
    /// Returns the time since a fixed origin.
    fn now(&self) -> Duration;
    /// Waits until the time `at`.
    async fn until(&self, at: Duration);
}

/// Monotonic clock of this machine, from the creation of the link.
struct HostTime(Instant);

#[async_trait]
impl Time for HostTime {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    async fn until(&self, at: Duration) {
        tokio::time::sleep_until((self.0 + at).into()).await;
    }
}

/// Network link of a process, shared by its channels.
pub struct Link {
    /// Bandwidth of each direction; `None` for no limit.
    bytes_per_s: Option<f64>,
    up: Lane,
    down: Lane,
    time: Box<dyn Time>,
}

/// One direction: the time at which it is next free.
#[derive(Default)]
struct Lane(Mutex<Duration>);

impl Link {
    /// Creates an idle link on the clock of this machine.
    pub fn new(shape: &NetworkShape) -> Arc<Self> {
        Self::in_time(shape, Box::new(HostTime(Instant::now())))
    }

    fn in_time(shape: &NetworkShape, time: Box<dyn Time>) -> Arc<Self> {
        Arc::new(Self {
            bytes_per_s: shape.bandwidth_mbit_s.map(|mbit| mbit * 125_000.0),
            up: Lane::default(),
            down: Lane::default(),
            time,
        })
    }

    async fn up(&self, bytes: u64) {
        self.carry(&self.up, bytes).await;
    }

    async fn down(&self, bytes: u64) {
        self.carry(&self.down, bytes).await;
    }

    async fn carry(&self, lane: &Lane, bytes: u64) {
        let Some(bytes_per_s) = self.bytes_per_s else {
            return;
        };
        let mut left = Duration::from_secs_f64(bytes as f64 / bytes_per_s);
        let mut from = self.time.now();
        while !left.is_zero() {
            let turn = left.min(TURN);
            from = lane.reserve(from, turn);
            self.time.until(from).await;
            left -= turn;
        }
    }
}

impl Lane {
    /// Reserves the next free `turn` after `from` and returns its end. A transfer
    /// without competition continues where its last turn ended, even if its timer
    /// fired late.
    fn reserve(&self, from: Duration, turn: Duration) -> Duration {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *free = (*free).max(from) + turn;
        *free
    }
}

/// A channel behind a [`Link`].
pub struct Shaped<C: ?Sized> {
    channel: Arc<C>,
    link: Arc<Link>,
    latency: Duration,
}

impl<C: ?Sized> Shaped<C> {
    /// Decorates `channel` with `link` and a latency per request.
    pub fn new(channel: Arc<C>, link: Arc<Link>, latency_ms: f64) -> Self {
        Self {
            channel,
            link,
            latency: Duration::from_secs_f64(latency_ms / 1e3),
        }
    }

    /// Spends the time of a request with a payload of `bytes` and an empty answer.
    async fn send(&self, bytes: u64) {
        self.link.up(bytes).await;
        self.reach().await;
    }

    /// Spends the latency of a request.
    async fn reach(&self) {
        if !self.latency.is_zero() {
            let time = &self.link.time;
            time.until(time.now() + self.latency).await;
        }
    }

    /// Spends the time of a received payload, and returns it.
    async fn receive(&self, value: Option<Payload>) -> Option<Payload> {
        if let Some(value) = &value {
            self.link.down(value.len()).await;
        }
        value
    }
}

#[async_trait]
impl ObjectStore for Shaped<dyn ObjectStore> {
    async fn put(&self, bucket: &str, key: &str, body: Payload) -> Result<()> {
        self.send(body.len()).await;
        self.channel.put(bucket, key, body).await
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<Option<Payload>> {
        self.reach().await;
        Ok(self.receive(self.channel.get(bucket, key).await?).await)
    }

    async fn get_range(
        &self,
        bucket: &str,
        key: &str,
        range: Range<u64>,
    ) -> Result<Option<Payload>> {
        self.reach().await;
        let value = self.channel.get_range(bucket, key, range).await?;
        Ok(self.receive(value).await)
    }

    async fn list(&self, bucket: &str, prefix: &str, after: Option<&str>) -> Result<ListPage> {
        self.reach().await;
        self.channel.list(bucket, prefix, after).await
    }

    async fn delete(&self, bucket: &str, keys: &[String]) -> Result<()> {
        self.reach().await;
        self.channel.delete(bucket, keys).await
    }
}

#[async_trait]
impl TensorStore for Shaped<dyn TensorStore> {
    async fn set(&self, key: &str, value: Payload) -> Result<()> {
        self.send(value.len()).await;
        self.channel.set(key, value).await
    }

    async fn get(&self, key: &str) -> Result<Option<Payload>> {
        self.reach().await;
        Ok(self.receive(self.channel.get(key).await?).await)
    }

    async fn get_range(&self, key: &str, elements: Range<u64>) -> Result<Option<Payload>> {
        self.reach().await;
        let value = self.channel.get_range(key, elements).await?;
        Ok(self.receive(value).await)
    }

    async fn accumulate(&self, key: &str, value: Payload) -> Result<()> {
        self.send(value.len()).await;
        self.channel.accumulate(key, value).await
    }

    async fn mean(&self, destination: &str, sources: &[String]) -> Result<()> {
        self.reach().await;
        self.channel.mean(destination, sources).await
    }

    async fn robust_mean(
        &self,
        destination: &str,
        rule: RobustMean,
        sources: &[String],
    ) -> Result<()> {
        self.reach().await;
        self.channel.robust_mean(destination, rule, sources).await
    }

    async fn sgd(&self, parameters: &str, gradient: &str, step: SgdStep) -> Result<()> {
        self.reach().await;
        self.channel.sgd(parameters, gradient, step).await
    }

    async fn mean_sgd(&self, parameters: &str, sources: &[String], step: SgdStep) -> Result<()> {
        self.reach().await;
        self.channel.mean_sgd(parameters, sources, step).await
    }

    async fn push(&self, key: &str, value: Payload) -> Result<()> {
        self.send(value.len()).await;
        self.channel.push(key, value).await
    }

    async fn json_mean(&self, key: &str, count: u64) -> Result<Payload> {
        self.reach().await;
        let mean = self.channel.json_mean(key, count).await?;
        self.link.down(mean.len()).await;
        Ok(mean)
    }

    async fn delete(&self, keys: &[String]) -> Result<()> {
        self.reach().await;
        self.channel.delete(keys).await
    }

    async fn ping(&self) -> Result<()> {
        self.reach().await;
        self.channel.ping().await
    }
}

/// A message takes its latency and its time on the sender's link on its way, and its time
/// on the receiver's link when it is taken.
#[async_trait]
impl Links for Shaped<dyn Links> {
    async fn listen(&self, rank: usize) -> Result<String> {
        self.channel.listen(rank).await
    }

    async fn connect(&self, rank: usize, to: usize, address: &str) -> Result<()> {
        self.reach().await;
        self.channel.connect(rank, to, address).await
    }

    async fn send(&self, rank: usize, to: usize, message: Payload) -> Result<()> {
        self.send(message.len()).await;
        self.channel.send(rank, to, message).await
    }

    async fn receive(&self, rank: usize, from: usize) -> Result<Payload> {
        let message = self.channel.receive(rank, from).await?;
        self.link.down(message.len()).await;
        Ok(message)
    }
}

#[async_trait]
impl Queue for Shaped<dyn Queue> {
    async fn publish(&self, queue: &str, message: Payload) -> Result<()> {
        self.send(message.len()).await;
        self.channel.publish(queue, message).await
    }

    async fn publish_fanout(&self, exchange: &str, message: Payload) -> Result<()> {
        self.send(message.len()).await;
        self.channel.publish_fanout(exchange, message).await
    }

    async fn bind(&self, exchange: &str, queue: &str) -> Result<()> {
        self.reach().await;
        self.channel.bind(exchange, queue).await
    }

    async fn consume(&self, queue: &str, wait: Duration) -> Result<Option<Payload>> {
        self.reach().await;
        Ok(self.receive(self.channel.consume(queue, wait).await?).await)
    }

    async fn peek(&self, queue: &str) -> Result<Option<Payload>> {
        self.reach().await;
        Ok(self.receive(self.channel.peek(queue).await?).await)
    }

    async fn count(&self, queue: &str) -> Result<u64> {
        self.reach().await;
        self.channel.count(queue).await
    }

    async fn purge(&self, queue: &str) -> Result<()> {
        self.reach().await;
        self.channel.purge(queue).await
    }
}

#[cfg(test)]
mod tests;
