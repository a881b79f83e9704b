//! Connections that speak the Redis protocol, and their errors.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::interfaces::ClientLike;
use fred::types::config::{Config, ConnectionConfig, ServerConfig, TcpConfig};
use fred::types::{Builder, ClusterHash, CustomCommand, Value};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use crate::endpoint::Endpoint;
use crate::{ChannelError, Payload, Result};

/// Pause before a command that a running script blocked is sent again.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// Address of a service that speaks the Redis protocol.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) service: &'static str,
    pub(super) endpoint: Endpoint,
}

/// One connection, closed when dropped.
pub(super) struct Connection {
    client: Client,
    address: Address,
    /// Closed when the connection has ended.
    ended: watch::Receiver<()>,
    _routing: AbortOnDropHandle<()>,
}

impl Connection {
    pub(super) async fn open(address: Address) -> Result<Self> {
        // Connect, with one attempt per command.
        let connecting = async {
            let client = Builder::from_config(address.config())
                .set_connection_config(ConnectionConfig {
                    connection_timeout: address.endpoint.connect_timeout(),
                    internal_command_timeout: address.endpoint.connect_timeout(),
                    max_command_attempts: 1,
                    tcp: TcpConfig {
                        nodelay: Some(true),
                        ..TcpConfig::default()
                    },
                    ..ConnectionConfig::default()
                })
                .build()?;
            let routing = AbortOnDropHandle::new(client.init().await?);
            Ok((client, routing))
        };
        let (client, routing) = connecting
            .await
            .map_err(|error| address.error("connect", &error))?;
        // Signal the end of the connection to pending commands.
        let (ending, ended) = watch::channel(());
        let routing = tokio::spawn(async move {
            // After any end of the routing task there are no more replies.
            let _ = routing.await;
            drop(ending);
        });
        Ok(Self {
            client,
            address,
            ended,
            _routing: AbortOnDropHandle::new(routing),
        })
    }

    /// Waits for the reply to a command or for the end of the connection, since the
    /// library drops commands that arrive while it closes.
    async fn reply(
        &self,
        command: &'static str,
        arguments: Vec<Value>,
    ) -> std::result::Result<Value, Error> {
        let mut ended = self.ended.clone();
        let command = CustomCommand::new_static(command, ClusterHash::FirstKey, false);
        tokio::select! {
            biased;
            reply = self.client.custom(command, arguments) => reply,
            _ = ended.changed() => Err(Error::new(ErrorKind::IO, "the connection was closed")),
        }
    }

    /// Longest time that one command may take.
    pub(super) fn limit(&self) -> Duration {
        self.address.endpoint.options.timeout
    }

    /// Sends one command and waits for its reply, for `longer` beyond the time-out
    /// of the endpoint.
    pub(super) async fn call_for(
        &self,
        command: &'static str,
        arguments: Vec<Value>,
        longer: Duration,
    ) -> Result<Value> {
        let limit = self.limit() + longer;
        let deadline = Instant::now() + limit;
        loop {
            let reply = self.reply(command, arguments.clone());
            match timeout_at(deadline, reply).await {
                Ok(Ok(reply)) => return Ok(reply),
                // Redis executed no part of the command.
                Ok(Err(error)) if is_busy(&error) && Instant::now() < deadline => {
                    sleep(BUSY_PAUSE).await;
                }
                Ok(Err(error)) => return Err(self.address.error(command, &error)),
                Err(_) => return Err(self.address.silent(command, limit)),
            }
        }
    }

    /// Sends one command and waits for its reply.
    pub(super) async fn call(&self, command: &'static str, arguments: Vec<Value>) -> Result<Value> {
        self.call_for(command, arguments, Duration::ZERO).await
    }

    /// Returns the error for a reply of an unexpected type.
    pub(super) fn unexpected(&self, command: &str) -> ChannelError {
        self.address.unexpected(command)
    }

    /// Sends a command whose reply is OK.
    pub(super) async fn done(&self, command: &'static str, arguments: Vec<Value>) -> Result<()> {
        self.call(command, arguments).await.map(drop)
    }

    /// Sends a command whose reply is a value or nil.
    pub(super) async fn value(
        &self,
        command: &'static str,
        arguments: Vec<Value>,
    ) -> Result<Option<Payload>> {
        let reply = self.call(command, arguments).await?;
        self.payload(command, reply)
    }

