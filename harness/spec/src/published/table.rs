//! A table of published figures: comma-separated values under a line of names.

use std::collections::HashMap;
use std::fmt::Display;
use std::path::Path;

use super::PublishedError;
use crate::claims::Cell;
use crate::formula::{Cell as Number, half_digit};
use crate::shipped;

/// One file: rows of cells under names.
#[derive(Clone, Debug)]
pub struct Table {
    /// What the file is called in places.
    file: String,
    header: Vec<String>,
    lines: Vec<Line>,
}

#[derive(Clone, Debug)]
struct Line {
    number: u64,
    cells: Vec<String>,
    /// Start of each cell, counted in characters from 1.
    columns: Vec<usize>,
    /// Text of the line, or of its first line if a cell goes on.
    raw: String,
}

/// A row of a table.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    table: &'a Table,
    line: &'a Line,
}

/// A place in a text that only moves on, and the number of its line.
struct Cursor<'a> {
    text: &'a str,
    byte: usize,
    line: u64,
}

impl<'a> Cursor<'a> {
    /// Returns the number and the text of the line in which a record begins. The reader's own
    /// count of lines is of the end of the record before, without `\r` and blank lines.
    fn at(&mut self, record: &csv::Position) -> (u64, &'a str) {
        let goal = usize::try_from(record.byte()).unwrap_or(usize::MAX);
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.byte) {
            let is_break = matches!(byte, b'\r' | b'\n');
            if self.byte >= goal && !is_break {
                break;
            }
            // Two bytes are one line break.
            let is_half = *byte == b'\r' && bytes.get(self.byte + 1) == Some(&b'\n');
            self.line += u64::from(is_break && !is_half);
            self.byte += 1;
        }
        let rest = self.text.get(self.byte..).unwrap_or_default();
        (
            self.line,
            rest.split(['\r', '\n']).next().unwrap_or_default(),
        )
    }
}

impl Table {
    /// Reads a file whose first line names its columns.
    ///
    /// # Errors
    /// When it cannot be read, or lines differ in their number of cells.
    pub fn read(file: &Path) -> Result<Self, PublishedError> {
        let text = shipped::read_to_string(file).map_err(PublishedError::io(file))?;
        Self::parse(&file.display().to_string(), &text)
    }

