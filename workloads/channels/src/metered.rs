//! The metering decorator of every channel.

use std::ops::{AddAssign, Range, Sub};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    Links, ListPage, ObjectStore, Payload, Queue, Result, RobustMean, SgdStep, TensorStore,
};

/// Traffic over channels: requests, messages and payload bytes.
///
/// A get that found nothing is a missed get and moves no bytes. Bytes are
/// payload bytes; protocol overhead is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Values written to an object or tensor store.
    pub puts: u64,
    /// Values read.
    pub gets: u64,
    /// Reads that found nothing.
    pub missed_gets: u64,
    /// LIST requests, one per page.
    pub lists: u64,
    /// Delete requests, whatever the number of keys in each.
    pub deletes: u64,
    /// Messages published to queues.
    pub messages: u64,
    /// Messages taken from queues, or peeked at.
    pub deliveries: u64,
    /// Requests for the number of messages in a queue, and other queue requests that move nothing.
    pub polls: u64,
    /// Commands computed inside the tensor store.
    pub in_store: u64,
    /// Payload bytes from workers to channels.
    pub bytes_up: u64,
    /// Payload bytes from channels to workers.
    pub bytes_down: u64,
}

impl Traffic {
    /// Returns the traffic of so many that are alike.
    #[must_use]
    pub fn times(self, alike: u64) -> Self {
        Self {
            puts: self.puts * alike,
            gets: self.gets * alike,
            missed_gets: self.missed_gets * alike,
            lists: self.lists * alike,
            deletes: self.deletes * alike,
            messages: self.messages * alike,
            deliveries: self.deliveries * alike,
            polls: self.polls * alike,
            in_store: self.in_store * alike,
            bytes_up: self.bytes_up * alike,
            bytes_down: self.bytes_down * alike,
        }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.puts += other.puts;
        self.gets += other.gets;
        self.missed_gets += other.missed_gets;
        self.lists += other.lists;
        self.deletes += other.deletes;
        self.messages += other.messages;
        self.deliveries += other.deliveries;
        self.polls += other.polls;
        self.in_store += other.in_store;
        self.bytes_up += other.bytes_up;
        self.bytes_down += other.bytes_down;
    }
}

impl Sub for Traffic {
    type Output = Self;

    /// Returns the traffic since `earlier`; both values come from one growing meter.
    fn sub(self, earlier: Self) -> Self {
        Self {
            puts: self.puts - earlier.puts,
            gets: self.gets - earlier.gets,
            missed_gets: self.missed_gets - earlier.missed_gets,
            lists: self.lists - earlier.lists,
            deletes: self.deletes - earlier.deletes,
            messages: self.messages - earlier.messages,
            deliveries: self.deliveries - earlier.deliveries,
            polls: self.polls - earlier.polls,
            in_store: self.in_store - earlier.in_store,
            bytes_up: self.bytes_up - earlier.bytes_up,
            bytes_down: self.bytes_down - earlier.bytes_down,
        }
    }
}

/// A running count of traffic, shared by the decorators of one purpose.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<Mutex<Traffic>>);

