//! The embedded services of one trial, with its dataset in the object store.

use std::sync::Arc;

use epochcost_channels::embedded::{ObjectServer, QueueServer, TensorServer};
use epochcost_channels::memory::{MemoryObjects, MemoryQueue, MemoryTensors};
use epochcost_environment::worker as variable;
use epochcost_systems::{DATASET_BUCKET, DataLayout, Job, dataset_objects};

use super::failed;
use crate::{PlatformError, TrialData};

/// One object server, one queue server and one tensor server per peer; they stop
/// when dropped.
pub(in crate::local) struct Services {
    objects: ObjectServer,
    queue: QueueServer,
    tensors: Vec<TensorServer>,
}

impl Services {
    /// Starts empty services, `stores` of them for tensors, and stores the dataset in `layout`, in memory and
    /// not over the wire: the papers' data lies in S3 before a run.
    pub(super) async fn start(
        job: &Job,
        stores: usize,
        layout: DataLayout,
        data: &TrialData,
    ) -> Result<Self, PlatformError> {
        let objects = Arc::new(MemoryObjects::default());
        let dataset = dataset_objects(job, layout, &data.train, &data.test);
        for (key, object) in dataset.map_err(failed("the object store"))? {
            objects.store(DATASET_BUCKET, &key, object.into());
        }
        let mut tensors = Vec::with_capacity(stores);
        for _ in 0..stores {
            let server = TensorServer::start_private(Arc::new(MemoryTensors::default()));
            tensors.push(server.await.map_err(failed("a tensor store"))?);
        }
        let queue = QueueServer::start_private(Arc::new(MemoryQueue::default()));
        Ok(Self {
            objects: ObjectServer::start_private(objects)
                .await
                .map_err(failed("the object store"))?,
            queue: queue.await.map_err(failed("the queue"))?,
            tensors,
        })
    }

    /// Returns the environment variables in which workers find them.
    pub(super) fn environment(&self) -> [(String, String); 3] {
        let tensors: Vec<String> = self.tensors.iter().map(TensorServer::endpoint).collect();
        [
            (variable::OBJECTS.into(), self.objects.endpoint()),
            (variable::TENSORS.into(), tensors.join(",")),
            (variable::QUEUE.into(), self.queue.endpoint()),
        ]
    }
}
