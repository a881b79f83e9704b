//! The harness of `epochcost`: from an experiment to a plan, a platform, the
//! events of its trials, results on disk, an analysis and a report.
//!
//! It never links a model: workers are processes of their own, and every run
//! measures what would be deployed.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod analysis;
pub mod audit;
pub mod chain;
pub mod claims;
pub mod cli;
pub mod cmd;
pub mod cost;
pub mod error;
pub mod exit;
pub mod experiment;
pub mod forecast;
pub mod format;
pub mod hash;
pub mod metering;
pub mod platform;
pub mod profiles;
pub mod profiling;
pub mod published;
pub mod report;
pub mod results;
pub mod rows;
pub mod run;
pub mod suggest;
pub mod ui;
