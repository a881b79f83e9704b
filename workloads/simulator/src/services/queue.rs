use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use epochcost_channels::Payload;

use super::Backend;
use crate::engine::{Engine, locked};
use crate::network::Peer;
use crate::notify::{Awaited, Notify, Signalled};
use crate::profile::QueueModel;

#[derive(Default)]
struct Broker {
    queues: HashMap<String, VecDeque<Payload>>,
    exchanges: HashMap<String, BTreeSet<String>>,
}

/// The message queue of a trial.
pub(crate) struct Queues {
    broker: Mutex<Broker>,
    pub(crate) message_bytes_limit: f64,
    pub(crate) server: Backend,
    notify: Notify,
}

impl Queues {
    pub(crate) fn new(engine: &Engine, model: &QueueModel<f64>, notify: &Notify) -> Self {
        Self {
            broker: Mutex::default(),
            message_bytes_limit: model.message_bytes_limit,
            server: Backend::new(engine, Peer::Queue, Arc::new(model.service.clone())),
            notify: notify.clone(),
        }
    }

    /// Returns the same server with names of another training.
    pub(crate) fn beside(&self, notify: &Notify) -> Self {
        Self {
            broker: Mutex::default(),
            message_bytes_limit: self.message_bytes_limit,
            server: self.server.clone(),
            notify: notify.clone(),
        }
    }

    /// Returns how many messages `queue` holds.
    pub(crate) fn count(&self, queue: &str) -> u64 {
        let broker = locked(&self.broker);
        broker.queues.get(queue).map_or(0, VecDeque::len) as u64
    }

    /// Appends a message, and wakes those that wait for as many as `queue` now holds.
    pub(crate) fn push(&self, queue: &str, message: Payload) {
        let count = {
            let mut broker = locked(&self.broker);
            let messages = match broker.queues.get_mut(queue) {
                Some(messages) => messages,
                None => broker.queues.entry(queue.to_owned()).or_default(),
            };
            messages.push_back(message);
            messages.len() as u64
        };
        if !self.notify.is_idle() {
            self.notify
                .notify_waiters(&Awaited::Messages(queue.to_owned()), count);
        }
    }

    /// Returns the oldest message, which stays.
    pub(crate) fn front(&self, queue: &str) -> Option<Payload> {
        let broker = locked(&self.broker);
        broker.queues.get(queue)?.front().cloned()
    }

    /// Takes the oldest message.
    pub(crate) fn take(&self, queue: &str) -> Option<Payload> {
        locked(&self.broker).queues.get_mut(queue)?.pop_front()
    }

    /// Waits until `queue` holds a message; it is empty now.
    pub(crate) fn arrival(&self, queue: &str) -> Signalled {
        self.notify.notified(Awaited::Messages(queue.to_owned()), 1)
    }

    /// Binds `queue`, created if it does not exist, to `exchange`.
    pub(crate) fn bind(&self, exchange: &str, queue: &str) {
        let mut broker = locked(&self.broker);
        broker.queues.entry(queue.to_owned()).or_default();
        let bound = broker.exchanges.entry(exchange.to_owned()).or_default();
        bound.insert(queue.to_owned());
    }

    /// Returns the queues bound to `exchange`, by name; `None` if it does not exist.
    pub(crate) fn bound(&self, exchange: &str) -> Option<BTreeSet<String>> {
        locked(&self.broker).exchanges.get(exchange).cloned()
    }

    /// Deletes all messages of `queue`.
    pub(crate) fn purge(&self, queue: &str) {
        if let Some(messages) = locked(&self.broker).queues.get_mut(queue) {
            messages.clear();
        }
    }
}
