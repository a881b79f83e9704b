use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use thiserror::Error;

use epochcost_spec::cost::PriceBookError;
use epochcost_spec::suggest::nearest;

use super::SchemaVersion;

/// Why a run directory could not be made, read or written.
#[derive(Debug, Error)]
pub enum ResultsError {
    /// The directory could not be made or written to.
    #[error(
        "failed to write to the output directory {path}\n  = help: {}",
        remedy(source).map_or_else(|| format!("choose another with {option}"), str::to_owned)
    )]
    Unwritable {
        /// The directory.
        path: PathBuf,
        /// The verb's option that names it.
        option: &'static str,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// Something else than a file is there.
    #[error("failed to write {0}: it is a directory or a device\n  = help: name a file")]
    NotAFile(PathBuf),
    /// The directory holds something already.
    #[error(
        "failed to start a run in {0}: it is not empty; add --resume to go on with the run in it, or choose another directory with --out"
    )]
    NotEmpty(PathBuf),
    /// The directory holds other things than the beginning of a run.
    #[error(
        "failed to resume a run in {path}: it holds no manifest.json, but {found}\n  = help: choose another directory with --out"
    )]
    NotABeginning {
        /// The directory.
        path: PathBuf,
        /// Name of a file that no run writes before its first trial.
        found: String,
    },
    /// Another process writes into the run directory.
    #[error(
        "failed to take the run directory {path}: {holder} runs trials in it\n  = help: wait until it ends, or choose another directory with --out"
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Holder of the lock.
        holder: String,
    },
    /// There is no run there.
    #[error("failed to open {0}: it holds no manifest.json, so it is not a run directory{similar}", similar = similar_runs(.0))]
    NotARun(PathBuf),
    /// The format is newer than this program.
    #[error(
        "failed to open {path}: its format is {found}, and this epochcost reads up to {known}; use a newer epochcost"
    )]
    TooNew {
        /// The directory.
        path: PathBuf,
        /// The version found.
        found: SchemaVersion,
        /// The newest version that can be read.
        known: SchemaVersion,
    },
    /// The format is older than this program reads.
    #[error(
        "failed to open {path}: its format is {found}, and this epochcost reads {known}.x only; run the experiment again"
    )]
    TooOld {
        /// The directory.
        path: PathBuf,
        /// The version found.
        found: SchemaVersion,
        /// The major version that can be read.
        known: u32,
    },
    /// Another experiment was run there, or another program ran it.
    #[error(
        "failed to resume the run in {path}: {what} differs from what was run there\n  = help: {remedy}"
    )]
    Different {
        /// The directory.
        path: PathBuf,
        /// Difference.
        what: String,
        /// Remedy.
        remedy: &'static str,
    },
    /// A file of the run is not there.
    #[error("failed to read {0}: there is no such file; the run directory is not complete")]
    Missing(PathBuf),
    /// A file could not be read or written.
    #[error(
        "failed to {doing} {path}{}",
        help(remedy(source).or(gone(source)).or(closed(source)))
    )]
    Io {
        /// Attempted operation; follows "failed to".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("failed to understand {place}: {reason}; the file is damaged or was edited")]
    Damaged {
        /// The file, and the line if it has lines.
        place: String,
        /// Problem.
        reason: String,
    },
    /// Something could not be written as JSON or Parquet.
    #[error("failed to encode {path}: {reason}")]
    Encode {
        /// The file.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// The report could not be rendered.
    #[error("failed to render {template}: {reason}")]
    Render {
        /// The template.
        template: &'static str,
        /// Reason.
        reason: String,
    },
    /// The price book is not one, or lacks a price.
    #[error(transparent)]
    Prices(#[from] PriceBookError),
    /// The price book that the run recorded lacks a price.
    #[error(
        "failed to make the bills of {path}: its price book has no price for {dimension}\n  = help: name a book that has one: `epochcost report {path} --prices FILE`"
    )]
    Unpriced {
        /// The directory.
        path: PathBuf,
        /// What has no price.
        dimension: String,
    },
}

