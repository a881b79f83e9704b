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
        let files = SHIPPED.into_iter().chain([KUBEML]);
        let tables = files.map(|(name, _)| Table::read(&directory.join(name)));
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

#[cfg(test)]
mod tests {
    use super::*;

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
