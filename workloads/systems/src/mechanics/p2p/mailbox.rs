//! The exchange over queues of the peers: each leaves its gradient in a queue
//! of its own, where the others read it without taking it.

use std::time::Duration;

use bytes::Bytes;
use epochcost_channels::Payload;
use epochcost_kernels::hash;

use super::{Mode, PeerQueue};
use crate::mechanics::compression::{Compression, Compressor};
use crate::mechanics::transfers::at_once;
use crate::{Channels, Job, Result, Stage, SystemError, Vector, World};

/// The bucket of gradients that go by reference.
pub(crate) const BUCKET: &str = "p2p";

/// Bytes of a key: `tensors2/{uuid}.pt`.
pub const KEY_BYTES: u64 = 48;

/// Bytes before the gradient of an asynchronous peer: its epoch, u64.
pub const EPOCH_BYTES: u64 = 8;

/// Rules by which peers exchange their gradients.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) mode: Mode,
    pub(crate) compression: Compression,
    pub(crate) queue: PeerQueue,
    /// Gradients of other peers with which a peer goes on; none: all.
    pub(crate) threshold: Option<usize>,
    /// Whether a peer's own gradient is part of the mean.
    pub(crate) averages_own: bool,
    pub(crate) message_limit_bytes: Option<u64>,
    pub(crate) downloads_again: bool,
    pub(crate) poll: Duration,
    pub(crate) sleeps_after_last_look: bool,
    pub(crate) wait_limit: Option<Duration>,
    pub(crate) downloads_at_once: usize,
    pub(crate) deletes_objects: bool,
}

impl Rules {
    /// Bytes of the gradient of `n` elements, and of the message that is left
    /// for the others; those are the key's where it goes by reference.
    pub(crate) fn sizes(&self, n: u64) -> Result<(u64, u64)> {
        let gradient = self.compression.bytes(n)?;
        let head = match self.mode {
            Mode::Synchronous => 0,
            Mode::Asynchronous => EPOCH_BYTES,
        };
        let limit = self.message_limit_bytes.unwrap_or(u64::MAX);
        if head + gradient > limit {
            Ok((gradient, head + KEY_BYTES))
        } else {
            Ok((gradient, head + gradient))
        }
    }

    /// Whether every gradient is read once by every other peer. A peer's one queue may hold its
    /// gradient of the epoch before, too.
    pub(crate) fn reads_once(&self) -> bool {
        self.queue == PeerQueue::PerEpoch && self.threshold.is_none() && !self.downloads_again
    }

    fn is_by_reference(&self, n: usize) -> Result<bool> {
        let (gradient, message) = self.sizes(n as u64)?;
        Ok(message < gradient)
    }
}

/// `tensors2/{uuid}.pt`, the uuid drawn from the job's seed and `parts`.
pub(crate) fn object_key(job: &Job, parts: [u64; 3]) -> String {
    let seed = parts.into_iter().fold(job.seed, hash::mix);
    let (high, low) = (hash::mix(seed, 0), hash::mix(seed, 1));
    format!(
        "tensors2/{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}.pt",
        high >> 32,
        high >> 16 & 0xFFFF,
        high & 0xFFF,
        low >> 48 & 0xFFF,
        low & 0xFFFF_FFFF_FFFF
    )
}

/// Gradients of peers, apart from those of functions.
const OF_PEERS: u64 = u64::MAX;

/// The exchange as one peer takes part in it.
pub(crate) struct Mailbox {
    rules: Rules,
    compressor: Compressor,
    /// Elements of a gradient.
    n: usize,
}

impl Mailbox {
    pub(crate) fn new(world: &World, rules: Rules) -> Self {
        let compressor = Compressor::new(rules.compression, world.task.job.seed, world.rank());
        Self {
            rules,
            compressor,
            n: world.compute.parameters(),
        }
    }

    fn queue_name(&self, job: &Job, peer: usize, epoch: usize) -> String {
        let trial = &job.trial;
        match self.rules.queue {
            PeerQueue::PerEpoch => format!("{trial}_peer{peer}_{epoch}"),
            PeerQueue::Latest => format!("{trial}_peer{peer}"),
        }
    }

