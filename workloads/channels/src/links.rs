use crate::{Caller, ChannelError, Command, Fare, Payload, Result};

/// A request to the connections of a worker; workers are named by their ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkCommand {
    /// Makes this worker reachable, and answers with its address.
    Listen {
        /// This worker.
        rank: usize,
    },
    /// Connects this worker to another.
    Connect {
        /// This worker.
        rank: usize,
        /// The other worker.
        to: usize,
        /// Address at which it listens.
        address: String,
    },
    /// Sends a message to a worker that this one is connected to.
    Send {
        /// This worker.
        rank: usize,
        /// The other worker.
        to: usize,
        /// The message.
        message: Payload,
    },
    /// Takes the oldest message from another worker, and waits for it.
    Receive {
        /// This worker.
        rank: usize,
        /// The other worker.
        from: usize,
    },
}

/// Messages over links are counted as those of a queue are: one each when it is sent and when it is
/// received. One takes its latency and its time on the sender's link on its way, and its time on the
/// receiver's link when it is taken.
impl Command for LinkCommand {
    fn fare(&self) -> Fare {
        match self {
            Self::Listen { .. } | Self::Connect { .. } => Fare::Uncounted,
            Self::Send { message, .. } => Fare::Message(message.len()),
            Self::Receive { .. } => Fare::Delivery,
        }
    }

    fn names(&mut self) -> Vec<&mut String> {
        Vec::new()
    }

    fn has_latency(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Send { .. })
    }
}

/// Connections between the workers of a trial, which talk to each other without a service.
///
/// Every worker is named by its rank; messages from one worker to another arrive in order.
pub type Links = Caller<LinkCommand>;

impl Caller<LinkCommand> {
    /// Makes worker `rank`, which is this one, reachable; returns the address at which.
    pub async fn listen(&self, rank: usize) -> Result<String> {
        self.run(LinkCommand::Listen { rank }).await?.address()
    }

    /// Connects worker `rank` to the worker `to`, which listens at `address`.
    pub async fn connect(&self, rank: usize, to: usize, address: &str) -> Result<()> {
        let address = address.to_owned();
        self.done(LinkCommand::Connect { rank, to, address }).await
    }

    /// Sends `message` from worker `rank` to the worker `to`, to which it is connected.
    pub async fn send(&self, rank: usize, to: usize, message: Payload) -> Result<()> {
        self.done(LinkCommand::Send { rank, to, message }).await
    }

    /// Takes the oldest message of worker `from` to worker `rank`, and waits for it; an
    /// error once that worker is gone.
    pub async fn receive(&self, rank: usize, from: usize) -> Result<Payload> {
        let message = self.run(LinkCommand::Receive { rank, from }).await?;
        message.value()?.ok_or_else(|| ChannelError::closed(from))
    }
}
