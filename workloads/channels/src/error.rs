use thiserror::Error;

/// Why a channel operation failed.
#[derive(Debug, Error)]
pub enum ChannelError {
    /// An endpoint that cannot be used. Its text is not repeated: it may hold a password.
    #[error("failed to use an endpoint: {reason}")]
    Endpoint {
        /// What is wrong with it.
        reason: String,
    },
    /// The server could not be reached, or the connection broke.
    #[error("failed to reach {service} at {endpoint}: {reason}")]
    Unreachable {
        /// Which service: object store, tensor store or queue.
        service: &'static str,
        /// Its address.
        endpoint: String,
        /// What the transport said.
        reason: String,
    },
    /// The service answered that it will not do this.
    #[error("{service} refused {operation}: {reason}")]
    Refused {
        /// Which service.
        service: &'static str,
        /// The operation and the key it was about.
        operation: String,
        /// What the service said.
        reason: String,
    },
    /// A value that must be there is not.
    #[error("{service} holds no {key:?}")]
    Missing {
        /// Which service.
        service: &'static str,
        /// The key asked for.
        key: String,
    },
    /// The content of a value was asked for where only its size is known.
    #[error("the content of a phantom value of {bytes} bytes was asked for")]
    Phantom {
        /// Its size.
        bytes: u64,
    },
    /// A value has another shape than the operation needs.
    #[error("failed to combine tensors: {0}")]
    Kernel(#[from] epochcost_kernels::KernelError),
}