    fn own_key(job: &Job, rank: usize, epoch: usize) -> String {
        object_key(job, [OF_PEERS, rank as u64, epoch as u64])
    }

    /// Empties the peer's one queue: the published code makes it anew in every
    /// epoch.
    pub(crate) async fn empty(&self, world: &World, epoch: usize) -> Result<()> {
        let name = self.queue_name(&world.task.job, world.rank(), epoch);
        Ok(world.exchange.queue.purge(&name).await?)
    }

    /// Sends this peer's gradient of `epoch` and gives the mean with those of
    /// others, in rank order. The own one counts as it was sent, so that all
    /// peers add up the same; alone it is the mean of itself, whatever the rules.
    pub(crate) async fn exchange(
        &mut self,
        world: &mut World,
        gradient: &Vector,
        epoch: usize,
    ) -> Result<Vector> {
        if let Some(density) = self.compressor.density(gradient.len()) {
            world.note_density(density);
        }
        world.enter(Stage::Serialise);
        let message = self.compressor.compress(gradient, epoch)?;
        let own = self.compressor.decompress(&message, self.n)?;
        world.enter(Stage::Put);
        self.publish(world, message, epoch).await?;
        let mut found = match self.rules.mode {
            Mode::Synchronous => self.collect(world, epoch).await?,
            Mode::Asynchronous => self.poll_once(world, epoch).await?,
        };
        if self.rules.averages_own || found.iter().all(Option::is_none) {
            found[world.rank()] = Some(own);
        }
        world.enter(Stage::Aggregate);
        let gradients: Vec<Vector> = found.into_iter().flatten().collect();
        Vector::mean(&gradients)
    }

    async fn publish(&self, world: &World, gradient: Payload, epoch: usize) -> Result<()> {
        let (job, rank) = (&world.task.job, world.rank());
        let body = if !self.rules.is_by_reference(self.n)? {
            gradient
        } else {
            let key = Self::own_key(job, rank, epoch);
            let objects = &world.exchange.objects;
            objects.put(BUCKET, &key, gradient).await?;
            key.into_bytes().into()
        };
        let message = match self.rules.mode {
            Mode::Synchronous => body,
            Mode::Asynchronous => {
                let head = Bytes::copy_from_slice(&(epoch as u64).to_le_bytes());
                Payload::with_head(head, body)
            }
        };
        let name = self.queue_name(job, rank, epoch);
        let queue = &world.exchange.queue;
        match self.rules.queue {
            PeerQueue::PerEpoch => queue.publish(&name, message).await?,
            PeerQueue::Latest => queue.replace(&name, message).await?,
        }
        Ok(())
    }

    /// Polls the other peers' queues until as many gradients are there as are waited for: those of
    /// others, by rank.
    async fn collect(&self, world: &mut World, epoch: usize) -> Result<Vec<Option<Vector>>> {
        let (rank, workers) = (world.rank(), world.workers());
        let mut known: Vec<Option<Vector>> = vec![None; workers];
        let others = workers - 1;
        let needed = self.rules.threshold.unwrap_or(others).min(others);
        let is_over = |known: &[Option<Vector>]| known.iter().flatten().count() >= needed;
        let what = format!("the gradients of {workers} peers in epoch {epoch}");
        let waiting = world.waiting(what, self.rules.poll, self.rules.wait_limit);
        while !is_over(&known) {
            let wanted: Vec<usize> = (0..workers)
                .filter(|peer| *peer != rank)
                .filter(|peer| self.rules.downloads_again || known[*peer].is_none())
                .collect();
            for (peer, message) in self.fetch(world, &wanted, epoch).await? {
                let Some(message) = message else { continue };
                world.enter(Stage::Serialise);
                let gradient = self.compressor.decompress(&message, self.n)?;
                known[peer] = Some(gradient);
            }
            if !is_over(&known) {
                world.enter(Stage::Wait);
                world.pause(&waiting).await?;
            } else if self.rules.sleeps_after_last_look {
                world.enter(Stage::Wait);
                world.clock.sleep(self.rules.poll).await;
            }
        }
        world.enter(Stage::Put);
        self.clear(world, epoch).await?;
        Ok(known)
    }

