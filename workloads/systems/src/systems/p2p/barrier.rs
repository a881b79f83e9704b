//! The synchronisation queue behind an epoch.

use std::time::Duration;

use super::{Barrier, Settings, SyncQueue};
use crate::{Result, Stage, World};

/// Bytes of a token: the peer's rank, u32. Peers count tokens and never read
/// them.
pub const TOKEN_BYTES: u64 = 4;

fn queue_name(trial: &str, settings: &Settings, epoch: usize) -> String {
    match settings.sync_queue {
        SyncQueue::PerEpoch => format!("{trial}_sync_{epoch}"),
        SyncQueue::Shared => format!("{trial}_sync"),
    }
}

/// Says that this peer has ended `epoch`, and waits until all have.
pub(super) async fn synchronise(
    world: &mut World,
    settings: &Settings,
    epoch: usize,
) -> Result<()> {
    let barrier = settings.barrier();
    if barrier == Barrier::None {
        return Ok(());
    }
    world.enter(Stage::Wait);
    let (job, workers) = (&world.task.job, world.workers() as u64);
    let queue = &world.exchange.queue;
    // Leave a token.
    let name = queue_name(&job.trial, settings, epoch);
    let token = (world.rank() as u32).to_le_bytes().to_vec();
    queue.publish(&name, token.into()).await?;
    sleep(world, settings.barrier_before_ms).await;
    // Wait until all have left theirs.
    let interval = Duration::from_millis(settings.barrier_poll_ms);
    let limit = settings.wait_limit_s.map(Duration::from_secs);
    let waiting = world.waiting(format!("{workers} peers in {name}"), interval, limit);
    let is_open = |count| match barrier {
        Barrier::Exactly => count == workers,
        _ => count >= workers,
    };
    world
        .await_messages(&name, workers, is_open, waiting)
        .await?;
    sleep(world, settings.barrier_settle_ms).await;
    // Empty a queue that is read no more.
    match settings.sync_queue {
        SyncQueue::Shared => queue.purge(&name).await?,
        // All that come here have left the barrier of the epoch before.
        SyncQueue::PerEpoch if world.rank() == 0 && epoch > 0 => {
            let previous = queue_name(&job.trial, settings, epoch - 1);
            queue.purge(&previous).await?;
        }
        SyncQueue::PerEpoch => {}
    }
    Ok(())
}

async fn sleep(world: &World, milliseconds: u64) {
    if milliseconds > 0 {
        let duration = Duration::from_millis(milliseconds);
        world.clock.sleep(duration).await;
    }
}
