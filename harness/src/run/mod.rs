//! Runs: an experiment from its plan to its report, and the reproduction of many.

mod draws;
mod execute;
pub mod faults;
mod prepared;
mod progress;
pub mod reproduction;
pub(crate) mod signal;
mod tear_down;

pub use execute::{Destination, Ended, execute, platform_findings, runnable, simulation_record};
pub use signal::{Stop, stop_signal, survive_file_limit, watch};

pub use epochcost_platform::SpendingConsent;
