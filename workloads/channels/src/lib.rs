//! The channels between workers: an object store, a tensor store and a message
//! queue.
//!
//! Each channel is a small trait ([`ObjectStore`], [`TensorStore`], [`Queue`])
//! with an in-memory implementation ([`memory`]) that the embedded servers
//! ([`embedded`]) put on loopback, clients that reach those servers or the
//! real services over the same protocols ([`client`]), and one metering
//! decorator ([`metered`]) that counts requests, messages and bytes. Another
//! ([`shaped`]) gives them the bandwidth and latency of another network.
//!
//! Values are [`Payload`]s: bytes, or in a simulation a phantom of a size.

mod absent;
pub mod client;
pub mod embedded;
mod endpoint;
mod error;
pub mod memory;
pub mod metered;
mod payload;
pub mod reference;
mod scope;
pub mod shaped;
mod stash;
mod traits;

pub use absent::{AbsentLinks, AbsentQueue};
pub use endpoint::{Endpoint, Scheme};
pub use epochcost_tensor_commands::{RobustMean, RobustRule, SgdStep, robust_mean};
pub use error::ChannelError;
pub use metered::{Meter, Traffic};
pub use payload::Payload;
pub use scope::Scope;
pub use shaped::{LatencyMs, Link, NetworkShape, Shaped};
pub use traits::{Links, ListPage, ObjectStore, Queue, TensorStore};

/// Result of a channel operation.
pub type Result<T, E = ChannelError> = std::result::Result<T, E>;
