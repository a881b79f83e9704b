//! Runs: an experiment from its plan to its report, and the reproduction of many.

pub(crate) mod aws;
mod execute;
mod prepared;
mod progress;
pub mod reproduction;
pub(crate) mod signal;

pub use aws::Terms;
pub use execute::{Destination, Ended, execute, runnable, simulation_record};
pub use signal::{Stop, stop_signal};
