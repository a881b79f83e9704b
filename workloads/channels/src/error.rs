//! Errors of channels.

use std::time::Duration;

use epochcost_kernels::KernelError;
use thiserror::Error;

use crate::Endpoint;

/// Why a channel operation failed.
#[derive(Debug, Error)]
pub enum ChannelError {
    /// An unusable endpoint. The error does not repeat its text, which may hold a password.
    #[error("failed to use an endpoint: {reason}")]
    Endpoint {
        /// The defect of the endpoint.
        reason: String,
    },
    /// The server could not be reached, or the connection broke.
    #[error("failed to reach {service} at {endpoint}: {reason}")]
    Unreachable {
        /// Name of the service: object store, tensor store or queue.
        service: &'static str,
        /// Address of the service.
        endpoint: String,
        /// Error of the transport.
        reason: String,
    },
    /// The service refused the operation.
    #[error("{service} refused {operation}: {reason}")]
    Refused {
        /// Name of the service.
        service: &'static str,
        /// The operation and the key that it named.
        operation: String,
        /// Answer of the service.
        reason: String,
    },
    /// An invocation asked for more than it may.
    #[error(
        "an invocation sent more than {allowed} {what} to the object store, the most that its forecast allows"
    )]
    Spent {
        /// Requests of one price.
        what: &'static str,
        /// The most of them.
        allowed: u64,
    },
    /// A required value is missing.
    #[error("{service} holds no {key:?}")]
    Missing {
        /// Name of the service.
        service: &'static str,
        /// The requested key.
        key: String,
    },
    /// An operation needs the content of a value of which only the size is known.
    #[error("the content of a phantom value of {bytes} bytes was asked for")]
    Phantom {
        /// Size of the value.
        bytes: u64,
    },
    /// A value does not have the shape that the operation needs.
    ///
    /// The text includes that of the kernel, since it is the reply on the wire, so
    /// that the kernel's error is not a source as well.
    #[error("failed to combine tensors: {0}")]
    Kernel(KernelError),
}

impl ChannelError {
    /// Returns the error of a link to a worker that is not connected, or no longer.
    pub(crate) fn closed(rank: usize) -> Self {
        let reason = "it is not connected, or has ended";
        Self::unreachable("a link between workers", format!("worker {rank}"), reason)
    }

    /// Returns the error of a service that cannot be reached at `endpoint`.
    pub fn unreachable(
        service: &'static str,
        endpoint: impl ToString,
        reason: impl Into<String>,
    ) -> Self {
        Self::Unreachable {
            service,
            endpoint: endpoint.to_string(),
            reason: reason.into(),
        }
    }

    /// Returns the error of a service that did not answer within `limit`.
    pub(crate) fn silent(
        service: &'static str,
        endpoint: &Endpoint,
        operation: &str,
        limit: Duration,
    ) -> Self {
        let seconds = limit.as_secs();
        let reason = format!("no answer to {operation} within {seconds} s");
        Self::unreachable(service, endpoint, reason)
    }

    /// Returns the error of a service that refused an operation.
    pub fn refused(
        service: &'static str,
        operation: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self::Refused {
            service,
            operation: operation.into(),
            reason: reason.into(),
        }
    }

    /// Returns the error of a service without a value at `key`.
    pub fn missing(service: &'static str, key: impl Into<String>) -> Self {
        let key = key.into();
        Self::Missing { service, key }
    }

    /// Returns the error for an unusable endpoint.
    pub(crate) fn endpoint(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Endpoint { reason }
    }
}

impl From<KernelError> for ChannelError {
    fn from(error: KernelError) -> Self {
        Self::Kernel(error)
    }
}
