//! `columns.csv`: what each column of the published tables holds, of which paper
//! it is, which metrics observe it, and how far its conditions are stated.

use std::path::Path;
use std::str::FromStr;

use super::{PublishedError, Table, directory};
use crate::claims::{Cell, Conditions, Metric};
use crate::shipped;

/// The file's name in the directory `published`.
pub const COLUMNS: &str = "columns.csv";

/// What is stated about the columns of all tables.
#[derive(Clone, Debug)]
pub struct Columns(Vec<Column>);

/// What is stated about one column.
#[derive(Clone, Debug)]
struct Column {
    file: String,
    name: String,
    paper: String,
    metrics: Vec<OfLine<Metric>>,
    conditions: Vec<OfLine<Conditions>>,
}

/// A value that holds for one line of a table, or for all.
#[derive(Clone, Debug)]
struct OfLine<T> {
    line: Option<u64>,
    value: T,
}

impl Columns {
    /// Reads the file beside an experiment; none if there is no such file.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn beside(experiment: &Path) -> Result<Option<Self>, PublishedError> {
        let Ok(directory) = directory(experiment) else {
            return Ok(None);
        };
        let file = directory.join(COLUMNS);
        if !shipped::is_file(&file) {
            return Ok(None);
        }
        let table = Table::read(&file)?;
        table.refuse_repeated(&["file", "column"])?;
        let columns: Result<Vec<Column>, PublishedError> = table
            .rows()
            .map(|row| {
                let damaged = |reason: String| PublishedError::Table {
                    place: row.place_of("metrics"),
                    reason,
                };
                Ok(Column {
                    file: row.text("file")?.to_owned(),
                    name: row.text("column")?.to_owned(),
                    paper: row.text("paper")?.to_owned(),
                    metrics: by_line(row.text("metrics")?, metric).map_err(damaged)?,
                    conditions: by_line(row.text("conditions")?, Conditions::from_str)
                        .map_err(damaged)?,
                })
            })
            .collect();
        Ok(Some(Self(columns?)))
    }

    /// Returns the paper whose figures a table holds.
    pub fn paper(&self, file: &str) -> Option<&str> {
        let column = self.0.iter().find(|column| column.file == file)?;
        Some(&column.paper)
    }

    /// Returns the metrics that observe a cell; empty if none does.
    pub fn metrics(&self, cell: &Cell) -> Vec<Metric> {
        let column = self.column(cell);
        column.map_or_else(Vec::new, |column| of_line(&column.metrics, cell.line))
    }

    /// Returns how far the conditions of a cell are stated.
    pub fn conditions(&self, cell: &Cell) -> Option<Conditions> {
        of_line(&self.column(cell)?.conditions, cell.line).pop()
    }

    fn column(&self, cell: &Cell) -> Option<&Column> {
        let mut columns = self.0.iter();
        columns.find(|column| column.file == cell.file && column.name == cell.column)
    }
}

/// Returns the values for a line: its own if it has some, else those for all.
fn of_line<T: Copy>(values: &[OfLine<T>], line: u64) -> Vec<T> {
    let with = |line| {
        let values = values.iter().filter(move |value| value.line == line);
        values.map(|value| value.value).collect::<Vec<T>>()
    };
    let own = with(Some(line));
    if own.is_empty() { with(None) } else { own }
}

/// Reads words that are separated by spaces, each with the line that it is for
/// before a colon, or for all lines: `stated 3:open`.
fn by_line<T>(
    text: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<OfLine<T>>, String> {
    text.split_whitespace()
        .map(|word| {
            let (line, value) = match word.split_once(':') {
                Some((line, value)) => {
                    let number = line.parse().map_err(|_| format!("{line:?} is no line"))?;
                    (Some(number), value)
                }
                None => (None, word),
            };
            let value = read(value)?;
            Ok(OfLine { line, value })
        })
        .collect()
}

fn metric(name: &str) -> Result<Metric, String> {
    Metric::named(name).ok_or_else(|| format!("there is no metric {name:?}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_line_of_its_own_comes_before_all_lines() {
        let words = by_line("put 3:get 3:wait", metric).unwrap();
        let name = |line| {
            let metrics = of_line(&words, line);
            metrics
                .iter()
                .map(|metric| metric.name())
                .collect::<Vec<_>>()
        };
        assert_eq!(name(2), ["put"]);
        assert_eq!(name(3), ["get", "wait"]);
        assert!(by_line("x:put", metric).is_err());
        assert!(by_line("putt", metric).unwrap_err().contains("putt"));
        assert!(by_line("", metric).unwrap().is_empty());
    }
}
