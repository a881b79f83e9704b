//! Errors of starting a server.

use std::process::ExitStatus;
use std::{fmt, io};

/// Reason why a server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The program is not installed.
    #[error("{program} is not installed: {remedy}")]
    Missing {
        /// Name of the program.
        program: &'static str,
        /// Command that installs it.
        remedy: &'static str,
    },
    /// A file operation or the start of a process failed.
    #[error("failed to {doing}")]
    Io {
        /// Attempted operation; follows "failed to".
        doing: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The server ended before it answered.
    #[error("{server} ended while it started, {status}; the end of its log:\n{log}")]
    Ended {
        /// Name of the server.
        server: &'static str,
        /// Exit status.
        status: ExitStatus,
        /// Last lines of the log.
        log: String,
    },
    /// The server runs and does not answer.
    #[error("{server} did not answer within {seconds} s; the end of its log:\n{log}")]
    Silent {
        /// Name of the server.
        server: &'static str,
        /// Time limit, seconds.
        seconds: u64,
        /// Last lines of the log.
        log: String,
    },
}

impl ServerError {
    /// Returns the error for a program that is not installed.
    pub(crate) const fn missing(program: &'static str, remedy: &'static str) -> Self {
        Self::Missing { program, remedy }
    }

    /// Wraps an error of the operating system.
    pub(crate) fn io(doing: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            doing: doing.to_string(),
            source,
        }
    }
}
