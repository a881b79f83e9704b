//! Why a server is not there.

use std::process::ExitStatus;
use std::{fmt, io};

/// What kept a server from running.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The program is not on this machine.
    #[error("{program} is not installed: {remedy}")]
    Missing {
        /// What was looked for.
        program: &'static str,
        /// A command that installs it.
        remedy: &'static str,
    },
    /// A file or a process could not be had.
    #[error("failed to {doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// It ended before it answered.
    #[error("{server} ended while it started, {status}; the end of its log:\n{log}")]
    Ended {
        /// Which server.
        server: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// Its last lines.
        log: String,
    },
    /// It runs, and does not answer.
    #[error("{server} did not answer within {seconds} s; the end of its log:\n{log}")]
    Silent {
        /// Which server.
        server: &'static str,
        /// How long it was waited for.
        seconds: u64,
        /// Its last lines.
        log: String,
    },
}

impl ServerError {
    /// Wraps what the system said.
    pub(crate) fn io(doing: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            doing: doing.to_string(),
            source,
        }
    }
}
