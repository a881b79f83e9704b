use super::message::Message;
use super::{supervisor_queue, worker_queue};
use crate::mechanics::polling;
use crate::{Result, Stage, SystemError, World};

/// The next message of `queue`, however long it takes.
pub(super) async fn next_message(world: &World, queue: &str) -> Result<Message> {
    let payload = polling::next_message(world.exchange.queue.as_ref(), queue).await?;
    Message::decode(&payload, world.workers())
}

/// Binds the workers' queues, lets them start, and opens the barrier of each
/// step once all workers have reported.
pub(super) async fn run(world: &mut World) -> Result<()> {
    let workers = world.workers();
    let (epochs, batches) = (world.task.job.epochs, world.task.job.batches_per_worker);
    let trial = world.task.job.trial.clone();
    for rank in 0..workers {
        world
            .exchange
            .queue
            .bind(&trial, &worker_queue(&trial, rank))
            .await?;
    }
    let start = Message::Start.encode(workers);
    world.exchange.queue.publish_fanout(&trial, start).await?;
    let steps = (0..epochs).flat_map(|epoch| (0..batches).map(move |batch| (epoch, batch)));
    for (step, (epoch, batch)) in (0_u64..).zip(steps) {
        world.at(epoch, Some(batch));
        world.enter(Stage::Wait);
        let senders = reports(world, step).await?;
        world.enter(Stage::Put);
        let barrier = Message::Barrier { step, senders }.encode(workers);
        world.exchange.queue.publish_fanout(&trial, barrier).await?;
        world.end_step();
    }
    Ok(())
}

/// The ranks that have an update in `step`, once all workers have reported.
///
/// A report of another step would mean that a worker passed a closed barrier.
async fn reports(world: &World, step: u64) -> Result<Vec<usize>> {
    let queue = supervisor_queue(&world.task.job.trial);
    let mut has_update: Vec<Option<bool>> = vec![None; world.workers()];
    while has_update.contains(&None) {
        match next_message(world, &queue).await? {
            Message::Report {
                rank,
                step: at,
                has_update: sent,
                ..
            } if at == step && has_update[rank].is_none() => {
                has_update[rank] = Some(sent);
            }
            other => {
                return Err(SystemError::Malformed {
                    what: format!("a message to the supervisor in step {step}"),
                    reason: format!("{other:?} was not expected"),
                });
            }
        }
    }
    Ok((0..world.workers())
        .filter(|rank| has_update[*rank] == Some(true))
        .collect())
}
