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

/// Pause before a command is sent again that a script held up.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// A service behind the Redis protocol.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) service: &'static str,
    pub(super) endpoint: Endpoint,
}

/// A connection; closes when dropped.
pub(super) struct Connection {
    client: Client,
    address: Address,
    /// Closed when the connection has ended.
    ended: watch::Receiver<()>,
    _routing: AbortOnDropHandle<()>,
}

impl Connection {
    pub(super) async fn open(address: Address) -> Result<Self> {
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
        let (ending, ended) = watch::channel(());
        let routing = tokio::spawn(async move {
            // However it ends, nothing more will be answered.
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

    /// The reply to a command, or that the connection ended: the library
    /// forgets commands that come while it closes.
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

    /// Sends one command and waits for its reply, as long as the endpoint says
    /// and `longer`.
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
                // Redis has carried out nothing of it.
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

    /// The refusal of a reply that makes no sense.
    pub(super) fn unexpected(&self, command: &str) -> ChannelError {
        self.address.unexpected(command)
    }

    /// Sends a command whose reply says only that it was done.
    pub(super) async fn done(&self, command: &'static str, arguments: Vec<Value>) -> Result<()> {
        self.call(command, arguments).await.map(drop)
    }

    /// Sends a command that answers with a value, or with nil.
    pub(super) async fn value(
        &self,
        command: &'static str,
        arguments: Vec<Value>,
    ) -> Result<Option<Payload>> {
        let reply = self.call(command, arguments).await?;
        self.payload(command, reply)
    }

    /// A reply that is a value, or nil.
    pub(super) fn payload(&self, command: &'static str, reply: Value) -> Result<Option<Payload>> {
        match reply {
            Value::Null => Ok(None),
            reply => match reply.into_bytes() {
                Some(bytes) => Ok(Some(bytes.into())),
                None => Err(self.address.unexpected(command)),
            },
        }
    }

    /// Sends a command that answers with a list of values.
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

    /// Sends a command that answers with a count.
    pub(super) async fn count(&self, command: &'static str, arguments: Vec<Value>) -> Result<u64> {
        let reply = self.call(command, arguments).await?;
        reply
            .as_u64()
            .ok_or_else(|| self.address.unexpected(command))
    }
}

/// Connections that one caller at a time has to itself.
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

    /// An idle connection, or a new one.
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

    /// Keeps a connection for the next caller. One that is in the middle of
    /// something must be dropped instead.
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

    /// The service did not answer within `limit`.
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

/// Whether the error came from the server and not from the way to it.
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

/// The key of the error `ERR no such key "…"`.
fn missing_key(details: &str) -> Option<String> {
    serde_json::from_str(details.strip_prefix("ERR no such key ")?).ok()
}

/// The value as an argument, without a copy.
pub(super) fn blob(value: &Payload) -> Result<Value> {
    value
        .bytes()
        .map(|bytes: &Bytes| Value::Bytes(bytes.clone()))
}

/// Some keys as arguments, behind others.
pub(super) fn with_keys(mut arguments: Vec<Value>, keys: &[String]) -> Vec<Value> {
    arguments.extend(keys.iter().map(|key| Value::from(key.as_str())));
    arguments
}