impl Meter {
    /// Returns the traffic counted so far.
    pub fn read(&self) -> Traffic {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds traffic that did not pass a channel: polls that a simulation skips
    /// because it knows that they would find nothing.
    pub fn add(&self, traffic: Traffic) {
        self.count(|total| *total += traffic);
    }

    fn count(&self, add: impl FnOnce(&mut Traffic)) {
        add(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn up(&self, add: impl FnOnce(&mut Traffic), bytes: u64) {
        self.count(|t| {
            add(t);
            t.bytes_up += bytes;
        });
    }

    fn received(&self, message: Option<&Payload>) {
        self.count(|t| match message {
            Some(message) => {
                t.deliveries += 1;
                t.bytes_down += message.len();
            }
            None => t.polls += 1,
        });
    }

    fn got(&self, value: Option<&Payload>) {
        self.count(|t| match value {
            Some(value) => {
                t.gets += 1;
                t.bytes_down += value.len();
            }
            None => t.missed_gets += 1,
        });
    }
}

/// A channel whose traffic is counted by a [`Meter`]. Failed requests are not
/// counted.
pub struct Metered<C: ?Sized> {
    channel: Arc<C>,
    meter: Meter,
}

impl<C: ?Sized> Metered<C> {
    /// Counts the traffic of `channel` on `meter`.
    pub fn new(channel: Arc<C>, meter: Meter) -> Self {
        Self { channel, meter }
    }
}

#[async_trait]
impl ObjectStore for Metered<dyn ObjectStore> {
    async fn put(&self, bucket: &str, key: &str, body: Payload) -> Result<()> {
        let bytes = body.len();
        self.channel.put(bucket, key, body).await?;
        self.meter.up(|t| t.puts += 1, bytes);
        Ok(())
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<Option<Payload>> {
        let value = self.channel.get(bucket, key).await?;
        self.meter.got(value.as_ref());
        Ok(value)
    }

    async fn get_range(
        &self,
        bucket: &str,
        key: &str,
        range: Range<u64>,
    ) -> Result<Option<Payload>> {
        let value = self.channel.get_range(bucket, key, range).await?;
        self.meter.got(value.as_ref());
        Ok(value)
    }

    async fn list(&self, bucket: &str, prefix: &str, after: Option<&str>) -> Result<ListPage> {
        let page = self.channel.list(bucket, prefix, after).await?;
        self.meter.count(|t| t.lists += 1);
        Ok(page)
    }

    async fn delete(&self, bucket: &str, keys: &[String]) -> Result<()> {
        self.channel.delete(bucket, keys).await?;
        self.meter.count(|t| t.deletes += 1);
        Ok(())
    }
}

#[async_trait]
impl TensorStore for Metered<dyn TensorStore> {
    async fn set(&self, key: &str, value: Payload) -> Result<()> {
        let bytes = value.len();
        self.channel.set(key, value).await?;
        self.meter.up(|t| t.puts += 1, bytes);
        Ok(())
    }

    async fn get(&self, key: &str) -> Result<Option<Payload>> {
        let value = self.channel.get(key).await?;
        self.meter.got(value.as_ref());
        Ok(value)
    }

    async fn get_range(&self, key: &str, elements: Range<u64>) -> Result<Option<Payload>> {
        let value = self.channel.get_range(key, elements).await?;
        self.meter.got(value.as_ref());
        Ok(value)
    }

    async fn accumulate(&self, key: &str, value: Payload) -> Result<()> {
        let bytes = value.len();
        self.channel.accumulate(key, value).await?;
        self.meter.up(|t| t.puts += 1, bytes);
        Ok(())
    }

    async fn mean(&self, destination: &str, sources: &[String]) -> Result<()> {
        self.channel.mean(destination, sources).await?;
        self.meter.count(|t| t.in_store += 1);
        Ok(())
    }

    async fn robust_mean(
        &self,
        destination: &str,
        rule: RobustMean,
        sources: &[String],
    ) -> Result<()> {
        self.channel.robust_mean(destination, rule, sources).await?;
        self.meter.count(|t| t.in_store += 1);
        Ok(())
    }

    async fn sgd(&self, parameters: &str, gradient: &str, step: SgdStep) -> Result<()> {
        self.channel.sgd(parameters, gradient, step).await?;
        self.meter.count(|t| t.in_store += 1);
        Ok(())
    }

    async fn mean_sgd(&self, parameters: &str, sources: &[String], step: SgdStep) -> Result<()> {
        self.channel.mean_sgd(parameters, sources, step).await?;
        self.meter.count(|t| t.in_store += 1);
        Ok(())
    }

    async fn push(&self, key: &str, value: Payload) -> Result<()> {
        let bytes = value.len();
        self.channel.push(key, value).await?;
        self.meter.up(|t| t.puts += 1, bytes);
        Ok(())
    }

    async fn json_mean(&self, key: &str, count: u64) -> Result<Payload> {
        let mean = self.channel.json_mean(key, count).await?;
        self.meter.count(|t| {
            t.in_store += 1;
            t.bytes_down += mean.len();
        });
        Ok(mean)
    }

    async fn delete(&self, keys: &[String]) -> Result<()> {
        self.channel.delete(keys).await?;
        self.meter.count(|t| t.deletes += 1);
        Ok(())
    }

    async fn ping(&self) -> Result<()> {
        self.channel.ping().await
    }
}

#[async_trait]
impl Queue for Metered<dyn Queue> {
    async fn publish(&self, queue: &str, message: Payload) -> Result<()> {
        let bytes = message.len();
        self.channel.publish(queue, message).await?;
        self.meter.up(|t| t.messages += 1, bytes);
        Ok(())
    }

    async fn publish_fanout(&self, exchange: &str, message: Payload) -> Result<()> {
        let bytes = message.len();
        self.channel.publish_fanout(exchange, message).await?;
        self.meter.up(|t| t.messages += 1, bytes);
        Ok(())
    }

    async fn bind(&self, exchange: &str, queue: &str) -> Result<()> {
        self.channel.bind(exchange, queue).await
    }

    async fn consume(&self, queue: &str, wait: Duration) -> Result<Option<Payload>> {
        let message = self.channel.consume(queue, wait).await?;
        self.meter.received(message.as_ref());
        Ok(message)
    }

    async fn peek(&self, queue: &str) -> Result<Option<Payload>> {
        let message = self.channel.peek(queue).await?;
        self.meter.received(message.as_ref());
        Ok(message)
    }

    async fn count(&self, queue: &str) -> Result<u64> {
        let messages = self.channel.count(queue).await?;
        self.meter.count(|t| t.polls += 1);
        Ok(messages)
    }

    async fn purge(&self, queue: &str) -> Result<()> {
        self.channel.purge(queue).await?;
        self.meter.count(|t| t.polls += 1);
        Ok(())
    }
}

/// Messages over links are counted as those of a queue are: one each when it is sent and
/// when it is received.
#[async_trait]
impl Links for Metered<dyn Links> {
    async fn listen(&self, rank: usize) -> Result<String> {
        self.channel.listen(rank).await
    }

    async fn connect(&self, rank: usize, to: usize, address: &str) -> Result<()> {
        self.channel.connect(rank, to, address).await
    }

    async fn send(&self, rank: usize, to: usize, message: Payload) -> Result<()> {
        let bytes = message.len();
        self.channel.send(rank, to, message).await?;
        self.meter.up(|t| t.messages += 1, bytes);
        Ok(())
    }

    async fn receive(&self, rank: usize, from: usize) -> Result<Payload> {
        let message = self.channel.receive(rank, from).await?;
        self.meter.received(Some(&message));
        Ok(message)
    }
}

impl Traffic {
    /// Returns the counts of a closed form: without the requests whose number
    /// depends on timing (missed gets, lists, deletes, polls).
    #[must_use]
    pub fn untimed(self) -> Self {
        Self {
            missed_gets: 0,
            lists: 0,
            deletes: 0,
            polls: 0,
            ..self
        }
    }
}
