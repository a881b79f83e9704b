//! Commands, the channels that carry them out, and their callers.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{ChannelError, ListPage, Meter, Payload, Result};

/// A request of one kind of channel: everything that the layers above a service need to know of it.
pub trait Command: Clone + Send + Sync + 'static {
    /// Returns what the request counts as.
    fn fare(&self) -> Fare;
    /// Returns the names that a [`Scope`](crate::Scope) prefixes.
    fn names(&mut self) -> Vec<&mut String>;
    /// Returns whether the request takes the latency of the channel.
    fn has_latency(&self) -> bool {
        true
    }
}

/// A service, or a layer above one, that carries out the commands `C`; each is one request.
#[async_trait]
pub trait Channel<C: Command>: Send + Sync {
    /// Carries out `command`.
    async fn run(&self, command: C) -> Result<Reply>;
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The command was carried out.
    Done,
    /// The command was carried out, and removed objects of so many bytes: all of them where the
    /// store itself answers, else those whose sizes its client knows.
    Removed(u64),
    /// The value, or `None` if there is none.
    Value(Option<Payload>),
    /// A page of keys.
    Page(ListPage),
    /// A number of messages or queues.
    Count(u64),
    /// An address.
    Address(String),
}

impl Reply {
    /// Returns the payload bytes of the value, if there is one.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Self::Value(Some(value)) => Some(value.len()),
            _ => None,
        }
    }

    /// Returns the bytes of the objects that the command removed.
    #[must_use]
    pub fn removed(&self) -> u64 {
        match self {
            Self::Removed(bytes) => *bytes,
            _ => 0,
        }
    }

    /// Returns the value, or `None` if there is none.
    ///
    /// # Errors
    /// [`ChannelError::Refused`] for another kind of reply, as for those below.
    pub fn value(self) -> Result<Option<Payload>> {
        match self {
            Self::Value(value) => Ok(value),
            other => Err(other.unexpected()),
        }
    }

    pub(crate) fn page(self) -> Result<ListPage> {
        match self {
            Self::Page(page) => Ok(page),
            other => Err(other.unexpected()),
        }
    }

    pub(crate) fn count(self) -> Result<u64> {
        match self {
            Self::Count(count) => Ok(count),
            other => Err(other.unexpected()),
        }
    }

    pub(crate) fn address(self) -> Result<String> {
        match self {
            Self::Address(address) => Ok(address),
            other => Err(other.unexpected()),
        }
    }

    fn unexpected(self) -> ChannelError {
        let reason = format!("the reply {self:?} is of another kind than this command's");
        ChannelError::refused("a channel", "a command", reason)
    }
}

impl From<()> for Reply {
    fn from((): ()) -> Self {
        Self::Done
    }
}

impl From<Option<Payload>> for Reply {
    fn from(value: Option<Payload>) -> Self {
        Self::Value(value)
    }
}

/// What a request counts as on a [`Meter`], with the payload bytes that it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fare {
    /// A value written, of so many bytes.
    Put(u64),
    /// A value read, or a missed get.
    Get,
    /// A page listed.
    List,
    /// A delete.
    Delete,
    /// A message sent, of so many bytes.
    Message(u64),
    /// A message received, or a poll in vain.
    Delivery,
    /// A poll.
    Poll,
    /// A command computed in the store.
    InStore,
    /// Nothing.
    Uncounted,
}

impl Fare {
    /// Returns the payload bytes that the request sends.
    #[must_use]
    pub const fn up_bytes(self) -> u64 {
        match self {
            Self::Put(bytes) | Self::Message(bytes) => bytes,
            _ => 0,
        }
    }
}

/// A channel as its user has it, with a call for every command. Cheap to clone.
#[derive(Clone)]
pub struct Caller<C: Command> {
    pub(crate) channel: Arc<dyn Channel<C>>,
    meter: Option<Meter>,
}

impl<C: Command> Caller<C> {
    /// Returns a caller of `channel` whose traffic is not counted.
    pub fn new(channel: Arc<dyn Channel<C>>) -> Self {
        let meter = None;
        Self { channel, meter }
    }

    /// Returns a caller of the same channel whose traffic is counted on `meter`. Failed requests are
    /// not counted.
    #[must_use]
    pub fn metered(&self, meter: &Meter) -> Self {
        let (channel, meter) = (self.channel.clone(), Some(meter.clone()));
        Self { channel, meter }
    }

    /// Carries out `command`.
    ///
    /// # Errors
    /// [`ChannelError`], as of all calls.
    pub fn run(&self, command: C) -> impl Future<Output = Result<Reply>> + Send {
        let fare = command.fare();
        // The command is the channel's from here on: the futures of callers do not carry it.
        let reply = self.channel.run(command);
        async move {
            let reply = reply.await?;
            if let Some(meter) = &self.meter {
                meter.count(fare, &reply);
            }
            Ok(reply)
        }
    }

    /// Carries out a command whose reply says no more than that.
    pub(crate) fn done(&self, command: C) -> impl Future<Output = Result<()>> + Send {
        let reply = self.run(command);
        async { reply.await.map(drop) }
    }
}
