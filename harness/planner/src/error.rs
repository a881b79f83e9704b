//! Every error that a verb can end with, and the exit code of each.

use std::path::PathBuf;

use epochcost_datasets::DatasetError;
use epochcost_simulator::SimulationError;
use thiserror::Error;

use epochcost_experiment::{ExperimentError, UnreadableDirectory};
use epochcost_judge::audit::AuditError;
use epochcost_platform::PlatformError;
use epochcost_record::{ResultsError, closed, help};
use epochcost_spec::chain::chain;
use epochcost_spec::cost::PriceBookError;
use epochcost_spec::exit::Exit;
use epochcost_spec::profiles::ProfileError;

/// What comes of a part of a verb.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a verb could not do its work.
#[derive(Debug, Error)]
pub enum Error {
    /// The experiment is unusable.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// A dataset is unusable.
    #[error(transparent)]
    Dataset(DatasetError),
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
        /// Problem.
        problem: String,
        /// Remedy.
        remedy: String,
    },
    /// This build or machine cannot do what was asked.
    #[error("{what}\n  = help: {remedy}")]
    Lacks {
        /// What is lacking.
        what: String,
        /// Remedy.
        remedy: String,
    },
    /// Nothing to work on was found.
    #[error("nothing selected: {0}")]
    NothingSelected(String),
    /// A signal arrived.
    #[error("interrupted; {kept} finished trials are kept in {}\n  = help: {remedy}", directory.display())]
    Interrupted {
        /// Trials that had ended.
        kept: usize,
        /// Directory that holds them.
        directory: PathBuf,
        /// How to go on.
        remedy: String,
    },
    /// The operating system refused.
    #[error("failed to {doing}{}", help(closed(source)))]
    Io {
        /// Attempted operation; follows "failed to".
        doing: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

impl Error {
    /// Returns the refusal of what was asked for, with what to do instead.
    pub fn usage(problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Usage {
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }

    /// Wraps an error of the operating system; `doing` follows "failed to".
    pub fn io(doing: impl Into<String>) -> impl Fn(std::io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io {
            doing: doing.clone(),
            source,
        }
    }

    /// Returns the error of a directory that an option names, or an argument.
    pub fn unreadable(error: &UnreadableDirectory, option: Option<&str>) -> Self {
        let with = option.map_or_else(String::new, |option| format!(" with {option}"));
        Self::Usage {
            problem: chain(error),
            remedy: format!("name another directory{with}"),
        }
    }

    /// Returns the error of a price that the price book does not have.
    pub(crate) fn no_price(none: impl ToString) -> Self {
        Self::Lacks {
            what: none.to_string(),
            remedy: "plan with a price book that has it: --prices FILE".to_owned(),
        }
    }

    /// Returns the exit code that it ends with.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Experiment(_) | Self::Dataset(_) | Self::Usage { .. } | Self::Audit(_) => {
                Exit::Usage
            }
            Self::Io { source, .. } if closed(source).is_some() => Exit::Usage,
            Self::Results(error) if error.is_usage() => Exit::Usage,
            Self::Results(_) | Self::Io { .. } => Exit::Internal,
            Self::Lacks { .. } => Exit::Lacks,
            Self::Platform(error) => error.exit(),
            Self::NothingSelected(_) => Exit::NothingSelected,
            Self::Interrupted { .. } => Exit::Interrupted,
        }
    }
}

impl From<DatasetError> for Error {
    fn from(error: DatasetError) -> Self {
        match error {
            DatasetError::Write { path, source } => Self::Io {
                doing: format!("write {}", path.display()),
                source,
            },
            error => Self::Dataset(error),
        }
    }
}

impl From<PriceBookError> for Error {
    fn from(error: PriceBookError) -> Self {
        ResultsError::from(error).into()
    }
}

impl From<SimulationError> for Error {
    fn from(error: SimulationError) -> Self {
        PlatformError::from(error).into()
    }
}

impl From<ProfileError> for Error {
    fn from(error: ProfileError) -> Self {
        let ProfileError { problem, remedy } = error;
        Self::Usage { problem, remedy }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use epochcost_spec::published::PublishedError;

    use super::*;

    fn cause() -> io::Error {
        io::Error::other("the cause")
    }

    /// Every variant that has a source, in every error that can hold it.
    fn errors() -> Vec<Error> {
        let path = || PathBuf::from("some/path");
        let published = || PublishedError::Io {
            path: "some/path".into(),
            source: cause(),
        };
        vec![
            Error::Io {
                doing: "write some/path".into(),
                source: cause(),
            },
            PlatformError::Io {
                doing: "write some/path".into(),
                source: cause(),
            }
            .into(),
            ExperimentError::Read {
                file: path(),
                source: cause(),
            }
            .into(),
            Error::unreadable(
                &UnreadableDirectory {
                    directory: path(),
                    source: cause(),
                },
                None,
            ),
            AuditError::from(published()).into(),
            ResultsError::Unwritable {
                path: path(),
                option: "--out",
                source: cause(),
            }
            .into(),
            ResultsError::io("read", Path::new("some/path"))(cause()).into(),
            DatasetError::Read {
                path: path(),
                source: cause(),
            }
            .into(),
            DatasetError::Write {
                path: path(),
                source: cause(),
            }
            .into(),
        ]
    }

    /// `check DIR` once told of an option `--directory`, which it does not have.
    #[test]
    fn a_directory_is_named_by_the_option_that_the_verb_has() {
        let error = UnreadableDirectory {
            directory: "some/path".into(),
            source: cause(),
        };
        for (option, end) in [(None, ""), (Some("--directory"), " with --directory")] {
            let text = chain(&Error::unreadable(&error, option));
            let remedy = format!(": name another directory{end}");
            assert!(text.ends_with(&remedy), "{text}");
        }
    }

    #[test]
    fn every_cause_is_named_once_and_before_the_remedy() {
        for error in errors() {
            let text = chain(&error);
            assert_eq!(text.matches("the cause").count(), 1, "{text}");
            assert_eq!(text.matches("some/path").count(), 1, "{text}");
            let first = text.lines().next().unwrap_or_default();
            assert!(first.ends_with(": the cause"), "{text}");
        }
    }
}
