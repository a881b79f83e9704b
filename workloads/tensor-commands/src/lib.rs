//! The tensor store's commands, `TENSOR.*`, apart from any
//! server: how their arguments are read, what is refused in which words, in
//! which order values are looked up, and what is computed of them.
//!
//! The embedded store and the Redis module both speak through this crate, so
//! that a reply or a bit that one gives, the other gives too. It holds no
//! values and knows no protocol.
//!
//! # Atomicity
//!
//! A command that fails changes nothing. Commands that write one key (a tensor and its velocity) run
//! one after another, others may run in parallel.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod arguments;
mod command;
mod error;
mod operation;
mod rules;

pub use arguments::Arguments;
pub use command::{MAX_SOURCES, TensorCommand, positions_of_keys};
pub use error::{CommandError, one_line};
pub use operation::{Inputs, Operation, OperationKind, Outputs, Written, compute, robust_mean};
pub use rules::{RobustMean, RobustRule, SgdStep};

/// Returns the key of the velocity of the parameters at `key`.
#[must_use]
pub fn velocity_key(key: &str) -> String {
    format!("{key}{VELOCITY_SUFFIX}")
}

/// Suffix of a velocity's key.
pub const VELOCITY_SUFFIX: &str = ":velocity";
