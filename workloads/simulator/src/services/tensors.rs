use std::sync::Arc;

use epochcost_channels::memory::MemoryTensors;

use super::Condition;
use crate::engine::Engine;
use crate::profile::TensorStoreModel;
use crate::resource::Resource;

/// One peer's tensor store.
pub(crate) struct Tensors {
    pub(crate) store: Arc<MemoryTensors>,
    pub(crate) model: Arc<TensorStoreModel<f64>>,
    pub(crate) server: Resource,
    pub(crate) condition: Arc<Condition>,
    /// The store's one thread, in seconds of its time per second.
    thread: Resource,
    /// The cores of the host, if all stations share one.
    host: Option<Resource>,
}

impl Tensors {
    pub(crate) fn new(
        engine: &Engine,
        host: Option<&Resource>,
        model: &Arc<TensorStoreModel<f64>>,
        store: Arc<MemoryTensors>,
    ) -> Self {
        let capacity = model.service.server_bytes_per_s.unwrap_or(f64::INFINITY);
        Self {
            store,
            model: model.clone(),
            server: Resource::new(engine, capacity),
            condition: Arc::default(),
            thread: Resource::new(engine, 1.0),
            host: host.cloned(),
        }
    }

    /// Returns the same server with names of another training.
    pub(crate) fn beside(&self, store: Arc<MemoryTensors>) -> Self {
        Self {
            store,
            model: self.model.clone(),
            server: self.server.clone(),
            condition: self.condition.clone(),
            thread: self.thread.clone(),
            host: self.host.clone(),
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
        match &self.host {
            Some(host) => host.consume(seconds, 1.0).await,
            None => self.thread.consume(seconds, 1.0).await,
        }
    }
}
