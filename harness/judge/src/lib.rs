//! Figures and verdicts from run directories ([`analysis`]), and the papers'
//! statements by their own figures ([`audit`]).
//!
//! It imports `epochcost-spec`, `epochcost-platform` and `epochcost-record`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod analysis;
pub mod audit;
#[cfg(test)]
#[path = "../../testing.rs"]
mod testing;
