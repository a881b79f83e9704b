//! Published figures: the CSV files that lie in a directory `published` beside
//! the experiments that quote them.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::analysis::cell::Cell;

/// The directory's name.
pub const DIRECTORY: &str = "published";

/// Why a table cannot be read.
#[derive(Debug, Error)]
pub enum PublishedError {
    /// There is no such directory.
    #[error("there is no directory `{DIRECTORY}` beside {} or above it", experiment.display())]
    NoDirectory {
        /// The experiment that quotes a cell.
        experiment: PathBuf,
    },
    /// The file is not there, or is no table.
    #[error("failed to read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: csv::Error,
    },
    /// The table has no such cell.
    #[error("{} has no {what}", file.display())]
    NoCell {
        /// The file.
        file: PathBuf,
        /// What it lacks.
        what: String,
    },
    /// The cell holds no number.
    #[error("the cell {cell} holds {text:?}, not a number")]
    NotANumber {
        /// The cell.
        cell: Cell,
        /// What it holds.
        text: String,
    },
}

/// The directory `published` nearest to an experiment: in the directory of its
/// file, or in one above.
///
/// # Errors
/// When there is none.
pub fn directory(experiment: &Path) -> Result<PathBuf, PublishedError> {
    let absolute = std::path::absolute(experiment).unwrap_or_else(|_| experiment.to_owned());
    let mut candidates = absolute
        .ancestors()
        .skip(1)
        .map(|above| above.join(DIRECTORY));
    candidates
        .find(|candidate| candidate.is_dir())
        .ok_or_else(|| PublishedError::NoDirectory {
            experiment: experiment.to_owned(),
        })
}

/// One CSV file.
#[derive(Clone, Debug)]
pub struct Table {
    file: PathBuf,
    columns: Vec<String>,
    /// Each with its line in the file.
    records: Vec<(u64, csv::StringRecord)>,
}

impl Table {
    /// Reads a file whose first line names its columns.
    ///
    /// # Errors
    /// When it cannot be read, or lines differ in their number of cells.
    pub fn read(file: &Path) -> Result<Self, PublishedError> {
        let failed = |source| PublishedError::Read {
            file: file.to_owned(),
            source,
        };
        let mut reader = csv::Reader::from_path(file).map_err(failed)?;
        let columns = reader.headers().map_err(failed)?;
        let columns = columns.iter().map(str::to_owned).collect();
        let records = reader.records().map(|record| {
            let record = record.map_err(failed)?;
            Ok((record.position().map_or(0, csv::Position::line), record))
        });
        Ok(Self {
            file: file.to_owned(),
            columns,
            records: records.collect::<Result<_, PublishedError>>()?,
        })
    }

    /// The headings of its columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Every cell that holds something, with its text.
    pub fn cells(&self) -> impl Iterator<Item = (Cell, &str)> {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        let name = name.into_owned();
        self.records.iter().flat_map(move |(line, record)| {
            let name = name.clone();
            let texts = self.columns.iter().zip(record);
            let filled = texts.filter(|(_, text)| !text.is_empty());
            filled.map(move |(column, text)| {
                let cell = Cell {
                    file: name.clone(),
                    line: *line,
                    column: column.clone(),
                };
                (cell, text)
            })
        })
    }

    /// The number in a cell.
    ///
    /// # Errors
    /// When the line or column is not there, or the cell holds no number.
    pub fn number(&self, cell: &Cell) -> Result<f64, PublishedError> {
        let lacks = |what: String| PublishedError::NoCell {
            file: self.file.clone(),
            what,
        };
        let column = self.columns.iter().position(|name| *name == cell.column);
        let column = column.ok_or_else(|| {
            let known = self.columns.join(", ");
            lacks(format!("column `{}`; it has {known}", cell.column))
        })?;
        let record = self.records.iter().find(|(line, _)| *line == cell.line);
        let (_, record) = record.ok_or_else(|| lacks(format!("figures in line {}", cell.line)))?;
        let text = record.get(column).unwrap_or_default();
        text.parse().map_err(|_| PublishedError::NotANumber {
            cell: cell.clone(),
            text: text.to_owned(),
        })
    }
}

/// The number in a cell of the tables beside an experiment.
///
/// # Errors
/// When the table, the cell or a number in it is not there.
pub fn number(experiment: &Path, cell: &Cell) -> Result<f64, PublishedError> {
    Table::read(&directory(experiment)?.join(&cell.file))?.number(cell)
}
