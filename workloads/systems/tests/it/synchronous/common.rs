//! Jobs of the synchronous systems, their batches, and what they leave.

use std::ops::Range;

use epochcost_channels::Payload;
use epochcost_kernels::hash;
use epochcost_systems::testing::{self, Trial};
use epochcost_systems::{Channels, Job};

pub(crate) use crate::support::{job_of as job, *};

pub(crate) const SYSTEMS: [&str; 3] = ["allreduce", "scatterreduce", "gpu_baseline"];
pub(crate) const WORKERS: [usize; 5] = [1, 2, 3, 4, 8];

/// Mini-batch `index` of the shard of worker `rank`, shuffled by seed, rank and epoch.
pub(crate) fn shard_batch(job: &Job, rank: usize, epoch: usize, index: usize) -> Payload {
    let share = job.batches_per_worker * job.batch_size;
    shuffled(job, rank * share..(rank + 1) * share, rank, epoch, index)
}

/// Mini-batch `index` of all records, shuffled as worker 0 does.
pub(crate) fn whole_batch(job: &Job, epoch: usize, index: usize) -> Payload {
    let samples = job.workers * job.batches_per_worker * job.batch_size;
    shuffled(job, 0..samples, 0, epoch, index)
}

fn shuffled(job: &Job, of: Range<usize>, stream: usize, epoch: usize, index: usize) -> Payload {
    let seed = hash::mix(hash::mix(job.seed, stream as u64), epoch as u64);
    let order = hash::permutation(of.len() as u32, seed);
    let wanted = &order[index * job.batch_size..][..job.batch_size];
    let record = |&sample: &u32| testing::records(job, of.start + sample as usize, 1);
    let records: Vec<u8> = wanted.iter().flat_map(record).collect();
    records.into()
}

/// The first thousand keys in a bucket.
pub(crate) async fn keys(channels: &Channels, bucket: &str) -> Vec<String> {
    let listed = channels.objects.list(bucket, "", None).await;
    listed.unwrap().keys.to_vec()
}

/// Steps of every job here: three epochs of three mini-batches.
pub(crate) const STEPS: u64 = 9;

pub(crate) fn losses(trial: &Trial) -> Vec<f64> {
    let steps = by_rank(trial);
    steps.iter().map(|step| step.loss.unwrap()).collect()
}

pub(crate) fn deletes(trial: &Trial) -> u64 {
    let steps = trial.steps().into_iter();
    steps.map(|s| s.traffic.exchange.total().deletes).sum()
}