    /// Converts a reply that is a value or nil.
    pub(super) fn payload(&self, command: &'static str, reply: Value) -> Result<Option<Payload>> {
        match reply {
            Value::Null => Ok(None),
            reply => match reply.into_bytes() {
                Some(bytes) => Ok(Some(bytes.into())),
                None => Err(self.address.unexpected(command)),
            },
        }
    }

    /// Sends a command whose reply is a list of values.
    pub(super) async fn values(
        &self,
        command: &'static str,
        arguments: Vec<Value>,
    ) -> Result<Vec<Payload>> {
        let Value::Array(items) = self.call(command, arguments).await? else {
            return Err(self.address.unexpected(command));
        };
        let items = items.into_iter().map(Value::into_bytes);
        items
            .map(|item| item.map(Payload::from))
            .collect::<Option<_>>()
            .ok_or_else(|| self.address.unexpected(command))
    }

    /// Sends a command whose reply is a count.
    pub(super) async fn count(&self, command: &'static str, arguments: Vec<Value>) -> Result<u64> {
        let reply = self.call(command, arguments).await?;
        reply
            .as_u64()
            .ok_or_else(|| self.address.unexpected(command))
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
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        match idle {
            Some(connection) => Ok(connection),
            None => Connection::open(self.address.clone()).await,
        }
    }

    /// Keeps a connection for the next caller. A connection with a command or a
    /// transaction in progress must be dropped instead.
    pub(super) fn give(&self, connection: Connection) {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(connection);
    }
}

impl Address {
    fn config(&self) -> Config {
        let endpoint = &self.endpoint;
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Config {
            fail_fast: true,
            username: given(&endpoint.user),
            password: given(endpoint.password.reveal()),
            server: ServerConfig::new_centralized(
                endpoint.host.as_str(),
                endpoint.port.unwrap_or_default(),
            ),
            ..Config::default()
        }
    }

    fn error(&self, operation: &str, error: &Error) -> ChannelError {
        let details = error.details();
        match missing_key(details) {
            Some(key) => ChannelError::Missing {
                service: self.service,
                key,
            },
            None if answered(error) => ChannelError::Refused {
                service: self.service,
                operation: operation.to_owned(),
                reason: details.to_owned(),
            },
            None => self.unreachable(error.to_string()),
        }
    }

    /// Returns the error for a service that did not answer within `limit`.
    fn silent(&self, operation: &str, limit: Duration) -> ChannelError {
        self.unreachable(format!(
            "no answer to {operation} within {} s",
            limit.as_secs()
        ))
    }

    fn unreachable(&self, reason: String) -> ChannelError {
        ChannelError::Unreachable {
            service: self.service,
            endpoint: self.endpoint.to_string(),
            reason,
        }
    }

    fn unexpected(&self, operation: &str) -> ChannelError {
        ChannelError::Refused {
            service: self.service,
            operation: operation.to_owned(),
            reason: "the reply has another type than this command's".into(),
        }
    }
}

/// Returns whether Redis refused the command because a script was running.
fn is_busy(error: &Error) -> bool {
    error.details().starts_with("BUSY ")
}

/// Returns whether the server sent the error, and not the transport.
fn answered(error: &Error) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::IO
            | ErrorKind::Timeout
            | ErrorKind::Canceled
            | ErrorKind::Routing
            | ErrorKind::Url
            | ErrorKind::Config
            | ErrorKind::Backpressure
    )
}

/// Extracts the key of the error `ERR no such key "…"`.
fn missing_key(details: &str) -> Option<String> {
    serde_json::from_str(details.strip_prefix("ERR no such key ")?).ok()
}

/// Converts a value to an argument, without a copy.
pub(super) fn blob(value: &Payload) -> Result<Value> {
    value
        .bytes()
        .map(|bytes: &Bytes| Value::Bytes(bytes.clone()))
}

/// Appends keys to the arguments.
pub(super) fn with_keys(mut arguments: Vec<Value>, keys: Vec<String>) -> Vec<Value> {
    arguments.extend(keys.into_iter().map(Value::from));
    arguments
}
