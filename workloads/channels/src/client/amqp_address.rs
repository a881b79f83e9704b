//! The address of an AMQP broker, and the translation of its errors.

use std::time::Duration;

use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use lapin::{ConnectionProperties, ErrorKind};

use crate::{ChannelError, Endpoint};

/// Name of the service.
pub(super) const SERVICE: &str = "queue";

/// Longest name of a queue or exchange on the wire.
pub(super) const NAME_BYTES: usize = 255;

/// Address of a broker that speaks AMQP 0-9-1.
pub(super) struct Address(pub(super) Endpoint);

impl Address {
    pub(super) fn uri(&self) -> AMQPUri {
        let endpoint = &self.0;
        let vhost = match endpoint.path.as_str() {
            "" => "/",
            path => path,
        };
        AMQPUri {
            scheme: AMQPScheme::AMQP,
            authority: AMQPAuthority {
                userinfo: AMQPUserInfo {
                    username: endpoint.user.clone(),
                    password: endpoint.password.reveal().to_owned(),
                },
                host: endpoint.host.clone(),
                port: endpoint.port.unwrap_or_default(),
            },
            vhost: vhost.to_owned(),
            query: AMQPQueryString {
                connection_timeout: u64::try_from(endpoint.connect_timeout().as_millis()).ok(),
                // A function is frozen between invocations and could not answer.
                heartbeat: Some(0),
                ..AMQPQueryString::default()
            },
        }
    }

    /// Returns the properties of a connection: no recovery, so that a broken one stays broken.
    pub(super) fn properties() -> ConnectionProperties {
        ConnectionProperties::default().with_connection_name("epochcost".into())
    }

    pub(super) fn error(
        &self,
        operation: &str,
        missing: Option<&str>,
        error: &lapin::Error,
    ) -> ChannelError {
        let ErrorKind::ProtocolError(protocol_error) = error.kind() else {
            return self.unreachable(error.to_string());
        };
        let reason = protocol_error.get_message().to_string();
        match (protocol_error.kind(), missing) {
            (AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND), Some(name)) => {
                ChannelError::missing(SERVICE, name)
            }
            (AMQPErrorKind::Hard(AMQPHardError::CONNECTIONFORCED), _) => self.unreachable(reason),
            _ => ChannelError::refused(SERVICE, operation, reason),
        }
    }

    /// Returns the error for a broker that did not answer within `limit`.
    pub(super) fn silent(&self, operation: &str, limit: Duration) -> ChannelError {
        ChannelError::silent(SERVICE, &self.0, operation, limit)
    }

    pub(super) fn unreachable(&self, reason: impl Into<String>) -> ChannelError {
        ChannelError::unreachable(SERVICE, &self.0, reason)
    }
}
