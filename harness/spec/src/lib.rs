//! What the crates of the harness speak of. It imports none of them but
//! `epochcost-aws-plan` and `epochcost-servers`.
//!
//! | modules | what they are |
//! | --- | --- |
//! | [`published`] | papers and published tables |
//! | [`claims`], [`formula`] | the language of claims; the language of statements |
//! | [`cost`], [`profiles`] | prices and bills; shipped profiles |
//! | [`rows`], [`metering`] | rows and trials; what a trial reports |
//! | [`yaml`], [`shipped`] | YAML files with the place of each value; files inside this program |
//! | [`ui`], [`exit`], [`chain`], [`format`](mod@format), [`suggest`] | output; exit codes; causes of errors; numbers as text; nearest names |
//! | [`hash`], [`capacity`] | hashes; CPU time and memory of this process |

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod capacity;
pub mod chain;
pub mod claims;
pub mod cost;
pub mod exit;
pub mod format;
pub mod formula;
pub mod hash;
pub mod metering;
pub mod profiles;
pub mod published;
pub mod rows;
pub mod shipped;
pub mod suggest;
#[cfg(test)]
#[path = "../../testing.rs"]
mod testing;
pub mod ui;
pub mod yaml;
