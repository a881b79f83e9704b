use std::collections::BTreeSet;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::rows::Row;

/// The price book that this program brings along.
const SHIPPED: &str = include_str!("../../prices/us-east-1-2026-11-21.yaml");

/// Age from which on reports warn that prices may have changed.
const STALE_AFTER_DAYS: i32 = 180;

/// Prices of one region on one day.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceBook {
    text: String,
    book: Book,
    date: Date,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Book {
    region: String,
    date: String,
    note: String,
    prices: Vec<Price>,
}

/// One price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// What is charged for, by a name that bills use.
    pub dimension: String,
    /// Unit of the quantity.
    pub unit: String,
    /// US dollars per unit.
    pub usd: f64,
    /// What it is, in words.
    pub about: String,
    /// Publication.
    pub source: String,
}

/// Why a price book is unusable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PriceBookError {
    /// The text could not be parsed.
    #[error("failed to read the price book: {0}")]
    Parse(String),
    /// A price is missing.
    #[error(
        "failed to find a price for {dimension} in the price book of {region}, {date}; add it there, or write a book with `epochcost prices refresh --out FILE`"
    )]
    Missing {
        /// What has no price.
        dimension: String,
        /// The book's region.
        region: String,
        /// The book's date.
        date: String,
    },
}

impl PriceBook {
    /// Returns the price book that this program brings along.
    ///
    /// # Errors
    /// Never for the shipped file; a test holds that.
    pub fn shipped() -> Result<Self, PriceBookError> {
        Self::parse(SHIPPED)
    }

    /// Reads a price book.
    ///
    /// # Errors
    /// When it is not one, or a price is negative or not finite.
    pub fn parse(text: &str) -> Result<Self, PriceBookError> {
        let book: Book =
            serde_yaml::from_str(text).map_err(|error| PriceBookError::Parse(error.to_string()))?;
        let date = book.date.parse().map_err(|_| {
            PriceBookError::Parse(format!(
                "its date is {:?}; write it as 2026-11-21",
                book.date
            ))
        })?;
        let unusable = |price: &&Price| !(price.usd.is_finite() && price.usd >= 0.0);
        match book.prices.iter().find(unusable) {
            Some(price) => Err(PriceBookError::Parse(format!(
                "the price of {} is {}; it must be finite and at least 0",
                price.dimension, price.usd
            ))),
            None => Ok(Self {
                text: text.to_owned(),
                book,
                date,
            }),
        }
    }

    /// Returns the price of `dimension`.
    ///
    /// # Errors
    /// [`PriceBookError::Missing`].
    pub fn price(&self, dimension: &str) -> Result<&Price, PriceBookError> {
        self.prices()
            .iter()
            .find(|price| price.dimension == dimension)
            .ok_or_else(|| self.missing(dimension.to_owned()))
    }

    /// Refuses rows whose bills can name what has no price; see [`dimensions`](super::dimensions).
    ///
    /// # Errors
    /// [`PriceBookError::Missing`], with everything that has none.
    pub fn prices_all<'a>(
        &self,
        rows: impl IntoIterator<Item = &'a Row>,
        function_price: Option<&str>,
    ) -> Result<(), PriceBookError> {
        let rows = rows.into_iter();
        let needed = rows.flat_map(|row| super::dimensions(row, function_price));
        let missing: BTreeSet<String> = needed.filter(|name| self.price(name).is_err()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let missing: Vec<String> = missing.into_iter().collect();
        Err(self.missing(missing.join(", ")))
    }

    fn missing(&self, dimension: String) -> PriceBookError {
        PriceBookError::Missing {
            dimension,
            region: self.book.region.clone(),
            date: self.book.date.clone(),
        }
    }

    /// Returns the book with `prices` in the place of its own of the same dimensions, or
    /// added to them.
    #[must_use]
    pub fn with(&self, prices: &[Price]) -> Self {
        let mut book = self.clone();
        for price in prices {
            let own = &mut book.book.prices;
            match own.iter_mut().find(|own| own.dimension == price.dimension) {
                Some(own) => *own = price.clone(),
                None => own.push(price.clone()),
            }
        }
        book
    }

    /// Returns every price, in the book's order.
    pub fn prices(&self) -> &[Price] {
        &self.book.prices
    }

    /// Returns the AWS region.
    pub fn region(&self) -> &str {
        &self.book.region
    }

    /// Returns the day the prices were recorded.
    pub fn date(&self) -> Date {
        self.date
    }

    /// Returns how the prices were come by.
    pub fn note(&self) -> &str {
        &self.book.note
    }

    /// Returns the file's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns a warning if the prices were old on the day `on`.
    pub fn stale(&self, on: Date) -> Option<String> {
        let days = on.since(self.date).ok()?.get_days();
        (days > STALE_AFTER_DAYS).then(|| {
            format!(
                "the price book of {} was {days} days old: prices may have changed",
                self.book.date
            )
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_shipped_book_prices_what_bills_use() {
        let book = PriceBook::shipped().unwrap();
        for dimension in super::super::bill::DIMENSIONS {
            assert!(book.price(dimension).is_ok(), "{dimension}");
        }
        let price = book.price("ec2/g4dn.xlarge").unwrap();
        assert_eq!((price.usd, price.unit.as_str()), (0.526, "hour"));
        let error = book.price("ec2/p5.48xlarge").unwrap_err().to_string();
        assert!(
            error.contains("ec2/p5.48xlarge") && error.contains("us-east-1"),
            "{error}"
        );
    }

    #[test]
    fn old_prices_warn() {
        let book = PriceBook::shipped().unwrap();
        let later = |days: i64| {
            book.date()
                .checked_add(jiff::Span::new().days(days))
                .unwrap()
        };
        assert_eq!(book.stale(book.date()), None);
        assert_eq!(book.stale(later(180)), None);
        assert!(book.stale(later(181)).unwrap().contains("181 days old"));
    }

    #[test]
    fn a_negative_price_is_refused() {
        let text = SHIPPED.replace("usd: 0.526", "usd: -0.526");
        let error = PriceBook::parse(&text).unwrap_err().to_string();
        assert!(error.contains("ec2/g4dn.xlarge is -0.526"), "{error}");
    }
}
