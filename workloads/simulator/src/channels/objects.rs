use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use epochcost_channels::memory::MemoryObjects;
use epochcost_channels::{ListPage, ObjectStore, Payload, Result};
use futures_util::FutureExt;

use crate::engine::Engine;
use crate::profile::ObjectStoreModel;
use crate::resource::Resource;
use crate::station::Station;
use crate::watch::{Awaited, Watch};

/// The object store of a trial.
pub(crate) struct Objects {
    pub(crate) store: MemoryObjects,
    model: ObjectStoreModel<f64>,
    server: Resource,
    watch: Watch,
}

impl Objects {
    pub(crate) fn new(engine: &Engine, model: &ObjectStoreModel<f64>, watch: &Watch) -> Self {
        let capacity = model.service.server_bytes_per_s.unwrap_or(f64::INFINITY);
        Self {
            store: MemoryObjects::default(),
            model: model.clone(),
            server: Resource::new(engine, capacity),
            watch: watch.clone(),
        }
    }

    /// Whether there is such an object now.
    pub(crate) fn has(&self, bucket: &str, key: &str) -> bool {
        let found = self.store.get(bucket, key).now_or_never();
        matches!(found, Some(Ok(Some(_))))
    }
}

/// The object store as one station reaches it.
pub(crate) struct SimObjects {
    pub(crate) objects: Arc<Objects>,
    pub(crate) station: Arc<Station>,
}

impl SimObjects {
    async fn request(&self) {
        self.station.request(&self.objects.model.service).await;
    }

    async fn transfer(&self, bytes: u64) {
        let Objects { model, server, .. } = &*self.objects;
        self.station.transfer(&model.service, server, bytes).await;
    }

    async fn fetched(&self, found: Option<Payload>) -> Option<Payload> {
        if let Some(body) = &found {
            self.transfer(body.len()).await;
        }
        found
    }
}

#[async_trait]
impl ObjectStore for SimObjects {
    async fn put(&self, bucket: &str, key: &str, body: Payload) -> Result<()> {
        let limit = self.objects.model.object_bytes_limit;
        let services = &self.station.services;
        services.check_size("object store", body.len(), limit)?;
        self.request().await;
        self.transfer(body.len()).await;
        self.objects.store.put(bucket, key, body).await?;
        if !self.objects.watch.is_idle() {
            let awaited = Awaited::Object(bucket.to_owned(), key.to_owned());
            self.objects.watch.tell(&awaited, 1);
        }
        Ok(())
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<Option<Payload>> {
        self.request().await;
        let found = self.objects.store.get(bucket, key).await?;
        Ok(self.fetched(found).await)
    }

    async fn get_range(
        &self,
        bucket: &str,
        key: &str,
        range: Range<u64>,
    ) -> Result<Option<Payload>> {
        self.request().await;
        let found = self.objects.store.get_range(bucket, key, range).await?;
        Ok(self.fetched(found).await)
    }

    async fn list(&self, bucket: &str, prefix: &str, after: Option<&str>) -> Result<ListPage> {
        self.request().await;
        self.objects.store.list(bucket, prefix, after).await
    }

    async fn delete(&self, bucket: &str, keys: &[String]) -> Result<()> {
        self.request().await;
        self.objects.store.delete(bucket, keys).await
    }
}
