//! AllReduce and ScatterReduce over tensor stores: the store reduces, and
//! notices announce when there is something to reduce or to get.
//!
//! Keys hold the value of one step and are overwritten by the next. No worker
//! stores for a step before having got everything of the step before, so no
//! message of a step can come before one of the step before, either.

use std::collections::BTreeSet;

use epochcost_channels::{Payload, TensorStore, Traffic};
use epochcost_kernels::chunk::chunk_range;

use crate::mechanics::polling::next_message;
use crate::mechanics::synchronous::Iteration;
use crate::mechanics::traffic;
use crate::mechanics::transfers::{TRANSFERS_AT_ONCE, at_once};
use crate::{Result, Stage, SystemError, Vector, World};

/// Bytes of a notice of a value in a store, a little-endian u64: epoch, mini-batch and the worker
/// that sends it, in 20, 24 and 20 bits.
pub const NOTICE_BYTES: u64 = 8;

fn notice(at: Iteration, rank: usize) -> [u8; NOTICE_BYTES as usize] {
    let word = (at.epoch as u64) << 44 | (at.batch as u64) << 20 | rank as u64;
    word.to_le_bytes()
}

/// Returns the step of a notice, as a number that grows, and its sender.
fn read(message: &Payload) -> Result<(u64, u64)> {
    let bytes = message.bytes()?.as_ref().try_into();
    let word = u64::from_le_bytes(bytes.map_err(|_| malformed("it is no notice".into()))?);
    Ok((word >> 20, word & 0xF_FFFF))
}

fn malformed(reason: String) -> SystemError {
    SystemError::malformed("a message between workers", reason)
}

/// Returns the queue of notices of `what` to worker `rank`.
fn queue_name(world: &World, what: &str, rank: usize) -> String {
    format!("{}_{what}_{rank}", world.task.job.trial)
}

fn others(world: &World) -> impl Iterator<Item = usize> + use<> {
    let rank = world.rank();
    (0..world.workers()).filter(move |other| *other != rank)
}

async fn notify(
    world: &World,
    what: &str,
    ranks: impl Iterator<Item = usize> + Send,
    at: Iteration,
) -> Result<()> {
    let notice = notice(at, world.rank()).to_vec();
    let sent = ranks.map(|rank| {
        let (name, notice) = (queue_name(world, what, rank), notice.clone());
        async move { Ok(world.exchange.queue.publish(&name, notice.into()).await?) }
    });
    at_once(TRANSFERS_AT_ONCE, sent).await.map(|_| ())
}

/// Waits for the notices of `what` from `count` workers. A notice that comes again, in this step
/// or a later one, is passed over.
async fn hear(world: &World, what: &str, count: usize, at: Iteration) -> Result<()> {
    let name = queue_name(world, what, world.rank());
    let (now, _) = read(&notice(at, 0).to_vec().into())?;
    let mut heard = BTreeSet::new();
    while heard.len() < count {
        let message = next_message(&world.exchange.queue, &name).await?;
        let (step, from) = read(&message)?;
        if step > now {
            let (epoch, batch) = (at.epoch, at.batch);
            let reason = format!("it is of a step behind epoch {epoch}, mini-batch {batch}");
            return Err(malformed(reason));
        }
        if step == now {
            heard.insert(from);
        }
    }
    Ok(())
}

async fn get(store: TensorStore, key: &str) -> Result<Vector> {
    Vector::decode(&store.expect(key).await?)
}

async fn set(store: TensorStore, key: String, body: Payload) -> Result<()> {
    Ok(store.set(&key, body).await?)
}

/// The mean of all workers' gradients, taken by one store in rank order.
pub(crate) async fn all_reduce(
    world: &mut World,
    gradient: &Vector,
    at: Iteration,
) -> Result<Vector> {
    let (rank, workers) = (world.rank(), world.workers());
    let store = world.exchange.store(0)?;
    let key = |rank: usize| format!("gradient_{rank}");
    world.enter(Stage::Serialise);
    let body = gradient.encode();
    world.enter(Stage::Put);
    store.set(&key(rank), body).await?;
    if rank == 0 {
        world.enter(Stage::Wait);
        hear(world, "gradient", workers - 1, at).await?;
        world.enter(Stage::Aggregate);
        let sources: Vec<String> = (0..workers).map(key).collect();
        store.mean("merged", &sources).await?;
        world.enter(Stage::Put);
        notify(world, "merged", others(world), at).await?;
    } else {
        notify(world, "gradient", std::iter::once(0), at).await?;
        world.enter(Stage::Wait);
        hear(world, "merged", 1, at).await?;
    }
    world.enter(Stage::Get);
    get(store, "merged").await
}

/// The mean of all workers' gradients; that of chunk r is asked for by worker
/// r, in store r modulo `stores`, in rank order.
pub(crate) async fn scatter_reduce(
    world: &mut World,
    gradient: &Vector,
    at: Iteration,
    stores: usize,
) -> Result<Vector> {
    let (rank, workers) = (world.rank(), world.workers());
    let stores: Vec<_> = (0..stores.clamp(1, workers))
        .map(|store| world.exchange.store(store))
        .collect::<Result<_>>()?;
    let store = |owner: usize| stores[owner % stores.len()].clone();
    // Where there are several stores, each worker begins with another.
    let first = if stores.len() > 1 { rank } else { 0 };
    let owners = || (0..workers).map(move |turn| (first + turn) % workers);
    let chunk_key = |owner: usize, sender: usize| format!("chunk_{owner}_{sender}");
    let merged_key = |owner: usize| format!("merged_{owner}");
    // Store all chunks and notify their owners.
    world.enter(Stage::Serialise);
    let mut bodies = Vec::with_capacity(workers);
    for owner in owners() {
        let chunk = gradient.slice(chunk_range(gradient.len(), workers, owner))?;
        bodies.push((store(owner), chunk_key(owner, rank), chunk.encode()));
    }
    world.enter(Stage::Put);
    let stored = bodies
        .into_iter()
        .map(|(store, key, body)| set(store, key, body));
    at_once(TRANSFERS_AT_ONCE, stored).await?;
    notify(world, "chunk", others(world), at).await?;
    // Reduce the own chunk in its store, and notify the others.
    world.enter(Stage::Wait);
    hear(world, "chunk", workers - 1, at).await?;
    world.enter(Stage::Aggregate);
    let sources: Vec<String> = (0..workers).map(|sender| chunk_key(rank, sender)).collect();
    store(rank).mean(&merged_key(rank), &sources).await?;
    world.enter(Stage::Put);
    notify(world, "merged", others(world), at).await?;
    // Get all merged chunks.
    world.enter(Stage::Wait);
    hear(world, "merged", workers - 1, at).await?;
    world.enter(Stage::Get);
    let got = owners().map(|owner| {
        let (store, key) = (store(owner), merged_key(owner));
        async move { get(store, &key).await }
    });
    let mut merged = at_once(TRANSFERS_AT_ONCE, got).await?;
    merged.rotate_right(first);
    world.enter(Stage::Aggregate);
    Ok(Vector::concat(&merged))
}

/// The traffic of `steps` steps, each of so many puts, gets, commands in the
/// store and messages, `bytes` up and `bytes` down beside the messages.
pub(crate) fn traffic(
    steps: u64,
    [puts, gets, in_store, messages]: [u64; 4],
    bytes: u64,
) -> Traffic {
    let values = Traffic {
        puts,
        gets,
        in_store,
        bytes_up: bytes,
        bytes_down: bytes,
        ..Traffic::default()
    };
    traffic::sum([values, traffic::messages(messages, messages, NOTICE_BYTES)]).times(steps)
}
