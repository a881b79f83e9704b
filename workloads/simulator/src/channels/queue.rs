use std::collections::{BTreeSet, HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use epochcost_channels::{ChannelError, Payload, Queue, Result};
use futures_util::future::select;

use crate::engine::{Engine, locked};
use crate::profile::QueueModel;
use crate::resource::Resource;
use crate::station::Station;
use crate::watch::{Awaited, Watch};

const SERVICE: &str = "queue";

#[derive(Default)]
struct Broker {
    queues: HashMap<String, VecDeque<Payload>>,
    exchanges: HashMap<String, BTreeSet<String>>,
}

/// The message queue of a trial.
pub(crate) struct Queues {
    broker: Mutex<Broker>,
    model: QueueModel<f64>,
    server: Resource,
    watch: Watch,
}

impl Queues {
    pub(crate) fn new(engine: &Engine, model: &QueueModel<f64>, watch: &Watch) -> Self {
        let capacity = model.service.server_bytes_per_s.unwrap_or(f64::INFINITY);
        Self {
            broker: Mutex::default(),
            model: model.clone(),
            server: Resource::new(engine, capacity),
            watch: watch.clone(),
        }
    }

    /// How many messages wait in `queue`.
    pub(crate) fn count(&self, queue: &str) -> u64 {
        let broker = locked(&self.broker);
        broker.queues.get(queue).map_or(0, VecDeque::len) as u64
    }

    fn push(&self, queue: &str, message: Payload) {
        let count = {
            let mut broker = locked(&self.broker);
            let messages = match broker.queues.get_mut(queue) {
                Some(messages) => messages,
                None => broker.queues.entry(queue.to_owned()).or_default(),
            };
            messages.push_back(message);
            messages.len() as u64
        };
        if !self.watch.is_idle() {
            self.watch.tell(&Awaited::Messages(queue.to_owned()), count);
        }
    }

    fn front(&self, queue: &str) -> Option<Payload> {
        let broker = locked(&self.broker);
        broker.queues.get(queue)?.front().cloned()
    }

    fn take(&self, queue: &str) -> Option<Payload> {
        locked(&self.broker).queues.get_mut(queue)?.pop_front()
    }
}

/// The queue as one station reaches it.
pub(crate) struct SimQueue {
    pub(crate) queues: Arc<Queues>,
    pub(crate) station: Arc<Station>,
}

impl SimQueue {
    async fn request(&self) {
        self.station.request(&self.queues.model.service).await;
    }

    async fn transfer(&self, bytes: u64) {
        let Queues { model, server, .. } = &*self.queues;
        self.station.transfer(&model.service, server, bytes).await;
    }

    async fn upload(&self, message: &Payload) -> Result<()> {
        let limit = self.queues.model.message_bytes_limit;
        let services = &self.station.services;
        services.check_size(SERVICE, message.len(), limit)?;
        self.request().await;
        self.transfer(message.len()).await;
        Ok(())
    }

    /// The oldest message, waiting for one until `deadline`.
    async fn next(&self, queue: &str, deadline: u64) -> Option<Payload> {
        let engine = &self.station.engine;
        loop {
            if let Some(message) = self.queues.take(queue) {
                return Some(message);
            }
            if engine.now() >= deadline {
                return None;
            }
            let arrival = self
                .queues
                .watch
                .wait(Awaited::Messages(queue.to_owned()), 1);
            select(arrival, pin!(engine.until(deadline))).await;
        }
    }
}

#[async_trait]
impl Queue for SimQueue {
    async fn publish(&self, queue: &str, message: Payload) -> Result<()> {
        self.upload(&message).await?;
        self.queues.push(queue, message);
        Ok(())
    }

    async fn publish_fanout(&self, exchange: &str, message: Payload) -> Result<()> {
        self.upload(&message).await?;
        let bound = locked(&self.queues.broker).exchanges.get(exchange).cloned();
        let bound = bound.ok_or_else(|| ChannelError::Missing {
            service: SERVICE,
            key: exchange.to_owned(),
        })?;
        for queue in bound {
            self.queues.push(&queue, message.clone());
        }
        Ok(())
    }

    async fn bind(&self, exchange: &str, queue: &str) -> Result<()> {
        self.request().await;
        let mut broker = locked(&self.queues.broker);
        broker.queues.entry(queue.to_owned()).or_default();
        let bound = broker.exchanges.entry(exchange.to_owned()).or_default();
        bound.insert(queue.to_owned());
        Ok(())
    }

    async fn consume(&self, queue: &str, wait: Duration) -> Result<Option<Payload>> {
        self.request().await;
        let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        let deadline = self.station.engine.now().saturating_add(wait);
        let message = self.next(queue, deadline).await;
        if let Some(message) = &message {
            self.transfer(message.len()).await;
        }
        Ok(message)
    }

    async fn peek(&self, queue: &str) -> Result<Option<Payload>> {
        self.request().await;
        let message = self.queues.front(queue);
        if let Some(message) = &message {
            self.transfer(message.len()).await;
        }
        Ok(message)
    }

    async fn count(&self, queue: &str) -> Result<u64> {
        self.request().await;
        Ok(self.queues.count(queue))
    }

    async fn purge(&self, queue: &str) -> Result<()> {
        self.request().await;
        if let Some(messages) = locked(&self.queues.broker).queues.get_mut(queue) {
            messages.clear();
        }
        Ok(())
    }
}
