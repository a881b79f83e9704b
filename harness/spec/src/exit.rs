//! The exit codes.

use std::process::ExitCode;

/// How the program ends. Scripts and CI stand on these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Everything asked for was done, and every expectation met.
    Done = 0,
    /// A fault of this program or of the machine under it.
    Internal = 1,
    /// A wrong option, experiment, data file or directory.
    Usage = 2,
    /// A trial failed, a verdict is not the one expected, or no setting keeps a plan's goal.
    Failed = 3,
    /// Nothing was selected.
    NothingSelected = 4,
    /// The platform lacks something; `epochcost doctor` says what.
    Lacks = 5,
    /// A spending limit would be or was passed.
    SpendingLimit = 6,
    /// Interrupted; finished trials are kept.
    Interrupted = 7,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
