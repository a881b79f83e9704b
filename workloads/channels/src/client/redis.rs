//! One connection that speaks the Redis protocol, and its errors.

use std::time::Duration;

use bytes::Bytes;
use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::interfaces::ClientLike;
use fred::types::config::{Config, ConnectionConfig, TcpConfig};
use fred::types::{Builder, ClusterHash, CustomCommand, Value};
use tokio_util::task::AbortOnDropHandle;

use crate::{ChannelError, Payload, Result};

/// A service behind the Redis protocol.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) service: &'static str,
    pub(super) endpoint: String,
}

/// A connection; closes when dropped.
pub(super) struct Connection {
    client: Client,
    address: Address,
    _routing: AbortOnDropHandle<std::result::Result<(), Error>>,
}

impl Connection {
    pub(super) async fn open(address: Address) -> Result<Self> {
        let connecting = async {
            let config = Config::from_url(&address.endpoint)?;
            let client = Builder::from_config(Config {
                fail_fast: true,
                ..config
            })
            .set_connection_config(ConnectionConfig {
                connection_timeout: Duration::from_secs(10),
                max_command_attempts: 1,
                tcp: TcpConfig {
                    nodelay: Some(true),
                    ..TcpConfig::default()
                },
                ..ConnectionConfig::default()
            })
            .build()?;
            let routing = client.init().await?;
            Ok((client, AbortOnDropHandle::new(routing)))
        };
        match connecting.await {
            Ok((client, _routing)) => Ok(Self {
                client,
                address,
                _routing,
            }),
            Err(error) => Err(address.error("connect", &error)),
        }
    }

    /// Sends one command and waits for its reply.
    pub(super) async fn call(&self, command: &'static str, arguments: Vec<Value>) -> Result<Value> {
        let custom = CustomCommand::new_static(command, ClusterHash::FirstKey, false);
        let reply: std::result::Result<Value, Error> = self.client.custom(custom, arguments).await;
        reply.map_err(|error| self.address.error(command, &error))
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
        match self.call(command, arguments).await? {
            Value::Null => Ok(None),
            reply => match reply.into_bytes() {
                Some(bytes) => Ok(Some(bytes.into())),
                None => Err(self.address.unexpected(command)),
            },
        }
    }

    /// Sends a command that answers with a count.
    pub(super) async fn count(&self, command: &'static str, arguments: Vec<Value>) -> Result<u64> {
        let reply = self.call(command, arguments).await?;
        reply
            .as_u64()
            .ok_or_else(|| self.address.unexpected(command))
    }
}

impl Address {
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
            None => ChannelError::Unreachable {
                service: self.service,
                endpoint: self.endpoint.clone(),
                reason: error.to_string(),
            },
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