    /// Reads a table from a text, which is called `file` in places.
    ///
    /// # Errors
    /// When lines differ in their number of cells.
    pub fn parse(file: &str, text: &str) -> Result<Self, PublishedError> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let mut cursor = Cursor {
            text,
            byte: 0,
            line: 1,
        };
        let damaged = |error: csv::Error, cursor: &mut Cursor<'_>| {
            let position = error.position();
            let place = position.map(|position| format!("{file}:{}:1", cursor.at(position).0));
            PublishedError::table(
                place.unwrap_or_else(|| file.to_owned()),
                reason(error.kind()),
            )
        };
        let header = reader.headers();
        let header = header.map_err(|error| damaged(error, &mut cursor))?;
        let position = header.position();
        let (number, raw) = position.map_or((1, ""), |position| cursor.at(position));
        let header: Vec<String> = header.iter().map(str::to_owned).collect();
        let mut names: HashMap<&str, usize> = HashMap::new();
        for (index, name) in header
            .iter()
            .enumerate()
            .filter(|(_, name)| !name.is_empty())
        {
            if let Some(first) = names.insert(name, index) {
                let starts = columns(raw);
                let [first, second] = [first, index].map(|at| starts.get(at).copied().unwrap_or(1));
                let place = format!("{file}:{number}:{second}");
                let reason = format!(
                    "the column {name:?} is there twice, first at {number}:{first}: remove or \
                     rename one"
                );
                return Err(PublishedError::table(place, reason));
            }
        }
        let mut lines = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|error| damaged(error, &mut cursor))?;
            let position = record.position();
            let (number, raw) = position.map_or((0, ""), |position| cursor.at(position));
            lines.push(Line {
                number,
                cells: record.iter().map(|cell| cell.trim().to_owned()).collect(),
                columns: columns(raw),
                raw: raw.to_owned(),
            });
        }
        Ok(Self {
            file: file.to_owned(),
            header,
            lines,
        })
    }

    /// Returns the file's name, without its directory.
    pub fn name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the headings of its columns.
    pub fn columns(&self) -> &[String] {
        &self.header
    }

    /// Returns every cell that holds something, with its text.
    pub fn cells(&self) -> impl Iterator<Item = (Cell, &str)> {
        self.lines.iter().flat_map(|line| {
            let texts = self.header.iter().zip(&line.cells);
            let filled = texts.filter(|(_, text)| !text.is_empty());
            filled.map(|(column, text)| {
                let cell = Cell {
                    file: self.name().to_owned(),
                    line: line.number,
                    column: column.clone(),
                };
                (cell, text.as_str())
            })
        })
    }

    /// Returns the number in a cell, whose file this is.
    ///
    /// # Errors
    /// When the line or column is not there, or the cell holds no finite number.
    pub fn number(&self, cell: &Cell) -> Result<f64, PublishedError> {
        Ok(self.row_of(cell)?.number(&cell.column)?.value)
    }

    /// Returns the row of a cell, whose file this is.
    ///
    /// # Errors
    /// When the line is not there.
    pub fn row_of(&self, cell: &Cell) -> Result<Row<'_>, PublishedError> {
        let mut rows = self.rows();
        let row = rows.find(|row| row.line.number == cell.line);
        row.ok_or_else(|| PublishedError::Missing {
            file: self.file.clone(),
            missing: format!("there are no figures in line {}", cell.line),
        })
    }

    /// Returns every row, from the top.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.lines.iter().map(|line| Row { table: self, line })
    }

    /// Refuses two rows with the same texts in these columns.
    ///
    /// # Errors
    /// When there are two, or a column is not there.
    pub fn refuse_repeated(&self, columns: &[&str]) -> Result<(), PublishedError> {
        let mut known = HashMap::new();
        for row in self.rows() {
            let texts = columns.iter().map(|name| row.text(name));
            let texts: Vec<&str> = texts.collect::<Result<_, _>>()?;
            let shown = texts.join(", ");
            if let Some(first) = known.insert(texts, row) {
                let line = first.line.number;
                let reason = format!(
                    "the row of {shown} is there twice, first in line {line}: remove one of the two"
                );
                return Err(PublishedError::table(row.place(0), reason));
            }
        }
        Ok(())
    }
}

impl<'a> Row<'a> {
    /// Returns the text under a column's name.
    ///
    /// # Errors
    /// [`PublishedError::Missing`] if there is no such column.
    pub fn text(self, name: &str) -> Result<&'a str, PublishedError> {
        Ok(&self.line.cells[self.index(name)?])
    }

    /// Returns the text under a column's name, if there is such a column.
    pub fn optional(self, name: &str) -> Option<&'a str> {
        self.text(name).ok()
    }

    /// Returns the number under a column's name, without a unit.
    ///
    /// # Errors
    /// When there is no such column, or no finite number in it.
    pub fn number(self, name: &str) -> Result<Number, PublishedError> {
        let index = self.index(name)?;
        let text = self.line.cells[index].as_str();
        let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
        let value = value.ok_or_else(|| PublishedError::Number {
            place: self.place(index),
            column: name.to_owned(),
            text: text.to_owned(),
        })?;
        Ok(Number {
            value,
            half_digit: half_digit(text),
            unit: None,
            place: self.cell(name),
        })
    }

    /// Returns the place of the cell in a column: `file:line:column`, the column by
    /// its name.
    pub fn cell(self, name: &str) -> String {
        self.at(name)
    }

    fn at(self, column: impl Display) -> String {
        format!("{}:{}:{column}", self.table.file, self.line.number)
    }

    fn start(self, index: usize) -> usize {
        self.line.columns.get(index).copied().unwrap_or(1)
    }

    /// Returns the place of a cell by its column's name: `file:line:character`.
    pub(super) fn place_of(self, name: &str) -> String {
        self.place(self.index(name).unwrap_or_default())
    }

    /// Returns the place of a cell's text, behind the quotation mark if there is one:
    /// `file:line:character`.
    pub fn content_of(self, name: &str) -> String {
        let index = self.index(name).unwrap_or_default();
        let start = self.start(index);
        let is_quoted = self.line.raw.chars().nth(start - 1) == Some('"');
        self.at(start + usize::from(is_quoted))
    }

    fn index(self, name: &str) -> Result<usize, PublishedError> {
        let found = self.table.header.iter().position(|column| column == name);
        found.ok_or_else(|| PublishedError::Missing {
            file: self.table.file.clone(),
            missing: format!(
                "there is no column {name:?}; its columns are {}",
                self.table.header.join(", ")
            ),
        })
    }

    /// Returns the start of a cell, as editors take it: `file:line:character`.
    fn place(self, index: usize) -> String {
        self.at(self.start(index))
    }
}