    /// Polls the other peers' queues once, and notes the age of what they hold: the gradients of
    /// others, by rank.
    async fn poll_once(&self, world: &mut World, epoch: usize) -> Result<Vec<Option<Vector>>> {
        let (rank, workers) = (world.rank(), world.workers());
        let others: Vec<usize> = (0..workers).filter(|peer| *peer != rank).collect();
        let mut known: Vec<Option<Vector>> = vec![None; workers];
        let mut ages = Vec::new();
        for (peer, message) in self.fetch(world, &others, epoch).await? {
            let Some(message) = message else { continue };
            let split = message.split_head(EPOCH_BYTES as usize);
            let (head, body) = split.ok_or_else(|| malformed("it has no epoch"))?;
            let sent = head
                .iter()
                .rev()
                .fold(0, |sent, byte| sent << 8 | u64::from(*byte));
            ages.push((epoch as u64).saturating_sub(sent) as f64);
            world.enter(Stage::Serialise);
            known[peer] = Some(self.compressor.decompress(&body, self.n)?);
        }
        if !ages.is_empty() {
            world.note_staleness(ages.iter().sum::<f64>() / ages.len() as f64);
        }
        Ok(known)
    }

    /// Reads the queues of `peers` without taking messages.
    async fn fetch(
        &self,
        world: &mut World,
        peers: &[usize],
        epoch: usize,
    ) -> Result<Vec<(usize, Option<Payload>)>> {
        world.enter(Stage::Get);
        let job = &world.task.job;
        let channels: &Channels = &world.exchange;
        let peeks: Vec<_> = (peers.iter())
            .map(|peer| self.peek(channels, job, *peer, epoch))
            .collect();
        at_once(self.rules.downloads_at_once, peeks).await
    }

    async fn peek(
        &self,
        channels: &Channels,
        job: &Job,
        peer: usize,
        epoch: usize,
    ) -> Result<(usize, Option<Payload>)> {
        let name = self.queue_name(job, peer, epoch);
        let message = match channels.queue.peek(&name).await? {
            Some(message) if self.rules.is_by_reference(self.n)? => {
                Some(self.resolve(channels, &message).await?)
            }
            message => message,
        };
        Ok((peer, message))
    }

    /// The message with the object that it names in the place of its key.
    async fn resolve(&self, channels: &Channels, message: &Payload) -> Result<Payload> {
        let head = (message.len() - KEY_BYTES.min(message.len())) as usize;
        let split = message.split_head(head);
        let (head, key) = split.ok_or_else(|| malformed("it has no key"))?;
        let key = std::str::from_utf8(key.bytes()?).map_err(|_| malformed("its key is no text"))?;
        let object = channels.objects.get(BUCKET, key).await?;
        let object = object.ok_or_else(|| malformed("there is no object of its key"))?;
        Ok(Payload::with_head(head, object))
    }

    /// Deletes values that no peer reads any more: all peers that sent a gradient
    /// of this epoch have read those of the one before.
    async fn clear(&self, world: &World, epoch: usize) -> Result<()> {
        let (job, rank) = (&world.task.job, world.rank());
        let Some(previous) = epoch.checked_sub(1) else {
            return Ok(());
        };
        if self.rules.queue == PeerQueue::PerEpoch {
            let name = self.queue_name(job, rank, previous);
            world.exchange.queue.purge(&name).await?;
        }
        if self.rules.deletes_objects && self.rules.is_by_reference(self.n)? {
            let key = Self::own_key(job, rank, previous);
            world.exchange.objects.delete(BUCKET, &[key]).await?;
        }
        Ok(())
    }
}

fn malformed(reason: &str) -> SystemError {
    SystemError::malformed("the message of a peer", reason)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{Fidelity, testing};

    #[test]
    fn keys_are_distinct_uuids_of_the_stated_size() {
        let job = testing::job("p2p", Fidelity::Paper, 2, &serde_json::Map::new()).unwrap();
        let mut keys = std::collections::BTreeSet::new();
        for rank in 0..10 {
            for epoch in 0..10 {
                let key = object_key(&job, [0, rank, epoch]);
                assert_eq!(key.len() as u64, KEY_BYTES, "{key}");
                assert!(keys.insert(key));
            }
        }
    }
}
