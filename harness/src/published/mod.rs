//! Published figures: the CSV files that lie in a directory `published` beside
//! the experiments that quote them.

mod columns;
mod ledger;
mod paper;
mod table;

use std::path::{Path, PathBuf};

use thiserror::Error;

pub use self::columns::{COLUMNS, Columns};
pub use self::ledger::{LEDGER, Ledger, line_for};
pub use self::paper::{Kind, Note, PAPER, Paper, Statement, When};
pub use self::table::{Quantity, Row, Table};
use crate::claims::Cell;
use crate::formula::FormulaError;
use crate::shipped;
use crate::yaml::error::ExperimentError;

/// The directory's name.
pub const DIRECTORY: &str = "published";

/// Why published figures could not be read.
#[derive(Debug, Error)]
pub enum PublishedError {
    /// There is no such directory.
    #[error("there is no directory `{DIRECTORY}` beside {} or above it", experiment.display())]
    NoDirectory {
        /// The experiment that quotes a cell.
        experiment: PathBuf,
    },
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

/// Returns the directory `published` nearest to an experiment: in the directory
/// of its file, or in one above.
///
/// # Errors
/// When there is none.
pub fn directory(experiment: &Path) -> Result<PathBuf, PublishedError> {
    let absolute = match std::path::absolute(experiment) {
        Ok(absolute) if !shipped::is_shipped(experiment) => absolute,
        _ => experiment.to_owned(),
    };
    let mut candidates = absolute
        .ancestors()
        .skip(1)
        .map(|above| above.join(DIRECTORY));
    candidates
        .find(|candidate| shipped::is_directory(candidate))
        .ok_or_else(|| PublishedError::NoDirectory {
            experiment: experiment.to_owned(),
        })
}

/// Returns the number in a cell of the tables beside an experiment.
///
/// # Errors
/// When the table, the cell or a number in it is not there.
pub fn number(experiment: &Path, cell: &Cell) -> Result<f64, PublishedError> {
    Table::read(&directory(experiment)?.join(&cell.file))?.number(cell)
}
