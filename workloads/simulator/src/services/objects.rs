use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use epochcost_channels::Payload;
use epochcost_channels::memory::MemoryObjects;

use super::Backend;
use crate::engine::{Engine, locked, nanoseconds};
use crate::network::{Direction, Peer};
use crate::notify::{Awaited, Notify};
use crate::profile::ObjectStoreModel;

/// Time whose requests a bucket admits at once, nanoseconds.
const BURST: u64 = 1_000_000_000;

/// The object store of a trial.
#[derive(Clone)]
pub(crate) struct Objects {
    pub(crate) store: Arc<MemoryObjects>,
    pub(crate) model: ObjectStoreModel<f64>,
    pub(crate) server: Backend,
    engine: Engine,
    /// Instants up to which the requests of buckets are spoken for, nanoseconds, by bucket and
    /// direction.
    admitted: Arc<Mutex<HashMap<(String, Direction), u64>>>,
    notify: Notify,
}

impl Objects {
    pub(crate) fn new(engine: &Engine, model: &ObjectStoreModel<f64>, notify: &Notify) -> Self {
        Self {
            store: Arc::default(),
            model: model.clone(),
            server: Backend::new(engine, Peer::Objects, Arc::new(model.service.clone())),
            engine: engine.clone(),
            admitted: Arc::default(),
            notify: notify.clone(),
        }
    }

    /// Returns the same server with names of another training.
    pub(crate) fn beside(&self, notify: &Notify) -> Self {
        Self {
            store: Arc::default(),
            notify: notify.clone(),
            ..self.clone()
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
