//! A dataset as objects, cut as a system wants it.

use std::ops::Range;

use bytes::Bytes;
use epochcost_channels::Payload;
use epochcost_datasets::partition;

use crate::{
    DataLayout, Job, Result, SystemError, TEST_KEY, TRAIN_KEY, VALIDATION_KEY, minibatch_key,
    shard_key,
};

/// The objects of the dataset bucket, from the records of both splits of the dataset. The
/// validation split is the end of the training split.
///
/// # Errors
/// [`SystemError::Data`] when the job wants more samples than there are.
pub fn dataset_objects(
    job: &Job,
    layout: DataLayout,
    train: &Bytes,
    test: &Bytes,
) -> Result<Vec<(String, Bytes)>> {
    let (size, plan) = (job.data.record_bytes, &job.data);
    let all = plan.train_samples + plan.validation_samples;
    let mut train = first(train, all, size, TRAIN_KEY)?;
    let validation = train.split_off(plan.train_samples * size);
    let test = first(test, plan.test_samples, size, TEST_KEY)?;
    let shards = match layout {
        DataLayout::Whole => Vec::new(),
        _ => partition::shards(plan.train_samples, job.workers, job.seed),
    };
    let part = |rank: usize, range: Range<usize>| {
        let shard: &[u32] = &shards[rank];
        let samples = range.map(|place| shard[place % shard.len()]);
        gather(&train, size, samples)
    };
    let whole = [test, validation, train.clone()];
    Ok(objects(job, layout, whole, part))
}

/// Stand-ins of the same objects' sizes: no sample is dealt out.
pub fn phantom_objects(job: &Job, layout: DataLayout) -> Vec<(String, Payload)> {
    let phantom = |samples: usize| Payload::Phantom {
        bytes: (samples * job.data.record_bytes) as u64,
    };
    let plan = &job.data;
    let whole = [
        plan.test_samples,
        plan.validation_samples,
        plan.train_samples,
    ];
    objects(job, layout, whole.map(phantom), |_, range| {
        phantom(range.len())
    })
}

/// Returns the objects of the test split, of the validation split, if there is one, and of the
/// training split. `part` makes one that holds the samples at these places of a worker's share; behind
/// the last, places begin anew.
fn objects<O>(
    job: &Job,
    layout: DataLayout,
    [test, validation, train]: [O; 3],
    part: impl Fn(usize, Range<usize>) -> O,
) -> Vec<(String, O)> {
    let mut objects = vec![(TEST_KEY.to_owned(), test)];
    if job.data.validation_samples > 0 {
        objects.push((VALIDATION_KEY.to_owned(), validation));
    }
    if layout == DataLayout::Whole {
        objects.push((TRAIN_KEY.to_owned(), train));
        return objects;
    }
    for rank in 0..job.workers {
        let share = partition::shard_len(job.data.train_samples, job.workers, rank);
        if layout == DataLayout::Shards {
            objects.push((shard_key(rank), part(rank, 0..share)));
            continue;
        }
        for batch in 0..partition::covering_batches(share, job.batch_size) {
            let start = batch * job.batch_size;
            let key = minibatch_key(job.workers, job.batch_size, rank, batch);
            objects.push((key, part(rank, start..start + job.samples_of(batch))));
        }
    }
    objects
}

fn first(records: &Bytes, samples: usize, record_bytes: usize, key: &str) -> Result<Bytes> {
    let wanted = samples * record_bytes;
    if records.len() < wanted {
        return Err(SystemError::data(
            key,
            format!(
                "the job wants {samples} samples, the dataset has {}",
                records.len() / record_bytes.max(1)
            ),
        ));
    }
    Ok(records.slice(..wanted))
}

