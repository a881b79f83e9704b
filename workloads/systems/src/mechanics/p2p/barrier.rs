//! The synchronisation queue, at which synchronous peers wait for each other.

use std::time::Duration;

use epochcost_channels::Traffic;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mechanics::traffic;
use crate::{Job, Result, Stage, World};

/// Bytes of a token: the peer's rank, u32. Peers count tokens and never read
/// them.
pub const TOKEN_BYTES: u64 = 4;

/// Number of tokens that opens the barrier of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Barrier {
    /// No barrier: a peer continues once it has all gradients.
    None,
    /// W or more.
    AtLeast,
    /// W exactly, as published: one token too many, and it never opens.
    Exactly,
}

/// Place of the barrier in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BarrierAt {
    /// Behind the exchange and before the update (Algorithm 1).
    Update,
    /// At the end of the epoch (section III-B6), as published.
    End,
}

/// Queue that holds the tokens of the barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SyncQueue {
    /// A queue of the epoch, emptied by worker 0 an epoch later.
    PerEpoch,
    /// One queue, which every peer empties after the barrier, as published.
    /// A token of the next epoch that comes before the last of them is lost,
    /// and then all wait for ever.
    Shared,
}

/// The barrier as one peer takes part in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    pub(crate) opens: Barrier,
    pub(crate) at: BarrierAt,
    pub(crate) queue: SyncQueue,
    pub(crate) before: Duration,
    pub(crate) poll: Duration,
    pub(crate) settle: Duration,
    pub(crate) wait_limit: Option<Duration>,
}

impl Gate {
    /// Says that this peer has come to this place of `epoch`, and waits until all have; nothing
    /// if the barrier stands elsewhere.
    pub(crate) async fn pass(&self, world: &mut World, at: BarrierAt, epoch: usize) -> Result<()> {
        if self.opens == Barrier::None || self.at != at {
            return Ok(());
        }
        world.enter(Stage::Wait);
        let (job, workers) = (&world.task.job, world.workers() as u64);
        let queue = &world.exchange.queue;
        // Leave a token.
        let name = self.queue_name(job, epoch);
        let token = (world.rank() as u32).to_le_bytes().to_vec();
        queue.publish(&name, token.into()).await?;
        sleep(world, self.before).await;
        // Wait until all have left theirs.
        let what = format!("{workers} peers in {name}");
        let waiting = world.waiting(what, self.poll, self.wait_limit);
        let is_open = |count| match self.opens {
            Barrier::Exactly => count == workers,
            _ => count >= workers,
        };
        world
            .await_messages(&name, workers, is_open, waiting)
            .await?;
        sleep(world, self.settle).await;
        // Empty a queue that is read no more.
        match self.queue {
            SyncQueue::Shared => queue.purge(&name).await?,
            // All that come here have left the barrier of the epoch before.
            SyncQueue::PerEpoch if world.rank() == 0 && epoch > 0 => {
                queue.purge(&self.queue_name(job, epoch - 1)).await?;
            }
            SyncQueue::PerEpoch => {}
        }
        Ok(())
    }

    fn queue_name(&self, job: &Job, epoch: usize) -> String {
        let trial = &job.trial;
        match self.queue {
            SyncQueue::PerEpoch => format!("{trial}_sync_{epoch}"),
            SyncQueue::Shared => format!("{trial}_sync"),
        }
    }

    /// Traffic of `tokens` of all peers; none without a barrier.
    pub(crate) fn traffic(&self, tokens: u64) -> Traffic {
        match self.opens {
            Barrier::None => Traffic::default(),
            _ => traffic::messages(tokens, 0, TOKEN_BYTES),
        }
    }
}

async fn sleep(world: &World, duration: Duration) {
    if !duration.is_zero() {
        world.clock.sleep(duration).await;
    }
}
