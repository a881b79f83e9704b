use std::sync::Arc;

use epochcost_channels::memory::MemoryTensors;

use super::Backend;
use crate::engine::Engine;
use crate::network::Peer;
use crate::profile::{ServiceModel, TensorStoreModel};
use crate::resource::Resource;

/// One peer's tensor store.
#[derive(Clone)]
pub(crate) struct Tensors {
    pub(crate) store: Arc<MemoryTensors>,
    pub(crate) model: Arc<TensorStoreModel<f64>>,
    pub(crate) server: Backend,
    /// The store's one thread, in seconds of its time per second; the cores of the host, if all
    /// stations share one.
    thread: Resource,
}

impl Tensors {
    pub(crate) fn new(
        engine: &Engine,
        host: Option<&Resource>,
        model: &Arc<TensorStoreModel<f64>>,
        service: &Arc<ServiceModel<f64>>,
        store: Arc<MemoryTensors>,
    ) -> Self {
        Self {
            store,
            model: model.clone(),
            server: Backend::new(engine, Peer::Tensors, service.clone()),
            thread: host.cloned().unwrap_or_else(|| Resource::new(engine, 1.0)),
        }
    }

    /// Returns the same server with names of another training.
    pub(crate) fn beside(&self) -> Self {
        Self {
            store: Arc::default(),
            ..self.clone()
        }
    }

    /// Returns the bytes of the tensor at `key`, 0 if it does not exist.
    pub(crate) fn bytes(&self, key: &str) -> u64 {
        self.store.bytes(key)
    }

    /// Waits for the store to read or write `bytes` of operands.
    pub(crate) async fn compute(&self, bytes: u64) {
        self.work(bytes as f64 / self.model.arithmetic_bytes_per_s)
            .await;
    }

    /// Occupies the store's thread, or a core of the shared host, for `seconds`.
    pub(crate) async fn work(&self, seconds: f64) {
        self.thread.consume(seconds, 1.0).await;
    }
}
