//! Every error that a verb can end with, and the exit code of each.

use std::path::PathBuf;

use epochcost_datasets::DatasetError;
use thiserror::Error;

use crate::audit::AuditError;
use crate::exit::Exit;
use crate::experiment::{ExperimentError, UnreadableDirectory};
use crate::platform::PlatformError;
use crate::results::ResultsError;

/// Why a verb could not do its work.
#[derive(Debug, Error)]
pub enum Error {
    /// The experiment is unusable.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// A dataset is unusable.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// A run directory is unusable.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The papers' figures cannot be recomputed.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The platform could not do its part.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// The command line asks for something that cannot be.
    #[error("{problem}\n  = help: {remedy}")]
    Usage {
        /// What is wrong.
        problem: String,
        /// What to do.
        remedy: String,
    },
    /// This build or machine cannot do what was asked.
    #[error("{what}\n  = help: {remedy}")]
    Lacks {
        /// What is lacking.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// Nothing to work on was found.
    #[error("nothing selected: {0}")]
    NothingSelected(String),
    /// The run may cost more than the user allows.
    #[error("the spending limit is {limit_usd} USD, and {spent_usd} USD are spent")]
    SpendingLimit {
        /// `--max-usd`.
        limit_usd: f64,
        /// What was spent.
        spent_usd: f64,
    },
    /// A signal arrived.
    #[error("interrupted; {kept} finished trials are kept in {}\n  = help: {remedy}", directory.display())]
    Interrupted {
        /// Trials that had ended.
        kept: usize,
        /// Where they are.
        directory: PathBuf,
        /// How to go on.
        remedy: String,
    },
    /// The operating system refused.
    #[error("failed to {doing}: {source}")]
    Io {
        /// What was attempted.
        doing: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Error {
    /// The exit code that it ends with.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Experiment(_) | Self::Usage { .. } | Self::Audit(_) => Exit::Usage,
            Self::Dataset(DatasetError::Write { .. }) => Exit::Internal,
            Self::Dataset(_) => Exit::Usage,
            Self::Results(error) if error.is_usage() => Exit::Usage,
            Self::Results(_) | Self::Io { .. } => Exit::Internal,
            Self::Lacks { .. } => Exit::Lacks,
            Self::Platform(error) => error.exit(),
            Self::NothingSelected(_) => Exit::NothingSelected,
            Self::SpendingLimit { .. } => Exit::SpendingLimit,
            Self::Interrupted { .. } => Exit::Interrupted,
        }
    }
}

impl From<UnreadableDirectory> for Error {
    fn from(error: UnreadableDirectory) -> Self {
        Self::Usage {
            problem: error.to_string(),
            remedy: "name another directory with --directory".to_owned(),
        }
    }
}

/// Returns an error's text, followed by the causes that it does not name itself.
pub(crate) fn rendered(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(&format!(": {inner_text}"));
        }
        cause = inner.source();
    }
    text
}
