//! The channels in the memory of this process, shared by cloning an `Arc`.
//!
//! Stores and queue hold [`Payload`](crate::Payload)s of either kind. The
//! [`embedded`](crate::embedded) servers serve them on loopback.

pub(crate) mod compute;
mod key_locks;
mod links;
mod objects;
mod queue;
mod tensors;

pub use links::MemoryLinks;
pub use objects::MemoryObjects;
pub(crate) use objects::{PAGE_KEYS, check_delete, check_range, cut};
pub use queue::MemoryQueue;
pub use tensors::MemoryTensors;