fn gather(records: &Bytes, size: usize, samples: impl ExactSizeIterator<Item = u32>) -> Bytes {
    let mut object = Vec::with_capacity(samples.len() * size);
    for sample in samples {
        object.extend_from_slice(&records[sample as usize * size..][..size]);
    }
    object.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use crate::contract::data::minibatches_of;
    use crate::{DataPlan, Fidelity, testing};

    use super::*;

    fn job(samples: usize, workers: usize, batch_size: usize, batches: usize) -> Job {
        let settings = serde_json::Map::new();
        let job = testing::job("allreduce", Fidelity::Paper, workers, &settings).unwrap();
        Job {
            data: DataPlan {
                record_bytes: 2,
                train_samples: samples,
                test_samples: 1,
                ..job.data
            },
            batch_size,
            batches_per_worker: batches,
            ..job
        }
    }

    const TEST: Bytes = Bytes::from_static(&[1, 2, 3, 4]);

    fn train(samples: usize) -> Bytes {
        (0..samples)
            .flat_map(|sample| (sample as u16).to_le_bytes())
            .collect()
    }

    proptest! {
        #[test]
        fn minibatches_are_the_shards_in_order(
            workers in 1usize..6, batch_size in 1usize..9, batches in 1usize..5, extra in 0usize..20,
        ) {
            let samples = workers * (batch_size * batches) + extra;
            let job = job(samples, workers, batch_size, batches);
            let of = |layout| -> BTreeMap<String, Bytes> {
                dataset_objects(&job, layout, &train(samples), &TEST).unwrap().into_iter().collect()
            };
            let (shards, cut) = (of(DataLayout::Shards), of(DataLayout::Minibatches));
            prop_assert_eq!(shards.len(), workers + 1);
            let all: usize = (0..workers).map(|rank| minibatches_of(&job, rank)).sum();
            prop_assert_eq!(cut.len(), all + 1);
            let total: usize = shards.values().map(Bytes::len).sum();
            prop_assert_eq!(total, 2 * samples + 2);
            for rank in 0..workers {
                let cut: Vec<u8> = (0..minibatches_of(&job, rank))
                    .flat_map(|batch| cut[&minibatch_key(workers, batch_size, rank, batch)].to_vec())
                    .collect();
                let shard = &shards[&shard_key(rank)];
                prop_assert_eq!(&cut[..shard.len()], shard.as_ref());
            }
            prop_assert_eq!(&of(DataLayout::Whole)[TRAIN_KEY], &train(samples));
        }

        #[test]
        fn phantoms_have_the_sizes_of_the_real_objects(
            workers in 1usize..6, batch_size in 1usize..9, batches in 1usize..5, extra in 0usize..20,
            has_rest: bool,
        ) {
            let samples = workers * (batch_size * batches) + extra;
            let mut job = job(samples, workers, batch_size, batches);
            let rest = samples / workers - batch_size * batches;
            if has_rest && (1..batch_size).contains(&rest) {
                (job.batches_per_worker, job.last_batch) = (batches + 1, Some(rest));
            }
            for layout in [DataLayout::Whole, DataLayout::Shards, DataLayout::Minibatches] {
                let real = dataset_objects(&job, layout, &train(samples), &TEST).unwrap();
                let real = real.into_iter().map(|(key, object)| (key, object.len() as u64));
                let phantom = phantom_objects(&job, layout);
                let phantom = phantom.into_iter().map(|(key, object)| (key, object.len()));
                prop_assert_eq!(
                    real.collect::<BTreeMap<_, _>>(),
                    phantom.collect::<BTreeMap<_, _>>()
                );
            }
        }
    }

    #[test]
    fn the_validation_split_is_the_end_and_in_no_share() {
        let mut job = job(8, 2, 2, 2);
        (job.data.train_samples, job.data.validation_samples) = (8, 3);
        for layout in [
            DataLayout::Whole,
            DataLayout::Shards,
            DataLayout::Minibatches,
        ] {
            let objects = dataset_objects(&job, layout, &train(11), &TEST).unwrap();
            let sizes = phantom_objects(&job, layout);
            assert_eq!(objects.len(), sizes.len());
            let mut trained: Vec<u8> = Vec::new();
            for (key, object) in objects {
                match key.as_str() {
                    TEST_KEY => {}
                    VALIDATION_KEY => assert_eq!(&object[..], &train(11)[16..]),
                    _ => trained.extend(object.iter()),
                }
            }
            let mut samples: Vec<&[u8]> = trained.chunks_exact(2).collect();
            samples.sort_unstable();
            assert_eq!(samples.concat(), &train(8)[..]);
        }
    }

    #[test]
    fn the_test_split_is_cut_and_a_missing_sample_is_an_error() {
        let objects =
            dataset_objects(&job(4, 2, 1, 1), DataLayout::Whole, &train(4), &TEST).unwrap();
        assert_eq!(
            objects[0],
            (TEST_KEY.to_owned(), Bytes::from_static(&[1, 2]))
        );
        assert!(dataset_objects(&job(5, 2, 1, 1), DataLayout::Whole, &train(4), &TEST).is_err());
    }
}
