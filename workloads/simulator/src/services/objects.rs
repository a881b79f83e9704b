use epochcost_channels::memory::MemoryObjects;
use epochcost_channels::{ObjectStore, Payload, Result};
use futures_util::FutureExt;

use crate::engine::Engine;
use crate::notify::{Awaited, Notify};
use crate::profile::ObjectStoreModel;
use crate::resource::Resource;

/// The object store of a trial.
pub(crate) struct Objects {
    pub(crate) store: MemoryObjects,
    pub(crate) model: ObjectStoreModel<f64>,
    pub(crate) server: Resource,
    notify: Notify,
}

impl Objects {
    pub(crate) fn new(engine: &Engine, model: &ObjectStoreModel<f64>, notify: &Notify) -> Self {
        let capacity = model.service.server_bytes_per_s.unwrap_or(f64::INFINITY);
        Self {
            store: MemoryObjects::default(),
            model: model.clone(),
            server: Resource::new(engine, capacity),
            notify: notify.clone(),
        }
    }

    /// Returns whether the object exists now.
    pub(crate) fn has(&self, bucket: &str, key: &str) -> bool {
        let found = self.store.get(bucket, key).now_or_never();
        matches!(found, Some(Ok(Some(_))))
    }

    /// Stores an object, and wakes those that wait for it.
    pub(crate) async fn put(&self, bucket: &str, key: &str, body: Payload) -> Result<()> {
        self.store.put(bucket, key, body).await?;
        if !self.notify.is_idle() {
            let awaited = Awaited::Object(bucket.to_owned(), key.to_owned());
            self.notify.notify_waiters(&awaited, 1);
        }
        Ok(())
    }
}
