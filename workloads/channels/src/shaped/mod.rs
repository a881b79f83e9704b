//! Shaped channels: a decorator that adds the bandwidth of a process's network and
//! a latency per request.
//!
//! Every request takes the latency of its channel, and its payload the time of its
//! bytes on the process's link, in addition to the time of the service. All
//! channels of a process share one [`Link`], which is full duplex, as a network
//! interface is; transfers in one direction take turns, one piece each. Protocol
//! overhead is left out, as in the meter, which belongs above this decorator.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Caller, Channel, Command, Reply, Result, locked};

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
        let mut free = locked(&self.0);
        *free = (*free).max(from) + turn;
        *free
    }
}

/// A channel behind a [`Link`].
struct Shaped<C: Command> {
    channel: Arc<dyn Channel<C>>,
    link: Arc<Link>,
    latency: Duration,
}

impl<C: Command> Caller<C> {
    /// Returns a caller of the same channel behind `link`, with a latency per request.
    #[must_use]
    pub fn shaped(self, link: &Arc<Link>, latency_ms: f64) -> Self {
        Self::new(Arc::new(Shaped {
            channel: self.channel,
            link: link.clone(),
            latency: Duration::from_secs_f64(latency_ms / 1e3),
        }))
    }
}

#[async_trait]
impl<C: Command> Channel<C> for Shaped<C> {
    async fn run(&self, command: C) -> Result<Reply> {
        let (link, up) = (&self.link, command.fare().up_bytes());
        link.carry(&link.up, up).await;
        if command.has_latency() && !self.latency.is_zero() {
            link.time.until(link.time.now() + self.latency).await;
        }
        let reply = self.channel.run(command).await?;
        if let Some(down) = reply.bytes() {
            link.carry(&link.down, down).await;
        }
        Ok(reply)
    }
}

#[cfg(test)]
mod tests;
