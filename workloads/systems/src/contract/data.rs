//! How a dataset lies in the object store, and how workers read it.

use epochcost_channels::Payload;
use epochcost_datasets::partition;
use epochcost_kernels::chunk::chunk_range;
use epochcost_kernels::hash;

use crate::{Batch, Job, Result, SystemError, World};

/// The bucket that holds the dataset.
pub const DATASET_BUCKET: &str = "dataset";
/// The whole training split.
pub const TRAIN_KEY: &str = "train";
/// The validation split.
pub const VALIDATION_KEY: &str = "validation";
/// The test split.
pub const TEST_KEY: &str = "test";

/// Objects that a system reads its training data from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataLayout {
    /// One object per worker: its share of the data (LambdaML).
    Shards,
    /// One object per mini-batch, cut before training (SPIRT, MLLess).
    Minibatches,
    /// One object with everything; every worker takes all of it.
    Whole,
}

impl DataLayout {
    /// Returns the layout of workers that each shuffle the `whole` dataset, or their share.
    pub(crate) const fn shuffled(whole: bool) -> Self {
        if whole { Self::Whole } else { Self::Shards }
    }
}

/// Key of worker `rank`'s shard.
pub fn shard_key(rank: usize) -> String {
    format!("training_{rank}")
}

/// Key of the pre-cut mini-batch `batch` of worker `rank`.
pub fn minibatch_key(workers: usize, batch_size: usize, rank: usize, batch: usize) -> String {
    format!("worker{workers}/batch{batch_size}/w-{rank}_{batch}")
}

/// Number of pre-cut mini-batches of worker `rank`: all that its share needs, of which an
/// epoch uses `batches_per_worker`.
pub fn minibatches_of(job: &Job, rank: usize) -> usize {
    let share = partition::shard_len(job.data.train_samples, job.workers, rank);
    partition::covering_batches(share, job.batch_size).max(job.batches_per_worker)
}

/// Number of the pre-cut mini-batch that is the `batch`-th of `epoch` for worker `owner`:
/// epochs go through all of them in turn.
pub fn minibatch_in(job: &Job, owner: usize, epoch: usize, batch: usize) -> usize {
    (epoch * job.batches_per_worker + batch) % minibatches_of(job, owner).max(1)
}

/// Records fetched once, from which batches are drawn in an order shuffled
/// for every pass over them.
pub(crate) struct Shard {
    records: Payload,
    record_bytes: usize,
    samples: usize,
}

impl Shard {
    /// Fetches what `layout` gives to this worker.
    pub(crate) async fn fetch(world: &World, layout: DataLayout) -> Result<Self> {
        let key = match layout {
            DataLayout::Whole => TRAIN_KEY.to_owned(),
            _ => shard_key(world.rank()),
        };
        let records = fetch(world, &key).await?;
        let record_bytes = world.task.job.data.record_bytes;
        let samples = records.len() as usize / record_bytes;
        let needed = world.task.job.samples_per_worker();
        if samples < needed {
            let reason = format!("it holds {samples} samples, an epoch needs {needed}");
            return Err(SystemError::data(key, reason));
        }
        Ok(Self {
            records,
            record_bytes,
            samples,
        })
    }

    /// The order of `epoch`, which visits the mini-batches of `workers` workers: epochs go through
    /// the records in passes, each shuffled by (the job's seed, `stream`, the pass).
    pub(crate) fn batches(
        &self,
        world: &World,
        stream: u64,
        epoch: usize,
        workers: usize,
    ) -> Order {
        let job = &world.task.job;
        let visited = workers * job.samples_per_worker();
        let order = match &self.records {
            Payload::Phantom { .. } | Payload::Headed { .. } => Vec::new(),
            Payload::Bytes(_) => {
                // A shard holds far fewer samples than u32 counts; the rest is never reached.
                let samples = u32::try_from(self.samples).unwrap_or(u32::MAX);
                let seed = hash::mix(job.seed, stream);
                partition::epoch_positions(samples as usize, visited, epoch, |pass| {
                    hash::permutation(samples, hash::mix(seed, pass as u64))
                })
            }
        };
        Order {
            order,
            batch_size: job.batch_size,
            visited,
            rank: world.rank(),
            epoch,
        }
    }

