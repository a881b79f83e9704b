//! How a dataset lies in the object store, and how workers read it.

use epochcost_channels::Payload;
use epochcost_kernels::hash;

use crate::{Batch, Result, SystemError, World};

/// The bucket that holds the dataset.
pub const DATASET_BUCKET: &str = "dataset";
/// The whole training split.
pub const TRAIN_KEY: &str = "train";
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

/// Key of worker `rank`'s shard.
pub fn shard_key(rank: usize) -> String {
    format!("training_{rank}")
}

/// Key of the pre-cut mini-batch `batch` of worker `rank`.
pub fn minibatch_key(workers: usize, batch_size: usize, rank: usize, batch: usize) -> String {
    format!("worker{workers}/batch{batch_size}/w-{rank}_{batch}")
}

/// Records fetched once, from which batches are drawn in an order shuffled
/// every epoch.
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
        let needed = world.task.job.batch_size * world.task.job.batches_per_worker;
        if samples < needed {
            return Err(SystemError::Data {
                key,
                reason: format!("it holds {samples} samples, an epoch needs {needed}"),
            });
        }
        Ok(Self {
            records,
            record_bytes,
            samples,
        })
    }

    /// Mini-batch `index` of `epoch`, shuffled by (`seed`, `stream`, `epoch`).
    pub(crate) fn batches(&self, world: &World, seed: u64, stream: u64, epoch: usize) -> Order {
        let order = match &self.records {
            Payload::Phantom { .. } | Payload::Headed { .. } => Vec::new(),
            Payload::Bytes(_) => {
                // A shard holds far fewer samples than u32 counts; the rest is never reached.
                let samples = u32::try_from(self.samples).unwrap_or(u32::MAX);
                hash::permutation(samples, hash::mix(hash::mix(seed, stream), epoch as u64))
            }
        };
        Order {
            order,
            batch_size: world.task.job.batch_size,
            rank: world.rank(),
            epoch,
        }
    }

    /// The records of one mini-batch.
    pub(crate) fn batch(&self, order: &Order, index: usize) -> Result<Batch> {
        let records = match &self.records {
            Payload::Phantom { .. } | Payload::Headed { .. } => Payload::Phantom {
                bytes: (order.batch_size * self.record_bytes) as u64,
            },
            Payload::Bytes(bytes) => {
                let start = index * order.batch_size;
                let wanted = order
                    .order
                    .get(start..start + order.batch_size)
                    .ok_or_else(|| SystemError::Data {
                        key: shard_key(order.rank),
                        reason: format!("it holds too few samples for batch {index}"),
                    })?;
                let mut records = Vec::with_capacity(order.batch_size * self.record_bytes);
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
    batch_size: usize,
    rank: usize,
    epoch: usize,
}

/// Fetches a pre-cut mini-batch.
pub(crate) async fn minibatch(world: &World, owner: usize, batch: usize) -> Result<Batch> {
    let job = &world.task.job;
    let key = minibatch_key(job.workers, job.batch_size, owner, batch);
    let records = fetch(world, &key).await?;
    Ok(Batch {
        rank: owner,
        epoch: world.task.epoch,
        index: batch,
        records,
    })
}

/// Fetches the test split.
pub(crate) async fn test_split(world: &World, epoch: usize) -> Result<Batch> {
    let records = fetch(world, TEST_KEY).await?;
    Ok(Batch {
        rank: world.rank(),
        epoch,
        index: 0,
        records,
    })
}

async fn fetch(world: &World, key: &str) -> Result<Payload> {
    world
        .dataset
        .objects
        .get(DATASET_BUCKET, key)
        .await?
        .ok_or_else(|| SystemError::Data {
            key: key.to_owned(),
            reason: "there is no such object".into(),
        })
}
