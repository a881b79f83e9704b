//! Connections that speak the Redis protocol, and their errors.

use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use redis_protocol::resp2::types::BytesFrame;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::wire::{Asked, Failure, Wire};
use crate::endpoint::Endpoint;
use crate::{ChannelError, Payload, Result, locked};

/// Pause before a command that a running script blocked is sent again.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// What Redis answers to a password where it has none, before version 6 and since.
const NO_PASSWORD_IS_SET: [&str; 2] = [
    "ERR Client sent AUTH, but no password is set",
    "ERR AUTH <password> called without any password configured for the default user",
];

/// Address of a service that speaks the Redis protocol.
#[derive(Clone, Debug)]
pub(super) struct Address {
    service: &'static str,
    endpoint: Endpoint,
}

/// One connection, closed when dropped.
pub(super) struct Connection {
    wire: Wire,
    address: Address,
}

impl Connection {
    pub(super) async fn open(address: Address) -> Result<Self> {
        let limit = address.endpoint.connect_timeout();
        match timeout(limit, address.connect()).await {
            Ok(wire) => Ok(Self {
                wire: wire?,
                address,
            }),
            Err(_) => Err(address.silent("connect", limit)),
        }
    }

    /// Longest time that one command may take.
    pub(super) fn limit(&self) -> Duration {
        self.address.endpoint.options.timeout
    }

    /// Sends one command.
    pub(super) fn start(&self, command: &'static str, arguments: Vec<Bytes>) -> Asked {
        self.wire.start(command, arguments)
    }

    /// Waits for the reply to a command that was started, for `longer` beyond the time-out of the
    /// endpoint.
    pub(super) async fn reply(
        &self,
        command: &'static str,
        asked: &mut Asked,
        longer: Duration,
    ) -> Result<BytesFrame> {
        let limit = self.limit() + longer;
        match timeout(limit, self.wire.reply(asked)).await {
            Ok(reply) => reply.map_err(|failure| self.address.error(command, failure)),
            Err(_) => Err(self.address.silent(command, limit)),
        }
    }

    /// Sends nothing more, and returns the reply to a command if it was on its way.
    pub(super) async fn end(self, asked: Asked) -> Option<BytesFrame> {
        let limit = self.limit();
        timeout(limit, self.wire.end(asked)).await.ok().flatten()
    }

    /// Sends one command and waits for its reply.
    pub(super) async fn call(
        &self,
        command: &'static str,
        arguments: Vec<Bytes>,
    ) -> Result<BytesFrame> {
        self.call_for(command, arguments, Duration::ZERO).await
    }

    /// Sends one command and waits for its reply, for `longer` beyond the time-out
    /// of the endpoint.
    pub(super) async fn call_for(
        &self,
        command: &'static str,
        arguments: Vec<Bytes>,
        longer: Duration,
    ) -> Result<BytesFrame> {
        let limit = self.limit() + longer;
        let deadline = Instant::now() + limit;
        loop {
            let reply = self.wire.ask(command, arguments.clone());
            match timeout_at(deadline, reply).await {
                Ok(Ok(reply)) => return Ok(reply),
                // Redis executed no part of the command.
                Ok(Err(failure)) if is_busy(&failure) && Instant::now() < deadline => {
                    sleep(BUSY_PAUSE).await;
                }
                Ok(Err(failure)) => return Err(self.address.error(command, failure)),
                Err(_) => return Err(self.address.silent(command, limit)),
            }
        }
    }

    /// Returns the error for a reply of an unexpected type.
    pub(super) fn unexpected(&self, command: &str) -> ChannelError {
        let reason = "the reply has another type than this command's";
        ChannelError::refused(self.address.service, command, reason)
    }

    /// Sends a command whose reply is OK.
    pub(super) async fn done(&self, command: &'static str, arguments: Vec<Bytes>) -> Result<()> {
        self.call(command, arguments).await.map(drop)
    }

    /// Sends a command whose reply is a value or nil.
    pub(super) async fn value(
        &self,
        command: &'static str,
        arguments: Vec<Bytes>,
    ) -> Result<Option<Payload>> {
        let reply = self.call(command, arguments).await?;
        self.payload(command, reply)
    }

    /// Converts a reply that is a value or nil.
    pub(super) fn payload(
        &self,
        command: &'static str,
        reply: BytesFrame,
    ) -> Result<Option<Payload>> {
        match reply {
            BytesFrame::Null => Ok(None),
            reply => match text(reply) {
                Some(bytes) => Ok(Some(bytes.into())),
                None => Err(self.unexpected(command)),
            },
        }
    }

