//! A cell of a published table, as a claim names it.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// A cell of a CSV file of published figures, written `FILE:LINE:COLUMN`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// The file's name in the directory `published`.
    pub file: String,
    /// The line in it, from 1; the heading is line 1.
    pub line: u64,
    /// The column, by its heading.
    pub column: String,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl FromStr for Cell {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let cell = || {
            let (file, rest) = text.split_once(':')?;
            let (line, column) = rest.split_once(':')?;
            // A name, and no way out of the directory.
            let is_name = !file.is_empty() && !file.contains(['/', '\\']) && !column.is_empty();
            is_name.then_some(Self {
                file: file.to_owned(),
                line: line.parse().ok()?,
                column: column.to_owned(),
            })
        };
        cell().ok_or_else(|| {
            format!(
                "{text:?} is no cell of a table: write FILE:LINE:COLUMN, as \
                 \"cp_table2.csv:2:total_seconds\""
            )
        })
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Cell {
    fn schema_name() -> Cow<'static, str> {
        "Cell".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Cell of a published table, FILE:LINE:COLUMN.",
            "type": "string",
            "pattern": "^[^/\\\\:]+:[0-9]+:.+$",
        })
    }
}

/// Uses a visitor of its own, so that an error still names its line.
impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(CellVisitor)
    }
}

struct CellVisitor;

impl Visitor<'_> for CellVisitor {
    type Value = Cell;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cell, FILE:LINE:COLUMN")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Cell, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_read_as_it_is_written() {
        let text = "cp_table2.csv:2:seconds_per_batch";
        let cell: Cell = text.parse().unwrap();
        assert_eq!((cell.line, cell.column.as_str()), (2, "seconds_per_batch"));
        assert_eq!(cell.to_string(), text);
    }

    #[test]
    fn what_names_no_cell_is_refused() {
        // The first is empty.
        let names = ",a.csv,a.csv:2,a.csv:two:x,:2:x,a.csv:2:,../a.csv:2:x";
        for text in names.split(',') {
            let error = text.parse::<Cell>().unwrap_err();
            assert!(error.contains("FILE:LINE:COLUMN"), "{error}");
        }
    }
}
