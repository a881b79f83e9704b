use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use epochcost_channels::{ChannelError, Payload, Queue, Result};
use futures_util::future::select;

use crate::network::{Direction, Peer};
use crate::services::Queues;
use crate::station::{Server, Station};

const SERVICE: &str = "queue";

/// The queue, reached from one station.
pub(super) struct SimQueue {
    pub(super) queues: Arc<Queues>,
    pub(super) station: Arc<Station>,
}

impl SimQueue {
    async fn request(&self, direction: Direction) -> Result<()> {
        let service = &self.queues.model.service;
        self.station.request(service, Peer::Queue, direction).await;
        let Queues { condition, .. } = &*self.queues;
        condition.pass(&self.station.engine, SERVICE).await
    }

    async fn transfer(&self, bytes: u64, direction: Direction) {
        let Queues { model, server, .. } = &*self.queues;
        let server = Server {
            bandwidth: server,
            users: self.station.alike(),
        };
        self.station
            .transfer(&model.service, server, bytes, direction)
            .await;
    }

    async fn upload(&self, message: &Payload) -> Result<()> {
        let limit = self.queues.model.message_bytes_limit;
        let services = &self.station.services;
        services.check_size(SERVICE, message.len(), limit)?;
        self.request(Direction::Write).await?;
        self.transfer(message.len(), Direction::Write).await;
        Ok(())
    }

    /// Puts messages into their queues, each when its writer comes to this point.
    fn deliver(&self, messages: impl Iterator<Item = (usize, String, Payload)>) {
        let (now, mut later) = (self.station.engine.now(), Vec::new());
        for (writer, queue, message) in messages {
            match self.station.instant_of(writer) {
                at if at > now => later.push((at, (queue, message))),
                _ => self.queues.push(&queue, message),
            }
        }
        if !later.is_empty() {
            let queues = self.queues.clone();
            self.station.at_instants(later, move |(queue, message)| {
                queues.push(&queue, message);
                std::future::ready(())
            });
        }
    }

    /// Takes the oldest message, waiting for one until `deadline`.
    async fn next(&self, queue: &str, deadline: u64) -> Option<Payload> {
        let engine = &self.station.engine;
        loop {
            if let Some(message) = self.queues.take(queue) {
                return Some(message);
            }
            if engine.now() >= deadline {
                return None;
            }
            let arrival = self.queues.arrival(queue);
            select(arrival, pin!(engine.until(deadline))).await;
        }
    }
}

#[async_trait]
impl Queue for SimQueue {
    async fn publish(&self, queue: &str, message: Payload) -> Result<()> {
        self.upload(&message).await?;
        let population = &self.station.services.population;
        let messages = population.messages(self.station.rank(), queue, &message);
        let messages = messages.into_iter();
        self.deliver(
            messages.map(|(writer, queue, message)| (writer, queue.into_owned(), message)),
        );
        Ok(())
    }

    async fn publish_fanout(&self, exchange: &str, message: Payload) -> Result<()> {
        self.upload(&message).await?;
        let bound = self
            .queues
            .bound(exchange)
            .ok_or_else(|| ChannelError::Missing {
                service: SERVICE,
                key: exchange.to_owned(),
            })?;
        let population = &self.station.services.population;
        let rank = self.station.rank();
        self.deliver(bound.into_iter().flat_map(|queue| {
            let messages = population.fanned_out(rank, &queue, &message).into_iter();
            messages.map(move |(writer, message)| (writer, queue.clone(), message))
        }));
        Ok(())
    }

    async fn bind(&self, exchange: &str, queue: &str) -> Result<()> {
        self.request(Direction::Read).await?;
        self.queues.bind(exchange, queue);
        Ok(())
    }

    async fn consume(&self, queue: &str, wait: Duration) -> Result<Option<Payload>> {
        self.request(Direction::Read).await?;
        let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        let deadline = self.station.engine.now().saturating_add(wait);
        let message = self.next(queue, deadline).await;
        if let Some(message) = &message {
            self.transfer(message.len(), Direction::Read).await;
        }
        Ok(message)
    }

    async fn peek(&self, queue: &str) -> Result<Option<Payload>> {
        self.request(Direction::Read).await?;
        let message = self.queues.front(queue);
        if let Some(message) = &message {
            self.transfer(message.len(), Direction::Read).await;
        }
        Ok(message)
    }

    async fn count(&self, queue: &str) -> Result<u64> {
        self.request(Direction::Read).await?;
        Ok(self.queues.count(queue))
    }

    async fn purge(&self, queue: &str) -> Result<()> {
        self.request(Direction::Read).await?;
        let population = &self.station.services.population;
        for queue in population.purged(self.station.rank(), queue) {
            self.queues.purge(&queue);
        }
        Ok(())
    }
}
