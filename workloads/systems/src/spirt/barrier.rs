use std::time::Duration;

use super::{Barrier, Settings, SyncQueue};
use crate::{Result, World};

/// Bytes of a synchronisation message.
pub const TOKEN_BYTES: u64 = 9;

/// Longest single wait for a message; another follows.
const SLICE: Duration = Duration::from_secs(10);

/// What hands the announcements of an epoch to every peer.
fn pushed_exchange(trial: &str, epoch: usize) -> String {
    format!("{trial}_sync_{epoch}")
}

/// A peer's own queue of announcements.
fn pushed_queue(exchange: &str, rank: usize) -> String {
    format!("{exchange}_peer{rank}")
}

fn queue_name(trial: &str, settings: &Settings, epoch: usize) -> String {
    match settings.sync_queue {
        SyncQueue::PerEpoch => format!("{trial}_sync_{epoch}"),
        SyncQueue::Shared => format!("{trial}_sync"),
    }
}

/// Little-endian rank (u32) and epoch (u32), and whether this is the peer's
/// last. Peers count tokens and never read them.
fn token(rank: usize, epoch: usize, terminated: bool) -> Vec<u8> {
    let mut token = Vec::with_capacity(TOKEN_BYTES as usize);
    token.extend_from_slice(&(rank as u32).to_le_bytes());
    token.extend_from_slice(&(epoch as u32).to_le_bytes());
    token.push(u8::from(terminated));
    token
}

/// Creates what the barrier of `epoch` needs before anybody may announce
/// himself there: with [`Barrier::Push`], this peer's own queue.
pub(super) async fn prepare(world: &World, settings: &Settings, epoch: usize) -> Result<()> {
    if settings.barrier != Barrier::Push {
        return Ok(());
    }
    let exchange = pushed_exchange(&world.task.job.trial, epoch);
    let queue = pushed_queue(&exchange, world.rank());
    Ok(world.exchange.queue.bind(&exchange, &queue).await?)
}

/// Announces this peer and waits for all others.
pub(super) async fn synchronise(world: &World, settings: &Settings) -> Result<()> {
    match settings.barrier {
        Barrier::AtLeast | Barrier::Exactly => poll(world, settings).await?,
        Barrier::Push => push(world, settings).await?,
    }
    settle(world, settings).await;
    if settings.barrier != Barrier::Push && world.rank() == 0 {
        clean_up(world, settings).await?;
    }
    Ok(())
}

/// This peer's announcement in `epoch`.
fn announcement(world: &World) -> Vec<u8> {
    let (epoch, epochs) = (world.task.epoch, world.task.job.epochs);
    token(world.rank(), epoch, epoch + 1 == epochs)
}

/// With a queue an epoch nobody can miss it: tokens are never taken, the queue
/// only grows. It is purged when the barrier of the next epoch opens, for a
/// peer announces itself there only after it has left this one.
async fn poll(world: &World, settings: &Settings) -> Result<()> {
    let workers = world.workers() as u64;
    let queue = &world.exchange.queue;
    let name = queue_name(&world.task.job.trial, settings, world.task.epoch);
    queue.publish(&name, announcement(world).into()).await?;
    let interval = Duration::from_millis(settings.poll_interval_ms);
    let waiting = world.waiting(format!("{workers} peers in {name}"), interval, None);
    let is_open = |count| match settings.barrier {
        Barrier::Exactly => count == workers,
        _ => count >= workers,
    };
    world.await_messages(&name, workers, is_open, waiting).await
}

/// Every peer has a queue of its own for every epoch, and takes one message of
/// each peer from it. The queue of the next epoch is there before this peer
/// announces itself in this one, so before anybody can announce himself there.
async fn push(world: &World, settings: &Settings) -> Result<()> {
    let (job, epoch) = (&world.task.job, world.task.epoch);
    if epoch + 1 < job.epochs {
        prepare(world, settings, epoch + 1).await?;
    }
    let exchange = pushed_exchange(&job.trial, epoch);
    let name = pushed_queue(&exchange, world.rank());
    let queue = &world.exchange.queue;
    queue
        .publish_fanout(&exchange, announcement(world).into())
        .await?;
    for _ in 0..world.workers() {
        while queue.consume(&name, SLICE).await?.is_none() {}
    }
    Ok(())
}

async fn settle(world: &World, settings: &Settings) {
    if settings.settle_ms > 0 {
        let time = Duration::from_millis(settings.settle_ms);
        world.clock.sleep(time).await;
    }
}

async fn clean_up(world: &World, settings: &Settings) -> Result<()> {
    let (trial, epoch) = (&world.task.job.trial, world.task.epoch);
    let past = match settings.sync_queue {
        SyncQueue::Shared => epoch,
        SyncQueue::PerEpoch if epoch > 0 => epoch - 1,
        SyncQueue::PerEpoch => return Ok(()),
    };
    let name = queue_name(trial, settings, past);
    Ok(world.exchange.queue.purge(&name).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_the_stated_size() {
        assert_eq!(token(3, 7, true).len() as u64, TOKEN_BYTES);
        assert_eq!(token(3, 7, true), [3, 0, 0, 0, 7, 0, 0, 0, 1]);
    }
}