impl ResultsError {
    /// Returns the error of a file that does not hold what it should.
    pub(crate) fn damaged(path: &Path, reason: impl ToString) -> Self {
        Self::Damaged {
            place: path.display().to_string(),
            reason: reason.to_string(),
        }
    }

    /// Returns the error of something that cannot be written to `path`.
    pub(crate) fn encode<E: ToString>(path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_path_buf();
        move |error: E| Self::Encode {
            path,
            reason: error.to_string(),
        }
    }

    /// Returns the error of a directory that `option` names and that cannot be made or written to.
    pub(crate) fn unwritable(path: &Path, option: &'static str) -> impl Fn(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Unwritable {
            path: path.clone(),
            option,
            source,
        }
    }

    /// Returns the error of reading a file that every run has.
    pub(crate) fn read(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| {
            if source.kind() == ErrorKind::NotFound {
                Self::Missing(path)
            } else {
                Self::io("read", &path)(source)
            }
        }
    }

    /// Returns an I/O error while `doing` something with the file at `path`.
    pub fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }

    /// Returns the error as one of the run at `path`, whose price book cannot be changed.
    pub fn of_run(self, path: &Path) -> Self {
        match self {
            Self::Prices(PriceBookError::Missing { dimension, .. }) => Self::Unpriced {
                path: path.to_path_buf(),
                dimension,
            },
            other => other,
        }
    }

    /// Returns whether the user can do something about it by calling
    /// differently (exit code 2).
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Io { source, .. } => closed(source).is_some(),
            Self::Encode { .. } | Self::Render { .. } => false,
            _ => true,
        }
    }
}

/// Returns what to do where a file or directory is not there that was: reading a file that is
/// missing is [`ResultsError::Missing`].
fn gone(error: &std::io::Error) -> Option<&'static str> {
    (error.kind() == ErrorKind::NotFound).then_some(
        "the run directory was deleted or moved while it was in use; run the experiment again",
    )
}

/// Returns a remedy as the end of a message.
pub fn help(remedy: Option<&str>) -> String {
    remedy.map_or_else(String::new, |remedy| format!("\n  = help: {remedy}"))
}

/// Returns what to do where this user may not read or write: options differ from verb to verb.
pub fn closed(error: &std::io::Error) -> Option<&'static str> {
    use ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
        .then_some("give this user the permission, or name another place")
}

/// Directory of runs, unless another one is named.
const RUNS: &str = "results";

/// Returns the runs whose names are similar to a path, as the end of a message; none where there
/// are none.
fn similar_runs(path: &Path) -> String {
    let beside = path.parent().unwrap_or(Path::new(""));
    let entries = [beside, Path::new(RUNS)].map(std::fs::read_dir);
    let entries = entries.into_iter().flatten().flatten().flatten();
    let runs = entries.map(|entry| entry.path());
    let runs = runs.filter(|run| run.join("manifest.json").is_file());
    let runs: Vec<String> = runs.map(|run| run.display().to_string()).collect();
    let known: Vec<&str> = runs.iter().map(String::as_str).collect();
    let similar = nearest(&path.to_string_lossy(), &known);
    if similar.is_empty() {
        return String::new();
    }
    format!("\n  = help: did you mean {}?", similar.join(" or "))
}

/// Returns what to do about an error of the operating system; none where nothing general helps.
fn remedy(error: &std::io::Error) -> Option<&'static str> {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some(
            "free some space on that file system; `epochcost run EXPERIMENT --out DIR --resume` goes on with a run: finished trials are kept",
        ),
        ErrorKind::FileTooLarge => Some(
            "raise the limit on the size of files (`ulimit -f`); `epochcost run EXPERIMENT --out DIR --resume` goes on with a run: finished trials are kept",
        ),
        _ => None,
    }
}
