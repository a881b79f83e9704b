//! A network made to look like another: one decorator around every channel,
//! with the bandwidth of one process's network and a latency per request.
//!
//! Every request takes its channel's latency, and its payload the time that its
//! bytes take on the process's link, beside what the service itself takes. All
//! channels of a process share one [`Link`], which carries as much up as down at
//! the same time, as a network interface does; transfers of one direction take
//! turns, a piece each. Protocol overhead is left out, as it is by the meter,
//! which belongs above this.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{ListPage, ObjectStore, Payload, Queue, Result, RobustRule, SgdStep, TensorStore};

/// What a link carries before another transfer's turn comes.
const TURN: Duration = Duration::from_millis(10);

/// The network between one process and its services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkShape {
    /// Of each direction, Mbit (10⁶ bits) a second; null for as much as there is.
    pub bandwidth_mbit_s: Option<f64>,
    /// What a request takes beside its bytes.
    pub latency_ms: LatencyMs,
}

/// What a request of each channel takes beside its bytes, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LatencyMs {
    /// Of the object store.
    pub objects: f64,
    /// Of a tensor store.
    pub tensors: f64,
    /// Of the queue.
    pub queue: f64,
}

/// Where a link's time comes from.
#[async_trait]
trait Time: Send + Sync {
    /// Time since some origin.
    fn now(&self) -> Duration;
    /// Waits until then.
    async fn until(&self, at: Duration);
}

/// This machine's monotonic clock, from when the link was made.
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

/// One process's link, shared by its channels.
pub struct Link {
    /// None: nothing waits for it.
    bytes_per_s: Option<f64>,
    up: Lane,
    down: Lane,
    time: Box<dyn Time>,
}

/// One direction: when it is next free.
#[derive(Default)]
struct Lane(Mutex<Duration>);

impl Link {
    /// An idle link, in this machine's time.
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
    /// The end of the next free `turn` from `from` on: a transfer that alone
    /// wants the lane goes on where its last turn ended, however late its timer
    /// woke it.
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
    /// Puts `channel` behind `link`, `latency_ms` away.
    pub fn new(channel: Arc<C>, link: Arc<Link>, latency_ms: f64) -> Self {
        Self {
            channel,
            link,
            latency: Duration::from_secs_f64(latency_ms / 1e3),
        }
    }

    /// A request with a payload of `bytes`, of which nothing but a word comes back.
    async fn send(&self, bytes: u64) {
        self.link.up(bytes).await;
        self.reach().await;
    }

    /// The way there and back.
    async fn reach(&self) {
        if !self.latency.is_zero() {
            let time = &self.link.time;
            time.until(time.now() + self.latency).await;
        }
    }

    /// Brings a payload here.
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
        rule: RobustRule,
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
