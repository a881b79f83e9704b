use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use epochcost_channels::{ListPage, ObjectStore, Payload, Result};

use crate::network::{Direction, Peer};
use crate::services::Objects;
use crate::station::{Server, Station};

/// The object store, reached from one station.
pub(super) struct SimObjects {
    pub(super) objects: Arc<Objects>,
    pub(super) station: Arc<Station>,
}

impl SimObjects {
    async fn request(&self, bucket: &str, direction: Direction) -> Result<()> {
        let alike = self.station.alike();
        self.station.settle().await;
        self.objects.admit(bucket, direction, alike).await;
        let service = &self.objects.model.service;
        self.station
            .request(service, Peer::Objects, direction)
            .await;
        let Objects { condition, .. } = &*self.objects;
        condition.pass(&self.station.engine, "object store").await
    }

    async fn transfer(&self, bytes: u64, direction: Direction) {
        let Objects { model, server, .. } = &*self.objects;
        let server = Server {
            bandwidth: server,
            users: self.station.alike(),
        };
        self.station
            .transfer(&model.service, server, bytes, direction)
            .await;
    }

    async fn fetched(&self, found: Option<Payload>) -> Option<Payload> {
        if let Some(body) = &found {
            self.transfer(body.len(), Direction::Read).await;
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
        let _under_way = self.station.begin_operation();
        self.request(bucket, Direction::Write).await?;
        self.transfer(body.len(), Direction::Write).await;
        let (now, mut later) = (self.station.engine.now(), Vec::new());
        for (writer, key) in services.population.objects(self.station.rank(), key) {
            match self.station.instant_of(writer) {
                at if at > now => later.push((at, key.into_owned())),
                _ => self.objects.put(bucket, &key, body.clone()).await?,
            }
        }
        if !later.is_empty() {
            let (objects, bucket) = (self.objects.clone(), bucket.to_owned());
            self.station.at_instants(later, move |key| {
                let (objects, bucket, body) = (objects.clone(), bucket.clone(), body.clone());
                // A store in memory takes every object.
                async move { objects.put(&bucket, &key, body).await.unwrap_or_default() }
            });
        }
        Ok(())
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<Option<Payload>> {
        let _under_way = self.station.begin_operation();
        self.station.make_client().await;
        self.request(bucket, Direction::Read).await?;
        let found = self.objects.store.get(bucket, key).await?;
        Ok(self.fetched(found).await)
    }

    async fn get_range(
        &self,
        bucket: &str,
        key: &str,
        range: Range<u64>,
    ) -> Result<Option<Payload>> {
        self.station.make_client().await;
        self.request(bucket, Direction::Read).await?;
        let found = self.objects.store.get_range(bucket, key, range).await?;
        Ok(self.fetched(found).await)
    }

    async fn list(&self, bucket: &str, prefix: &str, after: Option<&str>) -> Result<ListPage> {
        self.station.make_client().await;
        self.request(bucket, Direction::Read).await?;
        self.objects.store.list(bucket, prefix, after).await
    }

    async fn delete(&self, bucket: &str, keys: &[String]) -> Result<()> {
        let is_single = self.station.make_client().await;
        self.request(bucket, Direction::Write).await?;
        if is_single {
            for _ in keys.iter().skip(1) {
                self.station.make_client().await;
                self.request(bucket, Direction::Write).await?;
            }
        }
        let population = &self.station.services.population;
        let deleted = population.deleted(self.station.rank(), keys);
        if deleted.len() <= keys.len() {
            return self.objects.store.delete(bucket, keys).await;
        }
        for keys in deleted.chunks(keys.len().max(1)) {
            self.objects.store.delete(bucket, keys).await?;
        }
        Ok(())
    }
}