    /// The records of one mini-batch.
    pub(crate) fn batch(&self, order: &Order, index: usize) -> Result<Batch> {
        let start = index * order.batch_size;
        let end = order.visited.min(start + order.batch_size);
        let records = match &self.records {
            Payload::Phantom { .. } | Payload::Headed { .. } => Payload::Phantom {
                bytes: (end.saturating_sub(start) * self.record_bytes) as u64,
            },
            Payload::Bytes(bytes) => {
                let missing = || {
                    let reason = format!("it holds too few samples for batch {index}");
                    SystemError::data(shard_key(order.rank), reason)
                };
                let wanted = order.order.get(start..end).ok_or_else(missing)?;
                let mut records = Vec::with_capacity(wanted.len() * self.record_bytes);
                for &sample in wanted {
                    let at = sample as usize * self.record_bytes;
                    records.extend_from_slice(&bytes[at..at + self.record_bytes]);
                }
                records.into()
            }
        };
        Ok(Batch {
            rank: order.rank,
            epoch: order.epoch,
            index,
            records,
        })
    }
}

/// The order in which an epoch visits a shard.
pub(crate) struct Order {
    order: Vec<u32>,
    /// Samples that the epoch visits.
    visited: usize,
    batch_size: usize,
    rank: usize,
    epoch: usize,
}

/// Fetches the pre-cut mini-batch that is the `batch`-th of `epoch` for worker `owner`.
pub(crate) async fn minibatch(
    world: &World,
    owner: usize,
    epoch: usize,
    batch: usize,
) -> Result<Batch> {
    let job = &world.task.job;
    let number = minibatch_in(job, owner, epoch, batch);
    let key = minibatch_key(job.workers, job.batch_size, owner, number);
    let records = fetch(world, &key).await?;
    Ok(Batch {
        rank: owner,
        epoch,
        index: batch,
        records,
    })
}

/// Fetches the test split.
pub(crate) async fn test_split(world: &World, epoch: usize) -> Result<Batch> {
    split(world, epoch, TEST_KEY).await
}

/// Fetches the validation split, if the job has one.
pub(crate) async fn validation_split(world: &World, epoch: usize) -> Result<Option<Batch>> {
    if world.task.job.data.validation_samples == 0 {
        return Ok(None);
    }
    split(world, epoch, VALIDATION_KEY).await.map(Some)
}

/// Fetches this worker's share of the validation split: one of W contiguous parts, as even
/// as they can be; `None` if it is empty.
pub(crate) async fn validation_share(world: &World, epoch: usize) -> Result<Option<Batch>> {
    let data = &world.task.job.data;
    let share = chunk_range(data.validation_samples, world.workers(), world.rank());
    if share.is_empty() {
        return Ok(None);
    }
    let size = data.record_bytes as u64;
    let range = share.start as u64 * size..share.end as u64 * size;
    let objects = &world.dataset.objects;
    let getting = objects.get_range(DATASET_BUCKET, VALIDATION_KEY, range);
    let records = getting.await?.ok_or_else(|| missing(VALIDATION_KEY))?;
    Ok(Some(Batch {
        rank: world.rank(),
        epoch,
        index: 1,
        records,
    }))
}

async fn split(world: &World, epoch: usize, key: &str) -> Result<Batch> {
    Ok(Batch {
        rank: world.rank(),
        epoch,
        index: usize::from(key == VALIDATION_KEY),
        records: fetch(world, key).await?,
    })
}

async fn fetch(world: &World, key: &str) -> Result<Payload> {
    let found = world.dataset.objects.get(DATASET_BUCKET, key).await?;
    found.ok_or_else(|| missing(key))
}

fn missing(key: &str) -> SystemError {
    SystemError::data(key, "there is no such object")
}
