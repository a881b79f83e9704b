//! Plans and validations in virtual time ([`forecast`]), compute profiles of
//! this machine ([`profiling`]), and every error of a verb ([`error`]).
//!
//! It imports every crate of the harness but `epochcost`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod columns;
pub mod error;
pub mod forecast;
pub mod profiling;
#[cfg(test)]
#[path = "../../testing.rs"]
mod testing;
