use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a run directory could not be made, read or written.
#[derive(Debug, Error)]
pub enum ResultsError {
    /// The directory could not be made or written to.
    #[error("failed to write to the output directory {path}\n  = help: choose another with --out")]
    Unwritable {
        /// The directory.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The directory holds something already.
    #[error(
        "failed to start a run in {0}: it is not empty; add --resume to go on with the run in it, or choose another directory with --out"
    )]
    NotEmpty(PathBuf),
    /// There is no run there.
    #[error("failed to open {0}: it holds no manifest.json, so it is not a run directory")]
    NotARun(PathBuf),
    /// The format is newer than this program.
    #[error(
        "failed to open {path}: its format is {found}, and this epochcost reads up to {known}; use a newer epochcost"
    )]
    TooNew {
        /// The directory.
        path: PathBuf,
        /// The version found.
        found: SchemaText,
        /// The newest version that can be read.
        known: SchemaText,
    },
    /// The format is older than this program reads.
    #[error(
        "failed to open {path}: its format is {found}, and this epochcost reads {known}.x only; run the experiment again"
    )]
    TooOld {
        /// The directory.
        path: PathBuf,
        /// The version found.
        found: SchemaText,
        /// The major version that can be read.
        known: u32,
    },
    /// Another experiment was run there.
    #[error(
        "failed to resume the run in {path}: {what} differs from what was run there; start a new run instead"
    )]
    Different {
        /// The directory.
        path: PathBuf,
        /// Difference.
        what: &'static str,
    },
    /// A file could not be read or written.
    #[error("failed to {doing} {path}")]
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
    /// The price book is not one.
    #[error(transparent)]
    Prices(#[from] crate::cost::PriceBookError),
}

/// A format version as text, `major.minor`.
pub type SchemaText = String;

impl ResultsError {
    /// Returns an I/O error while `doing` something with the file at `path`.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }

    /// Returns whether the user can do something about it by calling
    /// differently (exit code 2).
    pub fn is_usage(&self) -> bool {
        !matches!(
            self,
            Self::Io { .. } | Self::Encode { .. } | Self::Render { .. }
        )
    }
}
