//! The tables that the audit takes its figures from, as this program brings them
//! along or from a directory.

use std::path::Path;

use super::finding::Statement;
use crate::published::{PublishedError, Quantity, Table};

/// A file of published figures, by name and shipped text.
macro_rules! shipped {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../../experiments/published/", $name)))),+]
    };
}

/// The files that this program brings along.
const SHIPPED: [(&str, &str); 9] = shipped![
    "stated.csv",
    "statements.csv",
    "cp_table2.csv",
    "cp_table3.csv",
    "cp_communication.csv",
    "p2p_table1.csv",
    "p2p_table2_serverless.csv",
    "p2p_table3_instance.csv",
    "p2p_text.csv",
];

/// The file that holds only ratios, of which nothing can be recomputed.
const KUBEML: (&str, &str) = shipped!["kubeml_text.csv"][0];

/// Every table of published figures.
#[derive(Clone, Debug)]
pub struct Published {
    tables: Vec<Table>,
}

impl Published {
    /// Returns the figures that this program brings along.
    ///
    /// # Errors
    /// Never for the shipped files; a test holds that.
    pub fn shipped() -> Result<Self, PublishedError> {
        let files = SHIPPED.into_iter().chain([KUBEML]);
        let tables = files.map(|(name, text)| Table::parse(name, text));
        Ok(Self {
            tables: tables.collect::<Result<_, _>>()?,
        })
    }

    /// Reads the same files from a directory.
    ///
    /// # Errors
    /// When one is missing or is no table.
    pub fn read(directory: &Path) -> Result<Self, PublishedError> {
        let own = Self::shipped()?;
        let tables = own
            .tables
            .iter()
            .map(|own| -> Result<Table, PublishedError> {
                let table = Table::read(&directory.join(own.name()))?;
                same_units(&table, own)?;
                Ok(table)
            });
        Ok(Self {
            tables: tables.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the table of that file name.
    ///
    /// # Errors
    /// [`PublishedError::Missing`] if it is none of the files read.
    pub fn table(&self, name: &str) -> Result<&Table, PublishedError> {
        let found = self.tables.iter().find(|table| table.name() == name);
        found.ok_or_else(|| PublishedError::Missing {
            file: name.to_owned(),
            missing: "there is no such table".to_owned(),
        })
    }

    /// Returns a number that a paper states, by its place in `stated.csv`.
    ///
    /// # Errors
    /// When it is not there or is no number.
    pub fn stated(&self, key: [&str; 4]) -> Result<Quantity, PublishedError> {
        let names = ["paper", "item", "quantity", "subject"];
        let pairs: Vec<(&str, &str)> = names.into_iter().zip(key).collect();
        self.table("stated.csv")?.row(&pairs)?.number("value")
    }

    /// Returns a sentence that a paper concludes, by its place in
    /// `statements.csv`: paper, section and key.
    ///
    /// # Errors
    /// When it is not there.
    pub fn statement(&self, key: [&str; 3]) -> Result<Statement, PublishedError> {
        let names = ["paper", "item", "key"];
        let pairs: Vec<(&str, &str)> = names.into_iter().zip(key).collect();
        let row = self.table("statements.csv")?.row(&pairs)?;
        Ok(Statement {
            text: row.text("statement")?.to_owned(),
            place: row.cell("statement"),
        })
    }
}

/// Checks that rows of the same texts have the units of the shipped table: the audit computes in
/// these.
fn same_units(table: &Table, shipped: &Table) -> Result<(), PublishedError> {
    const UNIT: &str = "unit";
    if !shipped.columns().iter().any(|name| name == UNIT) {
        return Ok(());
    }
    for known in shipped.rows() {
        let is_text = |name: &&String| {
            let is_number = known
                .text(name)
                .is_ok_and(|text| text.parse::<f64>().is_ok());
            !is_number && !["note", UNIT].contains(&name.as_str())
        };
        let names: Vec<&String> = shipped.columns().iter().filter(is_text).collect();
        let wanted = known.text(UNIT)?;
        for row in table.rows() {
            let mut names = names.iter();
            let is_same = names.all(|name| row.text(name).ok() == known.text(name).ok());
            if is_same && row.text(UNIT)? != wanted {
                return Err(PublishedError::Table {
                    place: row.cell(UNIT),
                    reason: format!(
                        "the unit is {:?}: give the figure in {wanted:?}, which the audit computes in",
                        row.text(UNIT)?
                    ),
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_in_another_unit_is_refused() {
        let shipped = Published::shipped().unwrap();
        let own = shipped.table("stated.csv").unwrap();
        let (_, text) = SHIPPED[0];
        let table = Table::parse("stated.csv", &text.replace("USD per hour", "EUR per hour"));
        let error = same_units(&table.unwrap(), own).unwrap_err().to_string();
        assert!(
            error.contains("stated.csv:4:unit") && error.contains("USD per hour"),
            "{error}"
        );
        assert!(same_units(own, own).is_ok());
    }

    #[test]
    fn the_shipped_files_are_tables() {
        let published = Published::shipped().unwrap();
        let table = published.table("cp_table2.csv").unwrap();
        let row = table
            .row(&[("model", "MobileNet"), ("framework", "AllReduce")])
            .unwrap();
        let seconds = row.number("seconds_per_batch").unwrap();
        assert_eq!((seconds.value, seconds.half_digit), (14.382, 0.0005));
        assert_eq!(seconds.place, "cp_table2.csv:4:seconds_per_batch");
    }
}
