//! The harness of `epochcost`: from an experiment to a plan, a platform, the
//! events of its trials, results on disk, an analysis and a report.
//!
//! It never links a model: workers are processes of their own, and every run
//! measures what would be deployed.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod analysis;
pub mod audit;
pub mod cli;
pub mod cmd;
pub mod cost;
pub mod error;
pub mod experiment;
pub mod metering;
pub mod plan;
pub mod platform;
pub mod published;
pub mod report;
pub mod results;
