use std::borrow::Cow;
use std::sync::Arc;

use epochcost_channels::{Channel, ObjectCommand, Payload, Reply, Result};
use epochcost_systems::DATASET_BUCKET;
use futures_util::future::BoxFuture;

use crate::network::Direction;
use crate::services::Objects;
use crate::station::Station;

/// The object store, reached from one station.
pub(super) struct SimObjects {
    pub(super) objects: Arc<Objects>,
    pub(super) station: Arc<Station>,
}

impl SimObjects {
    /// Returns the instant since which the request uses its connection: over HTTP, a client that
    /// finds one ended while it was idle opens another.
    async fn request(&self, bucket: &str, direction: Direction) -> Result<u64> {
        let alike = self.station.alike();
        self.station.settle().await;
        // What died at this instant had died before.
        let since = self.station.engine.now() + 1;
        self.objects.admit(bucket, direction, alike).await;
        let server = &self.objects.server;
        self.station.request(server, direction, since).await?;
        Ok(since)
    }

    async fn transfer(&self, bytes: u64, direction: Direction) {
        let (server, users) = (&self.objects.server, self.station.alike());
        self.station.transfer(server, users, bytes, direction).await;
    }

    async fn read(&self, command: ObjectCommand) -> Result<Reply> {
        let (bucket, is_operation) = match &command {
            // A ranged get begins no operation.
            ObjectCommand::Get { bucket, range, .. } => (bucket, range.is_none()),
            ObjectCommand::List { bucket, .. }
            | ObjectCommand::Put { bucket, .. }
            | ObjectCommand::Delete { bucket, .. } => (bucket, false),
        };
        let is_data = bucket == DATASET_BUCKET;
        let _under_way = is_operation.then(|| self.station.begin_operation());
        self.station.make_client().await;
        let since = self.request(bucket, Direction::Read).await?;
        let reply = self.objects.store.carry_out(command)?;
        if let Some(bytes) = reply.bytes() {
            self.transfer(bytes, Direction::Read).await;
            if is_data {
                self.station.held.note_data(bytes);
            }
        }
        self.objects.server.keeps(since)?;
        Ok(reply)
    }

    async fn put(&self, bucket: String, key: String, body: Payload) -> Result<Reply> {
        let limit = self.objects.model.object_bytes_limit;
        let services = &self.station.services;
        services.check_size(&self.objects.server, body.len(), limit)?;
        let _under_way = self.station.begin_operation();
        let since = self.request(&bucket, Direction::Write).await?;
        self.transfer(body.len(), Direction::Write).await;
        self.objects.server.keeps(since)?;
        let (now, mut later) = (self.station.engine.now(), Vec::new());
        // A worker's own; what those replace for which it stands is counted with it.
        let mut removed = 0;
        for (writer, key) in services.population.objects(self.station.rank(), &key) {
            match self.station.instant_of(writer) {
                at if at > now => later.push((at, key.into_owned())),
                _ => {
                    let replaced = self.objects.put(&bucket, &key, body.clone());
                    if writer == self.station.rank() {
                        removed += replaced;
                    }
                }
            }
        }
        if !later.is_empty() {
            let objects = self.objects.clone();
            self.station.at_instants(later, move |key| {
                objects.put(&bucket, &key, body.clone());
                std::future::ready(())
            });
        }
        Ok(Reply::Removed(removed))
    }

    async fn delete(&self, bucket: String, keys: Vec<String>) -> Result<Reply> {
        let is_single = self.station.make_client().await;
        self.request(&bucket, Direction::Write).await?;
        if is_single {
            for _ in keys.iter().skip(1) {
                self.station.make_client().await;
                self.request(&bucket, Direction::Write).await?;
            }
        }
        let store = &self.objects.store;
        // Of the worker's own keys; those for which it stands are counted with it.
        let removed = keys.iter().map(|key| store.bytes_of(&bucket, key)).sum();
        let population = &self.station.services.population;
        let requests = match population.deleted(self.station.rank(), &keys) {
            Cow::Owned(all) if all.len() > keys.len() => {
                let requests = all.chunks(keys.len().max(1));
                requests.map(<[String]>::to_vec).collect()
            }
            _ => vec![keys],
        };
        for keys in requests {
            let bucket = bucket.clone();
            let delete = ObjectCommand::Delete { bucket, keys };
            store.carry_out(delete)?;
        }
        Ok(Reply::Removed(removed))
    }
}

// Each kind of request is a future of its own: one of all of them would be copied whole for the smallest.
impl Channel<ObjectCommand> for SimObjects {
    fn run<'a, 'run>(&'a self, command: ObjectCommand) -> BoxFuture<'run, Result<Reply>>
    where
        'a: 'run,
        Self: 'run,
    {
        match command {
            ObjectCommand::Put { bucket, key, body } => Box::pin(self.put(bucket, key, body)),
            ObjectCommand::Delete { bucket, keys } => Box::pin(self.delete(bucket, keys)),
            read => Box::pin(self.read(read)),
        }
    }
}
