//! The embedded services of one trial, with its dataset in the object store.

use std::sync::Arc;

use bytes::Bytes;
use epochcost_channels::embedded::{ObjectServer, QueueServer, TensorServer};
use epochcost_channels::memory::{MemoryObjects, MemoryQueue, MemoryTensors};
use epochcost_channels::{ChannelError, ObjectStore};
use epochcost_datasets::partition;
use epochcost_systems::{
    DATASET_BUCKET, DataLayout, Job, TEST_KEY, TRAIN_KEY, minibatch_key, shard_key,
};

use crate::platform::{PlatformError, TrialData};

/// One object server, one queue server and one tensor server a peer; they stop
/// when dropped.
pub(super) struct Services {
    objects: ObjectServer,
    queue: QueueServer,
    tensors: Vec<TensorServer>,
}

impl Services {
    /// Starts empty services and puts the dataset where `layout` says, in
    /// memory and not over the wire: the papers' data lies in S3 before a run.
    pub(super) async fn start(
        job: &Job,
        layout: DataLayout,
        data: &TrialData,
    ) -> Result<Self, PlatformError> {
        let objects = Arc::new(MemoryObjects::default());
        for (key, object) in dataset(job, layout, data)? {
            objects
                .put(DATASET_BUCKET, &key, object.into())
                .await
                .map_err(failed("the object store"))?;
        }
        let mut tensors = Vec::with_capacity(job.workers);
        for _ in 0..job.workers {
            let server = TensorServer::start(Arc::new(MemoryTensors::default()));
            tensors.push(server.await.map_err(failed("a tensor store"))?);
        }
        let queue = QueueServer::start(Arc::new(MemoryQueue::default()));
        Ok(Self {
            objects: ObjectServer::start(objects)
                .await
                .map_err(failed("the object store"))?,
            queue: queue.await.map_err(failed("the queue"))?,
            tensors,
        })
    }

    /// Where workers find them, as environment variables.
    pub(super) fn environment(&self) -> [(String, String); 3] {
        let tensors: Vec<String> = self.tensors.iter().map(TensorServer::endpoint).collect();
        [
            ("EPOCHCOST_OBJECTS".into(), self.objects.endpoint()),
            ("EPOCHCOST_TENSORS".into(), tensors.join(",")),
            ("EPOCHCOST_QUEUE".into(), self.queue.endpoint()),
        ]
    }
}

fn failed(service: &'static str) -> impl Fn(ChannelError) -> PlatformError {
    move |error| PlatformError::Service {
        service,
        reason: error.to_string(),
    }
}

/// The objects of the dataset bucket.
fn dataset(
    job: &Job,
    layout: DataLayout,
    data: &TrialData,
) -> Result<Vec<(String, Bytes)>, PlatformError> {
    let train = first(
        &data.train,
        job.data.train_samples,
        data.record_bytes,
        "training",
    )?;
    let test = first(&data.test, job.data.test_samples, data.record_bytes, "test")?;
    let shards = || partition::shards(job.data.train_samples, job.workers, job.seed);
    let gather = |samples: &[u32]| gather(&train, data.record_bytes, samples);
    let mut objects = vec![(TEST_KEY.to_owned(), test)];
    match layout {
        DataLayout::Whole => objects.push((TRAIN_KEY.to_owned(), train.clone())),
        DataLayout::Shards => {
            for (rank, shard) in shards().iter().enumerate() {
                objects.push((shard_key(rank), gather(shard)));
            }
        }
        DataLayout::Minibatches => {
            for (rank, shard) in shards().iter().enumerate() {
                let batches = partition::minibatches(shard, job.batch_size);
                for (batch, samples) in batches.take(job.batches_per_worker).enumerate() {
                    let key = minibatch_key(job.workers, job.batch_size, rank, batch);
                    objects.push((key, gather(samples)));
                }
            }
        }
    }
    Ok(objects)
}

fn first(
    records: &Bytes,
    samples: usize,
    record_bytes: usize,
    split: &str,
) -> Result<Bytes, PlatformError> {
    let wanted = samples * record_bytes;
    if records.len() < wanted {
        return Err(PlatformError::Service {
            service: "the object store",
            reason: format!(
                "the job wants {samples} {split} samples, the dataset has {}",
                records.len() / record_bytes.max(1)
            ),
        });
    }
    Ok(records.slice(..wanted))
}

fn gather(records: &Bytes, record_bytes: usize, samples: &[u32]) -> Bytes {
    let mut object = Vec::with_capacity(samples.len() * record_bytes);
    for &sample in samples {
        object.extend_from_slice(&records[sample as usize * record_bytes..][..record_bytes]);
    }
    object.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use epochcost_systems::{DataPlan, Device, Evaluate, Fidelity};
    use proptest::prelude::*;

    use super::*;

    fn job(samples: usize, workers: usize, batch_size: usize, batches: usize) -> Job {
        Job {
            trial: "t".into(),
            system: "allreduce".into(),
            fidelity: Fidelity::Paper,
            settings: serde_json::json!({}),
            model: "lenet5".into(),
            data: DataPlan {
                dataset: "d".into(),
                record_bytes: 2,
                train_samples: samples,
                test_samples: 1,
                augment: false,
            },
            workers,
            batch_size,
            batches_per_worker: batches,
            epochs: 1,
            seed: 7,
            optimizer: serde_json::from_value(serde_json::json!({"sgd": {"learning_rate": 0.1}}))
                .unwrap(),
            evaluate: Evaluate::Never,
            device: Device::Cpu,
        }
    }

    fn data(samples: usize) -> TrialData {
        let train = (0..samples)
            .flat_map(|sample| (sample as u16).to_le_bytes())
            .collect();
        TrialData {
            train,
            test: Bytes::from_static(&[1, 2, 3, 4]),
            record_bytes: 2,
        }
    }

    proptest! {
        #[test]
        fn minibatches_are_the_heads_of_the_shards(
            workers in 1usize..6, batch_size in 1usize..9, batches in 1usize..5, extra in 0usize..20,
        ) {
            let samples = workers * (batch_size * batches) + extra;
            let job = job(samples, workers, batch_size, batches);
            let of = |layout| -> BTreeMap<String, Bytes> {
                dataset(&job, layout, &data(samples)).unwrap().into_iter().collect()
            };
            let (shards, cut) = (of(DataLayout::Shards), of(DataLayout::Minibatches));
            prop_assert_eq!(shards.len(), workers + 1);
            prop_assert_eq!(cut.len(), workers * batches + 1);
            let total: usize = shards.values().map(Bytes::len).sum();
            prop_assert_eq!(total, 2 * samples + 2);
            for rank in 0..workers {
                let head: Vec<u8> = (0..batches)
                    .flat_map(|batch| cut[&minibatch_key(workers, batch_size, rank, batch)].to_vec())
                    .collect();
                prop_assert_eq!(&shards[&shard_key(rank)][..head.len()], head.as_slice());
            }
            prop_assert_eq!(&of(DataLayout::Whole)[TRAIN_KEY], &data(samples).train);
        }
    }

    #[test]
    fn the_test_split_is_cut_and_a_missing_sample_is_an_error() {
        let objects = dataset(&job(4, 2, 1, 1), DataLayout::Whole, &data(4)).unwrap();
        assert_eq!(
            objects[0],
            (TEST_KEY.to_owned(), Bytes::from_static(&[1, 2]))
        );
        assert!(dataset(&job(5, 2, 1, 1), DataLayout::Whole, &data(4)).is_err());
    }
}
