//! Pure `f32` arithmetic of gradient exchange: reductions, optimizers, codecs
//! and filters, over flat vectors.
//!
//! Every function is deterministic: no I/O, no clock, no threads, and no
//! randomness but the seeded [`hash`]. Reductions accumulate in `f32`, one
//! element at a time, in the order the vectors are given (rank order), so a
//! worker, the embedded tensor store and the in-database module get the same
//! bits from the same inputs. Length mismatches and malformed payloads are
//! [`KernelError`]s, never panics.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod attack;
pub mod chunk;
pub mod codec;
mod error;
pub mod filter;
pub mod hash;
pub mod optimizer;
pub mod reduce;

pub use chunk::chunk_range;
pub use error::KernelError;
