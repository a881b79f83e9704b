//! Channels whose requests take virtual time: a station's latency and share of
//! bandwidth around stores in memory.

mod objects;
mod queue;
mod tensors;

pub(crate) use objects::{Objects, SimObjects};
pub(crate) use queue::{Queues, SimQueue};
pub(crate) use tensors::{SimTensors, Tensors};
