//! How a worker hands over to its next invocation, and what worker 0 publishes for
//! the others after an epoch: objects beside the exchange.

use std::time::Duration;

use epochcost_channels::Payload;

use crate::mechanics::monitor::Monitor;
use crate::mechanics::polling::Purpose;
use crate::mechanics::replica::Replica;
use crate::mechanics::synchronous::{Iteration, LoopOptions};
use crate::{Outcome, Result, Stage, SystemError, Task, World};

const CHECKPOINT_BUCKET: &str = "cp-model";
const CHECKPOINT_POLL: Duration = Duration::from_millis(100);
/// Time that a worker with a time limit keeps for the hand-over,
/// beside the time of two steps.
const MARGIN: Duration = Duration::from_secs(10);

/// Durations of the steps of an invocation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    longest: Duration,
}

impl Pace {
    /// A step took so long. Whether there is time for another one.
    pub(crate) fn allows_another(&mut self, step: Duration, left: Option<Duration>) -> bool {
        self.longest = self.longest.max(step);
        left.is_none_or(|left| left >= 2 * self.longest + MARGIN)
    }
}

fn own_key(rank: usize, next: Iteration) -> String {
    format!("checkpoint_{rank}_{}_{}.pt", next.epoch, next.batch)
}

async fn put(world: &World, key: &str, body: Payload) -> Result<()> {
    let objects = &world.state.objects;
    Ok(objects.put(CHECKPOINT_BUCKET, key, body).await?)
}

/// Writes the worker's own state for its next invocation, which begins at
/// `next`: the others need not know, they wait for its next gradient.
pub(crate) async fn save_own(world: &World, replica: &Replica, next: Iteration) -> Result<()> {
    put(world, &own_key(world.rank(), next), replica.checkpoint()?).await
}

/// Takes the checkpoint of the worker's last invocation, and deletes it.
pub(crate) async fn take_own(world: &World, at: Iteration) -> Result<Payload> {
    let key = own_key(world.rank(), at);
    let objects = &world.state.objects;
    let found = objects.get(CHECKPOINT_BUCKET, &key).await?;
    let missing =
        || SystemError::data(key.clone(), "the invocation before left no such checkpoint");
    let checkpoint = found.ok_or_else(missing)?;
    objects.delete(CHECKPOINT_BUCKET, &[key]).await?;
    Ok(checkpoint)
}

/// Invokes the worker again, from `epoch` on.
pub(crate) async fn go_on(world: &World, epoch: usize, batch: Option<usize>) -> Result<Outcome> {
    let task = Task {
        epoch,
        batch,
        ..world.task.clone()
    };
    world.invoke.forget(task).await?;
    Ok(Outcome::Continued { epoch })
}

async fn awaited(world: &mut World, what: &'static str, key: &str) -> Result<Payload> {
    let waiting = world.waiting(what, CHECKPOINT_POLL, None);
    let awaited = world.await_object(Purpose::State, CHECKPOINT_BUCKET, key, waiting);
    awaited.await
}

fn monitor_key(epoch: usize) -> String {
    format!("monitor_{epoch}.json")
}

pub(crate) async fn save_monitor(world: &World, monitor: &Monitor, epoch: usize) -> Result<()> {
    let text = serde_json::to_vec(monitor)
        .map_err(|error| SystemError::malformed("what a monitor found", error.to_string()))?;
    put(world, &monitor_key(epoch), text.into()).await
}

/// Waits for the monitor that worker 0 writes after `epoch`.
pub(crate) async fn load_monitor(world: &mut World, epoch: usize) -> Result<Monitor> {
    let key = monitor_key(epoch);
    let text = awaited(world, "monitor", &key).await?;
    serde_json::from_slice(text.bytes()?)
        .map_err(|error| SystemError::malformed(key, error.to_string()))
}

/// Worker 0 follows the loss after `epoch`; all workers take over what it finds.
pub(crate) async fn follow_together(
    world: &mut World,
    monitor: &mut Option<Monitor>,
    replica: &mut Replica,
    loss: Option<f64>,
    epoch: usize,
) -> Result<()> {
    let Some(monitor) = monitor else {
        return Ok(());
    };
    if world.rank() == 0 {
        monitor.follow(loss);
        save_monitor(world, monitor, epoch).await?;
    } else {
        *monitor = load_monitor(world, epoch).await?;
    }
    replica.obey(monitor);
    Ok(())
}

/// Follows the loss after `epoch` in the one process of a job.
pub(crate) async fn follow_alone(
    world: &mut World,
    monitor: &mut Option<Monitor>,
    replica: &mut Replica,
    epoch: usize,
) -> Result<()> {
    let loss = replica.evaluate(world, epoch).await?;
    if let Some(monitor) = monitor {
        monitor.follow(loss);
        replica.obey(monitor);
    }
    Ok(())
}

fn checkpoint_key(next_epoch: usize) -> String {
    format!("checkpoint_{}.pt", next_epoch.saturating_sub(1))
}

/// Worker 0 writes a checkpoint before it re-invokes itself, inside its last
/// step so that the step's record counts it.
pub(crate) async fn save_checkpoint(
    world: &World,
    options: LoopOptions,
    replica: &Replica,
    next_epoch: usize,
) -> Result<()> {
    let is_over = next_epoch == world.task.job.epochs;
    if world.rank() != 0 || is_over || next_epoch != options.end(&world.task) {
        return Ok(());
    }
    put(world, &checkpoint_key(next_epoch), replica.checkpoint()?).await
}

/// The checkpoint that worker 0 wrote before `epoch`. The published code does
/// not wait for it, so that a worker faster than worker 0's upload fails; here
/// it is awaited.
pub(crate) async fn load_checkpoint(world: &mut World, epoch: usize) -> Result<Payload> {
    let checkpoint = awaited(world, "checkpoint", &checkpoint_key(epoch)).await?;
    world.enter(Stage::FetchDataset);
    Ok(checkpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next step may take as long as the longest so far, and the step in which the worker
    /// hands over as long again.
    #[test]
    fn time_for_two_of_the_longest_steps_is_kept_beside_the_margin() {
        let seconds = Duration::from_secs;
        let mut pace = Pace::default();
        assert!(pace.allows_another(seconds(30), Some(seconds(60) + MARGIN)));
        let short = Some(seconds(60) + MARGIN - Duration::from_nanos(1));
        assert!(!pace.allows_another(seconds(30), short));
        // A shorter step later does not shorten what is kept.
        assert!(!pace.allows_another(seconds(1), short));
        assert!(pace.allows_another(seconds(1), Some(seconds(60) + MARGIN)));
        // Without a time limit there is always time.
        assert!(pace.allows_another(seconds(900), None));
    }
}
