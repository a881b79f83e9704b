use std::collections::BTreeSet;
use std::time::Duration;

use epochcost_channels::Payload;

use super::{Barrier, BarrierBy, Settings, SyncQueue, membership};
use crate::mechanics::polling;
use crate::mechanics::transfers::at_once;
use crate::mechanics::wire::Writer;
use crate::{Result, World};

/// Bytes of a synchronisation message.
pub const TOKEN_BYTES: u64 = 9;
/// Bytes of the sender's rank, which a token begins with.
const RANK_BYTES: usize = 4;

fn queue_name(trial: &str, settings: &Settings, round: usize) -> String {
    match settings.sync_queue {
        SyncQueue::PerEpoch => format!("{trial}_sync_{round}"),
        SyncQueue::Shared => format!("{trial}_sync"),
    }
}

/// Little-endian rank (u32) and number of the round (u32), and whether this is the peer's
/// last. Peers that poll count tokens and never read them.
fn token(rank: usize, round: usize, terminated: bool) -> Payload {
    let numbers = Writer::default().number(rank).number(round);
    numbers.bytes(&[u8::from(terminated)]).into()
}

/// Returns the name of the queue on which `peer` receives messages of a round's barrier.
fn inbox_name(trial: &str, round: usize, peer: usize) -> String {
    format!("{trial}_sync_{round}_{peer}")
}

/// Announces this peer and waits for all others.
pub(super) async fn synchronise(world: &World, settings: &Settings) -> Result<()> {
    if settings.membership {
        return membership::decide(world, settings).await;
    }
    match settings.barrier_by {
        BarrierBy::Poll => synchronise_by_polling(world, settings).await,
        BarrierBy::Push => synchronise_by_messages(world, settings).await,
    }
}

/// Tells every other peer, and hears from every other peer. A queue belongs to
/// one peer and one round, so that order does not matter and none is purged.
async fn synchronise_by_messages(world: &World, settings: &Settings) -> Result<()> {
    let job = &world.task.job;
    let (rank, workers) = (world.rank(), world.workers());
    let round = settings.round_number(&world.task);
    let queue = &world.exchange.queue;
    let terminated = world.task.next_round(settings.rounds(job)).is_none();
    let others = (0..workers).filter(|peer| *peer != rank);
    let sent = others.map(|peer| async move {
        let name = inbox_name(&job.trial, round, peer);
        let token = token(rank, round, terminated);
        Ok(queue.publish(&name, token).await?)
    });
    at_once(settings.transfers_at_once, sent).await?;
    let name = inbox_name(&job.trial, round, rank);
    // By their senders: a message may come twice.
    let mut heard = BTreeSet::new();
    while heard.len() + 1 < workers {
        let message = polling::next_message(queue, &name).await?;
        let sender = ..RANK_BYTES.min(message.len() as usize);
        heard.insert(message.bytes()?.slice(sender));
    }
    Ok(())
}

/// Waits by polling. With a queue per round no peer can miss the barrier: tokens
/// are never taken, the queue
/// only grows. It is purged when the barrier of the next round opens, for a
/// peer announces itself there only after it has left this one.
async fn synchronise_by_polling(world: &World, settings: &Settings) -> Result<()> {
    let job = &world.task.job;
    let round = settings.round_number(&world.task);
    let workers = world.workers() as u64;
    let queue = &world.exchange.queue;
    let name = queue_name(&job.trial, settings, round);

    // Announce this peer.
    let terminated = world.task.next_round(settings.rounds(job)).is_none();
    let token = token(world.rank(), round, terminated);
    queue.publish(&name, token).await?;
    // Wait until all peers are announced.
    let interval = Duration::from_millis(settings.poll_interval_ms);
    let waiting = world.waiting(format!("{workers} peers in {name}"), interval, None);
    let is_open = |count| match settings.barrier {
        Barrier::AtLeast => count >= workers,
        Barrier::Exactly => count == workers,
    };
    let awaited = world.await_messages(&name, workers, is_open, waiting);
    awaited.await?;
    if settings.settle_ms > 0 {
        let settling = Duration::from_millis(settings.settle_ms);
        world.clock.sleep(settling).await;
    }
    // Rank 0 empties a queue that all peers have left.
    if world.rank() == 0 {
        match settings.sync_queue {
            SyncQueue::Shared => queue.purge(&name).await?,
            SyncQueue::PerEpoch if round > 0 => {
                let last = queue_name(&job.trial, settings, round - 1);
                queue.purge(&last).await?;
            }
            SyncQueue::PerEpoch => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn tokens_have_the_stated_size() {
        let token = token(3, 7, true);
        assert_eq!(token.len(), TOKEN_BYTES);
        assert_eq!(token.bytes().unwrap()[..], [3, 0, 0, 0, 7, 0, 0, 0, 1]);
    }
}
