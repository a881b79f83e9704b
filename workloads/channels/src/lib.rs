//! The channels between workers: an object store, a tensor store, a message queue, and links.
//!
//! A request to a channel is data ([`Command`]); whatever carries it out is a [`Channel`] with one
//! method: the stores in memory ([`memory`]) that the embedded servers ([`embedded`]) put on loopback,
//! and clients that reach those servers or the real services over the same protocols ([`client`]). Layers
//! around a channel are written once for all commands: a [`Caller`] counts requests, messages and bytes
//! on a [`Meter`] and has a call for each, [`shaped`] gives it the bandwidth and latency of another
//! network, and [`Scope`] keeps the names of trials apart.
//!
//! Values are [`Payload`]s: bytes, or in a simulation a phantom of a size.

use std::sync::{Mutex, MutexGuard, PoisonError};

mod absent;
mod allowance;
mod channel;
pub mod client;
pub mod embedded;
mod endpoint;
mod error;
mod links;
pub mod memory;
mod objects;
mod payload;
mod queue;
pub mod reference;
mod scope;
pub mod shaped;
mod stash;
mod stored;
mod tensors;
mod traffic;

pub use absent::Absent;
pub use allowance::Allowance;
pub use channel::{Caller, Channel, Command, Fare, Reply};
pub use endpoint::{Endpoint, Scheme};
pub use epochcost_tensor_commands::{
    Operation, OperationKind, RobustMean, RobustRule, SgdStep, robust_mean,
};
pub use error::ChannelError;
pub use links::{LinkCommand, Links};
pub use objects::{ListPage, ObjectCommand, ObjectStore};
pub use payload::Payload;
pub use queue::{Queue, QueueCommand};
pub use scope::Scope;
pub use shaped::{LatencyMs, Link, NetworkShape};
pub use stored::Stored;
pub use tensors::TensorStore;
pub use traffic::{Meter, Traffic};

/// Locks `mutex`, also after another holder panicked: no critical section here leaves its data half
/// changed.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Result of a channel operation.
pub type Result<T, E = ChannelError> = std::result::Result<T, E>;

/// A request to a tensor store.
pub type TensorCommand = epochcost_tensor_commands::TensorCommand<Payload>;
