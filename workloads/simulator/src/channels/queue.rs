use std::pin::pin;
use std::sync::Arc;

use async_trait::async_trait;
use epochcost_channels::{Channel, ChannelError, Payload, QueueCommand, Reply, Result};
use futures_util::future::select;

use crate::network::Direction;
use crate::services::Queues;
use crate::station::Station;

/// The queue, reached from one station.
pub(super) struct SimQueue {
    pub(super) queues: Arc<Queues>,
    pub(super) station: Arc<Station>,
}

impl SimQueue {
    async fn request(&self, direction: Direction) -> Result<()> {
        let (server, connected) = (&self.queues.server, self.station.spec.network.since);
        self.station.request(server, direction, connected).await
    }

    async fn transfer(&self, bytes: u64, direction: Direction) {
        let (server, users) = (&self.queues.server, self.station.alike());
        self.station.transfer(server, users, bytes, direction).await;
    }

    async fn upload(&self, message: &Payload) -> Result<()> {
        let (server, limit) = (&self.queues.server, self.queues.message_bytes_limit);
        let services = &self.station.services;
        services.check_size(server, message.len(), limit)?;
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
impl Channel<QueueCommand> for SimQueue {
    async fn run(&self, command: QueueCommand) -> Result<Reply> {
        let reply = self.answer(command).await?;
        self.queues.server.keeps(self.station.spec.network.since)?;
        Ok(reply)
    }
}

impl SimQueue {
    async fn answer(&self, command: QueueCommand) -> Result<Reply> {
        if let QueueCommand::Publish { message, .. } | QueueCommand::FanOut { message, .. } =
            &command
        {
            self.upload(message).await?;
        } else {
            self.request(Direction::Read).await?;
        }
        let (queues, population) = (&self.queues, &self.station.services.population);
        let rank = self.station.rank();
        let message = match command {
            QueueCommand::Publish { queue, message } => {
                let messages = population.messages(rank, &queue, &message).into_iter();
                self.deliver(
                    messages.map(|(writer, queue, message)| (writer, queue.into_owned(), message)),
                );
                return Ok(Reply::Done);
            }
            QueueCommand::FanOut { exchange, message } => {
                let missing = || ChannelError::missing(queues.server.peer.name(), &exchange);
                let bound = queues.bound(&exchange).ok_or_else(missing)?;
                self.deliver(bound.into_iter().flat_map(|queue| {
                    let messages = population.fanned_out(rank, &queue, &message).into_iter();
                    messages.map(move |(writer, message)| (writer, queue.clone(), message))
                }));
                return Ok(Reply::Done);
            }
            QueueCommand::Bind { exchange, queue } => {
                queues.bind(&exchange, &queue);
                return Ok(Reply::Done);
            }
            QueueCommand::Count { queue } => return Ok(Reply::Count(queues.count(&queue))),
            QueueCommand::Purge { queue } => {
                for queue in population.purged(rank, &queue) {
                    queues.purge(&queue);
                }
                return Ok(Reply::Done);
            }
            QueueCommand::Peek { queue } => queues.front(&queue),
            QueueCommand::Consume { queue, wait } => {
                let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
                let deadline = self.station.engine.now().saturating_add(wait);
                self.next(&queue, deadline).await
            }
        };
        if let Some(message) = &message {
            self.transfer(message.len(), Direction::Read).await;
        }
        Ok(Reply::Value(message))
    }
}
