use std::time::Duration;

use crate::{Caller, Command, Fare, Payload, Result};

/// A request to a message queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueCommand {
    /// Sends a message to one queue, creating it if there is none.
    Publish {
        /// The queue.
        queue: String,
        /// The message.
        message: Payload,
    },
    /// Sends a message to every queue bound to an exchange: one publish, as many deliveries as queues.
    FanOut {
        /// The exchange.
        exchange: String,
        /// The message.
        message: Payload,
    },
    /// Binds a queue to an exchange, creating both.
    Bind {
        /// The exchange.
        exchange: String,
        /// The queue.
        queue: String,
    },
    /// Takes the oldest message.
    Consume {
        /// The queue.
        queue: String,
        /// Longest time to wait for a message; zero does not wait.
        wait: Duration,
    },
    /// Answers with the oldest message without taking it.
    Peek {
        /// The queue.
        queue: String,
    },
    /// Answers with the number of messages.
    Count {
        /// The queue.
        queue: String,
    },
    /// Drops every message.
    Purge {
        /// The queue.
        queue: String,
    },
}

impl Command for QueueCommand {
    fn fare(&self) -> Fare {
        match self {
            Self::Publish { message, .. } | Self::FanOut { message, .. } => {
                Fare::Message(message.len())
            }
            Self::Bind { .. } => Fare::Uncounted,
            Self::Consume { .. } | Self::Peek { .. } => Fare::Delivery,
            Self::Count { .. } | Self::Purge { .. } => Fare::Poll,
        }
    }

    fn names(&mut self) -> Vec<&mut String> {
        match self {
            Self::Bind { exchange, queue } => vec![exchange, queue],
            Self::FanOut {
                exchange: queue, ..
            }
            | Self::Publish { queue, .. }
            | Self::Consume { queue, .. }
            | Self::Peek { queue }
            | Self::Count { queue }
            | Self::Purge { queue } => vec![queue],
        }
    }
}

/// A message queue with fan-out.
pub type Queue = Caller<QueueCommand>;

impl Caller<QueueCommand> {
    /// Sends a message to one queue, creating it if there is none.
    pub async fn publish(&self, queue: &str, message: Payload) -> Result<()> {
        let queue = queue.to_owned();
        self.done(QueueCommand::Publish { queue, message }).await
    }

    /// Sends a message to every queue bound to `exchange`: one publish, as
    /// many deliveries as queues.
    pub async fn publish_fanout(&self, exchange: &str, message: Payload) -> Result<()> {
        let exchange = exchange.to_owned();
        self.done(QueueCommand::FanOut { exchange, message }).await
    }

    /// Binds `queue` to `exchange`, creating both.
    pub async fn bind(&self, exchange: &str, queue: &str) -> Result<()> {
        let (exchange, queue) = (exchange.to_owned(), queue.to_owned());
        self.done(QueueCommand::Bind { exchange, queue }).await
    }

    /// Takes the oldest message, and waits for one up to `wait` (zero: not at all).
    /// Returns `None` if none came.
    pub async fn consume(&self, queue: &str, wait: Duration) -> Result<Option<Payload>> {
        let queue = queue.to_owned();
        let consume = QueueCommand::Consume { queue, wait };
        self.run(consume).await?.value()
    }

    /// Returns the oldest message without taking it; `None` if there is none.
    pub async fn peek(&self, queue: &str) -> Result<Option<Payload>> {
        let queue = queue.to_owned();
        self.run(QueueCommand::Peek { queue }).await?.value()
    }

    /// Replaces all messages of `queue` by `message`: a purge and a publish, so
    /// that a poll between the two finds nothing.
    pub async fn replace(&self, queue: &str, message: Payload) -> Result<()> {
        self.purge(queue).await?;
        self.publish(queue, message).await
    }

    /// Returns the number of messages in `queue`.
    pub async fn count(&self, queue: &str) -> Result<u64> {
        let queue = queue.to_owned();
        self.run(QueueCommand::Count { queue }).await?.count()
    }

    /// Drops every message in `queue`.
    pub async fn purge(&self, queue: &str) -> Result<()> {
        let queue = queue.to_owned();
        self.done(QueueCommand::Purge { queue }).await
    }
}
