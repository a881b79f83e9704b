//! Numbers under keys and columns.

use std::collections::BTreeMap;

use super::parse::sum;
use super::tree::Expr;
use super::{FormulaError, Unit};

/// The table of quantities that are known from elsewhere: `known.` always begins their names.
pub const KNOWN: &str = "known";

/// One number of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The number.
    pub value: f64,
    /// Half a unit of its last printed digit.
    pub half_digit: f64,
    /// Unit; `None` for a number without one.
    pub unit: Option<Unit>,
    /// Where it stands: `file:line:column`, or a source.
    pub place: String,
}

/// The cells of one name, each under a value of every key.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its table's name.
    pub table: String,
    /// Its own name.
    pub name: String,
    /// What cells are looked up by.
    pub keys: Vec<String>,
    /// Whether its numbers are set-ups or counts, which are equal exactly or not at all.
    pub is_exact: bool,
    /// Whether they are the authors' data, which the paper does not print.
    pub authors_data: bool,
    /// Values of each key, in the order of the table.
    values: Vec<Vec<String>>,
    cells: BTreeMap<Vec<String>, Cell>,
}

impl Column {
    /// Creates an empty column.
    pub fn new(table: &str, name: &str, keys: &[String], is_exact: bool) -> Self {
        Self {
            table: table.to_owned(),
            name: name.to_owned(),
            keys: keys.to_vec(),
            is_exact,
            authors_data: false,
            values: vec![Vec::new(); keys.len()],
            cells: BTreeMap::new(),
        }
    }

    /// Adds a cell; returns the one that was there, if it is the second with these values.
    pub fn insert(&mut self, at: Vec<String>, cell: Cell) -> Option<Cell> {
        self.name_values(&at);
        self.cells.insert(at, cell)
    }

    /// Makes the values of a row known, whether or not its cell is empty.
    pub fn name_values(&mut self, at: &[String]) {
        for (known, value) in self.values.iter_mut().zip(at) {
            if !known.contains(value) {
                known.push(value.clone());
            }
        }
    }

    /// Makes a value of a key known.
    pub fn name_value(&mut self, key: &str, value: &str) {
        if let Some(index) = self.keys.iter().position(|own| own == key) {
            self.values[index].push(value.to_owned());
        }
    }

    /// Returns whether a value of a key is known.
    pub fn has_value(&self, value: &str) -> bool {
        self.values.iter().flatten().any(|known| known == value)
    }

    /// Gives a cell a number, or empties it.
    pub fn set(&mut self, at: &[String], cell: Option<Cell>) {
        match cell {
            Some(cell) => self.cells.insert(at.to_vec(), cell),
            None => self.cells.remove(at),
        };
    }

    /// Returns whether no cell holds a number: the column of a drawing.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Returns the cell under these values, if it is not empty.
    pub fn cell(&self, at: &[String]) -> Option<&Cell> {
        self.cells.get(at)
    }

    /// Returns all cells.
    pub fn cells(&self) -> impl Iterator<Item = (&Vec<String>, &Cell)> {
        self.cells.iter()
    }

    pub(super) fn values_of(&self, key: &str) -> &[String] {
        let index = self.keys.iter().position(|own| own == key);
        index.map_or(&[], |index| &self.values[index])
    }
}

/// A number that stands alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// Value, unit and place.
    pub cell: Cell,
    /// Whether it is a set-up, and so exact; otherwise it is quoted, to its digits.
    pub is_setup: bool,
}

/// All that the formulas of one paper name.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    columns: Vec<Column>,
    numbers: BTreeMap<String, Number>,
    /// Sums that have a name.
    derived: BTreeMap<String, Expr>,
    /// Other printed names of a value, with the one that stands for all.
    aliases: BTreeMap<String, String>,
    unprinted: Vec<String>,
}

impl Grid {
    /// Adds a column.
    pub fn add_column(&mut self, column: Column) {
        self.columns.push(column);
    }

    /// Adds a number if the name is free; returns whether it was.
    pub fn add_number(&mut self, name: &str, number: Number) -> bool {
        let is_free = !self.numbers.contains_key(name);
        self.numbers.entry(name.to_owned()).or_insert(number);
        is_free
    }

    /// Gives a sum a name.
    ///
    /// # Errors
    /// When the text is no sum.
    pub fn add_derived(&mut self, name: &str, text: &str) -> Result<(), FormulaError> {
        self.derived.insert(name.to_owned(), sum(text)?);
        Ok(())
    }

    /// Makes printed names of one thing equal.
    pub fn add_names(&mut self, printed: &[String]) {
        let Some(first) = printed.first() else { return };
        for other in &printed[1..] {
            self.aliases.insert(other.clone(), first.clone());
        }
    }

    /// Names metrics that formulas may use although no paper prints them.
    pub fn add_unprinted(&mut self, names: impl IntoIterator<Item = String>) {
        self.unprinted.extend(names);
    }

    /// Returns the name that stands for all printed names of a thing.
    pub fn canonical<'a>(&'a self, printed: &'a str) -> &'a str {
        self.aliases.get(printed).map_or(printed, String::as_str)
    }

    /// Returns all columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the place of a column among all.
    pub fn column(&self, table: &str, name: &str) -> Option<usize> {
        self.find(Some(table), name).first().copied()
    }

    /// Returns a column, by its place among all.
    pub fn column_mut(&mut self, index: usize) -> Option<&mut Column> {
        self.columns.get_mut(index)
    }

    /// Returns the number of that name.
    pub fn number(&self, name: &str) -> Option<&Number> {
        self.numbers.get(name)
    }

    pub(super) fn derived(&self, name: &str) -> Option<&Expr> {
        self.derived.get(name)
    }

    pub(super) fn is_unprinted(&self, name: &str) -> bool {
        let name = name.split('(').next().unwrap_or_default();
        self.unprinted.iter().any(|known| known == name)
    }

    /// Returns columns of that name, of one table or of all that are printed.
    pub(super) fn find(&self, table: Option<&str>, name: &str) -> Vec<usize> {
        let is_its = |own: &str| table.map_or(own != KNOWN, |table| own == table);
        let columns = self.columns.iter().enumerate();
        let own = columns.filter(|(_, own)| own.name == name && is_its(&own.table));
        own.map(|(index, _)| index).collect()
    }

    /// Returns whether a column has that key.
    pub(super) fn has_key(&self, key: &str) -> bool {
        let mut keys = self.columns.iter().flat_map(|column| &column.keys);
        keys.any(|own| own == key)
    }

    /// Returns every name that a formula may use.
    pub(super) fn names(&self) -> Vec<&str> {
        let columns = self.columns.iter().map(|column| column.name.as_str());
        let numbers = self.numbers.keys().map(String::as_str);
        let mut names: Vec<&str> = columns.chain(numbers).collect();
        names.extend(self.derived.keys().map(String::as_str));
        names.sort_unstable();
        names.dedup();
        names
    }
}
