//! Runs: an experiment from its plan to its report, and the reproduction of many.

mod draws;
mod execute;
mod prepared;
mod progress;
pub mod reproduction;
pub(crate) mod signal;
mod tear_down;

pub use execute::{Destination, Ended, execute, platform_findings, runnable, simulation_record};
pub use signal::{Stop, stop_signal, watch};

pub use crate::platform::SpendingConsent;