/// Returns what is wrong with a table, in a sentence.
fn reason(kind: &csv::ErrorKind) -> String {
    match kind {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("it has {len} cells, and the first line names {expected_len} columns"),
        csv::ErrorKind::Utf8 { err, .. } => format!("it is not UTF-8: {err}"),
        _ => "it is not a table of comma-separated values".to_owned(),
    }
}

/// Returns the start of each cell of a line, in characters from 1. Commas
/// inside quotes belong to a cell.
fn columns(line: &str) -> Vec<usize> {
    let mut is_quoted = false;
    let mut starts = vec![1];
    for (index, character) in line.chars().enumerate() {
        match character {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => starts.push(index + 2),
            _ => {}
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::holds;

    #[test]
    fn the_last_digit_counts_whatever_it_is() {
        assert_eq!(half_digit("92.00"), 0.005);
        assert_eq!(half_digit("2685"), 0.5);
        assert_eq!(half_digit("1.5e3"), 50.0);
    }

    #[test]
    fn commas_in_quotes_move_no_column() {
        assert_eq!(columns(r#"a,"b,c",d"#), [1, 3, 9]);
    }

    #[test]
    fn lines_are_those_of_the_file() {
        for (text, numbers) in [
            ("a,b\nx,1\ny,2\n", [2, 3]),
            ("a,b\r\nx,1\r\ny,2\r\n", [2, 3]),
            ("a,b\rx,1\ry,2\r", [2, 3]),
            ("\u{feff}a,b\r\n\r\nx,1\r\n\r\n\r\ny,2", [3, 6]),
            ("a,b\n\n\"x\nx\",1\ny,2\n", [3, 5]),
            ("\n\na,b\nx,1\n\ny,2\n", [4, 6]),
        ] {
            let table = Table::parse("t.csv", text).unwrap();
            let lines: Vec<u64> = table.rows().map(|row| row.line.number).collect();
            assert_eq!(lines, numbers, "{text:?}");
            let place = table.rows().last().unwrap().place_of("b");
            assert_eq!(place, format!("t.csv:{}:3", numbers[1]), "{text:?}");
        }
        let short = Table::parse("t.csv", "a,b\r\nx,1\r\n\r\ny\r\n").unwrap_err();
        assert!(short.to_string().contains("t.csv:4:1"), "{short}");
    }

    #[test]
    fn what_is_there_twice_is_refused_with_both_places() {
        let columns = Table::parse("t.csv", "a,b,a\nx,1,2\n");
        holds(columns.unwrap_err(), &["t.csv:1:5", "1:1"]);
        let table = Table::parse("t.csv", "a,b\r\nx,1\r\ny,2\r\nx,1\r\n").unwrap();
        let error = table.refuse_repeated(&["a", "b"]).unwrap_err();
        holds(error, &["t.csv:4:1", "line 2"]);
    }

    #[test]
    fn damage_is_located() {
        for (text, words) in [
            ("a,b\nx,y\n", &[r#"t.csv:2:3: b is "y""#][..]),
            ("a,b\nx,inf\n", &["finite"]),
            ("a,b\nx\n", &["t.csv:2:1", "1 cells"]),
            ("a,c\nx,1\n", &[r#"no column "b""#, "a, c"]),
        ] {
            let table = Table::parse("t.csv", text);
            let number = table.and_then(|table| table.rows().next().unwrap().number("b"));
            holds(number.unwrap_err(), words);
        }
    }
}
