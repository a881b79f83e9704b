//! Published figures: the CSV files that lie in a directory `published` beside
//! the experiments that quote them.

mod paper;
mod table;

use std::path::Path;

use thiserror::Error;

pub use self::paper::PaperFile;
pub use self::paper::{
    Kind, Note, Observed, PAPER, Paper, PaperTable, Prediction, RECORDED, Recorded, SetUp, Stance,
    Statement, When,
};
pub use self::table::{Row, Table};
use crate::formula::FormulaError;
use crate::yaml::error::ExperimentError;

/// The directory's name.
pub const DIRECTORY: &str = "published";

/// Why published figures could not be read.
#[derive(Debug, Error)]
pub enum PublishedError {
    /// A file could not be read at all.
    #[error("failed to read {path}")]
    Io {
        /// The file.
        path: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A file is no table.
    #[error("failed to read {place}: {reason}")]
    Table {
        /// The file, with the line where it is known.
        place: String,
        /// Problem.
        reason: String,
    },
    /// A column or a row that is needed is missing.
    #[error("failed to read {file}: {missing}")]
    Missing {
        /// The file.
        file: String,
        /// What is missing.
        missing: String,
    },
    /// `paper.yaml` is damaged.
    #[error(transparent)]
    Paper(#[from] ExperimentError),
    /// A formula cannot be read or evaluated.
    #[error("failed to evaluate the formula at {place}: {error}")]
    Formula {
        /// File, line and column at which the formula begins.
        place: String,
        /// What is wrong with it.
        error: FormulaError,
    },
    /// A cell is not a number.
    #[error("failed to read {place}: {column} is {text:?}, and must be a finite number")]
    Number {
        /// File, line and column.
        place: String,
        /// The column's name.
        column: String,
        /// What stands there.
        text: String,
    },
}

impl PublishedError {
    /// Returns the error of a file that cannot be read.
    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.display().to_string();
        move |source| Self::Io { path, source }
    }

    /// Returns the error of a place that cannot be understood.
    fn table(place: String, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Table { place, reason }
    }
}
