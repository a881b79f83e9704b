use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use epochcost_channels::Payload;
use epochcost_channels::memory::MemoryObjects;

use super::Condition;
use crate::engine::{Engine, locked, nanoseconds};
use crate::network::Direction;
use crate::notify::{Awaited, Notify};
use crate::profile::ObjectStoreModel;
use crate::resource::Resource;

/// Time whose requests a bucket admits at once, nanoseconds.
const BURST: u64 = 1_000_000_000;

/// The object store of a trial.
pub(crate) struct Objects {
    pub(crate) store: MemoryObjects,
    pub(crate) model: ObjectStoreModel<f64>,
    pub(crate) server: Resource,
    pub(crate) condition: Arc<Condition>,
    engine: Engine,
    /// Instants up to which the requests of buckets are spoken for, nanoseconds, by bucket and
    /// direction.
    admitted: Arc<Mutex<HashMap<(String, Direction), u64>>>,
    notify: Notify,
}

impl Objects {
    pub(crate) fn new(engine: &Engine, model: &ObjectStoreModel<f64>, notify: &Notify) -> Self {
        let capacity = model.service.server_bytes_per_s.unwrap_or(f64::INFINITY);
        Self {
            store: MemoryObjects::default(),
            model: model.clone(),
            server: Resource::new(engine, capacity),
            condition: Arc::default(),
            engine: engine.clone(),
            admitted: Arc::default(),
            notify: notify.clone(),
        }
    }

    /// Returns the same server with names of another training.
    pub(crate) fn beside(&self, notify: &Notify) -> Self {
        Self {
            store: MemoryObjects::default(),
            model: self.model.clone(),
            server: self.server.clone(),
            condition: self.condition.clone(),
            engine: self.engine.clone(),
            admitted: self.admitted.clone(),
            notify: notify.clone(),
        }
    }

    /// Waits until the bucket admits so many requests of one instant: at once up to those of one
    /// second, and then in the order of arrival at its rate.
    pub(crate) async fn admit(&self, bucket: &str, direction: Direction, requests: u64) {
        let per_s = match direction {
            Direction::Read => self.model.reads_per_s,
            Direction::Write => self.model.writes_per_s,
        };
        let Some(per_s) = per_s else { return };
        let now = self.engine.now();
        let turn = {
            let mut admitted = locked(&self.admitted);
            let until = admitted.entry((bucket.to_owned(), direction)).or_default();
            *until = (*until).max(now) + nanoseconds(requests as f64 / per_s);
            // A worker that stands for others is neither the first of them nor the last.
            let later = nanoseconds((requests - 1) as f64 / 2.0 / per_s);
            until.saturating_sub(BURST + later)
        };
        if turn > now {
            self.engine.until(turn).await;
        }
    }

    /// Returns whether the object exists now.
    pub(crate) fn has(&self, bucket: &str, key: &str) -> bool {
        self.store.has(bucket, key)
    }

    /// Stores an object, and wakes those that wait for it. Returns the bytes of the object that it
    /// replaced.
    pub(crate) fn put(&self, bucket: &str, key: &str, body: Payload) -> u64 {
        let (_, replaced) = self.store.store(bucket, key, body);
        if !self.notify.is_idle() {
            let awaited = Awaited::Object(bucket.to_owned(), key.to_owned());
            self.notify.notify_waiters(&awaited, 1);
        }
        replaced
    }
}