    /// Sends a command whose reply is a list of values.
    pub(super) async fn values(
        &self,
        command: &'static str,
        arguments: Vec<Bytes>,
    ) -> Result<Vec<Payload>> {
        let BytesFrame::Array(items) = self.call(command, arguments).await? else {
            return Err(self.unexpected(command));
        };
        texts(items)
            .map(|items| items.into_iter().map(Payload::from).collect())
            .ok_or_else(|| self.unexpected(command))
    }

    /// Sends a command whose reply is a count.
    pub(super) async fn count(&self, command: &'static str, arguments: Vec<Bytes>) -> Result<u64> {
        match self.call(command, arguments).await? {
            BytesFrame::Integer(count) => u64::try_from(count).ok(),
            _ => None,
        }
        .ok_or_else(|| self.unexpected(command))
    }
}

/// Connections, each used by one caller at a time.
pub(super) struct Pool {
    address: Address,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    pub(super) fn new(address: Address) -> Self {
        Self {
            address,
            idle: Mutex::default(),
        }
    }

    /// Takes an idle connection, or opens a new one.
    pub(super) async fn take(&self) -> Result<Connection> {
        let idle = locked(&self.idle).pop();
        match idle {
            Some(connection) => Ok(connection),
            None => Connection::open(self.address.clone()).await,
        }
    }

    /// Keeps a connection for the next caller. A connection with a command or a
    /// transaction in progress must be dropped instead.
    pub(super) fn give(&self, connection: Connection) {
        locked(&self.idle).push(connection);
    }
}

impl Address {
    pub(super) fn new(service: &'static str, endpoint: Endpoint) -> Self {
        Self { service, endpoint }
    }

    /// Connects and gives the password; without one, asks for any answer.
    async fn connect(&self) -> Result<Wire> {
        let endpoint = &self.endpoint;
        let wire = Wire::open(&endpoint.authority()).await;
        let wire = wire.map_err(|error| self.unreachable(error.to_string()))?;
        let given = [endpoint.user.as_str(), endpoint.password.reveal()];
        let (command, given) = match given {
            [_, ""] => ("PING", &[][..]),
            ["", password] => ("AUTH", &[password][..]),
            [user, password] => ("AUTH", &[user, password][..]),
        };
        let words = given
            .iter()
            .map(|word| Bytes::copy_from_slice(word.as_bytes()));
        match wire.ask(command, words.collect()).await {
            Err(Failure::Answered(text))
                if NO_PASSWORD_IS_SET
                    .iter()
                    .any(|known| text.starts_with(known)) =>
            {
                Ok(wire)
            }
            Err(failure) => Err(self.error("connect", failure)),
            Ok(_) => Ok(wire),
        }
    }

    fn error(&self, operation: &str, failure: Failure) -> ChannelError {
        let reason = match failure {
            Failure::Answered(reason) => reason,
            Failure::Closed => return self.unreachable("the connection was closed"),
        };
        match missing_key(&reason) {
            Some(key) => ChannelError::missing(self.service, key),
            None => ChannelError::refused(self.service, operation, reason),
        }
    }

    /// Returns the error for a service that did not answer within `limit`.
    fn silent(&self, operation: &str, limit: Duration) -> ChannelError {
        ChannelError::silent(self.service, &self.endpoint, operation, limit)
    }

    fn unreachable(&self, reason: impl Into<String>) -> ChannelError {
        ChannelError::unreachable(self.service, &self.endpoint, reason)
    }
}

/// Returns whether Redis refused the command because a script was running.
fn is_busy(failure: &Failure) -> bool {
    matches!(failure, Failure::Answered(text) if text.starts_with("BUSY "))
}

/// Extracts the key of the error `ERR no such key "…"`.
fn missing_key(details: &str) -> Option<String> {
    serde_json::from_str(details.strip_prefix("ERR no such key ")?).ok()
}

/// Converts a value to an argument, without a copy.
pub(super) fn blob(value: &Payload) -> Result<Bytes> {
    value.bytes().cloned()
}

/// Returns the bytes of a reply that has some.
fn text(reply: BytesFrame) -> Option<Bytes> {
    match reply {
        BytesFrame::BulkString(bytes) | BytesFrame::SimpleString(bytes) => Some(bytes),
        _ => None,
    }
}

/// Returns the bytes of every item of a list.
pub(super) fn texts(items: Vec<BytesFrame>) -> Option<Vec<Bytes>> {
    items.into_iter().map(text).collect()
}
