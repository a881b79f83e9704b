use std::collections::BTreeSet;

use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::units;
use crate::yaml::{self, Fault};

/// The price book that this program brings along.
const SHIPPED: &str = include_str!("../../../prices/us-east-1-2026-11-21.yaml");

/// Start of the dimensions of instances, by the hour.
pub(super) const EC2: &str = "ec2/";

/// Returns the dimension of an instance type.
pub fn ec2(instance_type: &str) -> String {
    format!("{EC2}{instance_type}")
}

/// Age from which on reports warn that prices may have changed.
const STALE_AFTER_DAYS: i32 = 180;

/// Prices of one region on one day.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceBook {
    text: String,
    book: Book,
    date: Date,
}

/// Prices of one region on one day.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Book {
    /// AWS region.
    region: String,
    /// Day on which the prices were recorded, `YYYY-MM-DD`.
    #[schemars(regex(pattern = r"^\d{4}-\d{2}-\d{2}$"))]
    date: String,
    /// How the prices were come by.
    note: String,
    /// Prices, one of each dimension.
    prices: Vec<Price>,
}

/// One price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// What is charged for, by a name that bills use.
    pub dimension: String,
    /// Unit of the quantity; it must convert to that of the dimension (`hour`, `second`, `1,000 requests`).
    pub unit: String,
    /// US dollars per unit.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub usd: f64,
    /// What it is, in words.
    pub about: String,
    /// Publication.
    pub source: String,
}

/// Why a price book is unusable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PriceBookError {
    /// The text could not be used.
    #[error("failed to use the price book: {problem}; {remedy}")]
    Unusable {
        /// What is wrong, and where.
        problem: String,
        /// What to do.
        remedy: String,
    },
    /// A price is missing.
    #[error(
        "failed to find a price for {dimension} in the price book of {region}, {date}; add it there, or write a book with `epochcost aws prices refresh --out FILE`"
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

impl Price {
    /// Converts the price, the entry `index` of `prices`, to the unit of its dimension.
    fn convert(&mut self, index: usize) -> Result<(), Fault> {
        let fault = |(field, problem, remedy): units::Fault| Fault {
            path: format!("prices.{index}.{field}"),
            problem,
            remedy,
        };
        let (unit, factor) = units::of(&self.dimension, &self.unit).map_err(fault)?;
        unit.clone_into(&mut self.unit);
        self.usd *= factor;
        Ok(())
    }
}

impl PriceBook {
    /// Returns the price book that this program brings along.
    ///
    /// # Errors
    /// Never for the shipped file; a test holds that.
    pub fn shipped() -> Result<Self, PriceBookError> {
        Self::parse("shipped", SHIPPED)
    }

    /// Reads a price book; `file` is its name in errors. Prices are converted to the units of
    /// their dimensions.
    ///
    /// # Errors
    /// When it is not one, or a price is out of bounds, of an unknown dimension, or in a
    /// unit that is not one of its dimension.
    pub fn parse(file: &str, text: &str) -> Result<Self, PriceBookError> {
        let mut date = Date::ZERO;
        let book = yaml::read(file, text, |book: &mut Book| {
            date = book.date.parse().map_err(|_| Fault {
                path: "date".to_owned(),
                problem: format!("{:?} is not a date", book.date),
                remedy: "write it as 2026-11-21".to_owned(),
            })?;
            let mut prices = book.prices.iter_mut().enumerate();
            prices.try_for_each(|(index, price)| price.convert(index))
        });
        let book =
            book.map_err(|(problem, remedy)| PriceBookError::Unusable { problem, remedy })?;
        let text = text.to_owned();
        Ok(Self { text, book, date })
    }

    /// Returns the price of `dimension`.
    ///
    /// # Errors
    /// [`PriceBookError::Missing`].
    pub fn price(&self, dimension: &str) -> Result<&Price, PriceBookError> {
        let price = self
            .prices()
            .iter()
            .find(|price| price.dimension == dimension);
        price.ok_or_else(|| self.missing(dimension.to_owned()))
    }

    /// Refuses dimensions that have no price.
    ///
    /// # Errors
    /// [`PriceBookError::Missing`], with everything that has none.
    pub fn prices_all(
        &self,
        dimensions: impl IntoIterator<Item = String>,
    ) -> Result<(), PriceBookError> {
        let dimensions = dimensions.into_iter();
        let missing = dimensions.filter(|name| self.price(name).is_err());
        let missing = Vec::from_iter(missing.collect::<BTreeSet<_>>());
        if missing.is_empty() {
            return Ok(());
        }
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

    /// Returns every instance type with a price.
    pub fn instance_types(&self) -> impl Iterator<Item = &str> {
        let dimensions = self.prices().iter().map(|price| price.dimension.as_str());
        dimensions.filter_map(|dimension| dimension.strip_prefix(EC2))
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

    /// Returns a warning if the prices were old on the day `on`, or are dated later.
    pub fn stale(&self, on: Date) -> Option<String> {
        stale("the price book", self.date, on)
    }
}

/// Returns a warning if `what`, of the day `date`, was old on the day `on`, or is dated later.
pub fn stale(what: &str, date: Date, on: Date) -> Option<String> {
    let days = on.since(date).ok()?.get_days();
    match days {
        ..0 => Some(format!(
            "{what} is dated {date}, {} days later than {on}: check its date",
            -days
        )),
        0..=STALE_AFTER_DAYS => None,
        _ => Some(format!(
            "{what} of {date} was {days} days old: prices may have changed"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cases, holds};

    #[test]
    fn the_shipped_book_prices_what_bills_use() {
        let book = PriceBook::shipped().unwrap();
        for dimension in super::super::bill::DIMENSIONS {
            assert!(book.price(dimension).is_ok(), "{dimension}");
        }
        let price = book.price("ec2/g4dn.xlarge").unwrap();
        assert_eq!((price.usd, price.unit.as_str()), (0.526, "hour"));
        let error = book.price("ec2/p5.48xlarge").unwrap_err();
        holds(error, &["ec2/p5.48xlarge", "us-east-1"]);
    }

    #[test]
    fn old_prices_warn() {
        let book = PriceBook::shipped().unwrap();
        let later = |days: i64| book.date() + jiff::Span::new().days(days);
        assert_eq!(book.stale(book.date()), None);
        assert_eq!(book.stale(later(180)), None);
        assert!(book.stale(later(181)).unwrap().contains("181 days old"));
        assert!(book.stale(later(-3)).unwrap().contains("check its date"));
    }

    #[test]
    fn a_price_per_second_is_the_price_per_hour_over_3600() {
        let own = "dimension: ec2/g4dn.xlarge\n    unit: hour\n    usd: 0.526\n";
        let second = own.replace("hour", "second");
        let second = second.replace("0.526", "0.0001461111");
        assert!(SHIPPED.contains(own));
        let book = PriceBook::parse("b.yaml", &SHIPPED.replace(own, &second)).unwrap();
        let price = book.price("ec2/g4dn.xlarge").unwrap();
        assert!((price.usd - 0.526).abs() < 1e-6 && price.unit == "hour");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_where_it_stands() {
        let twice = "\n  - {dimension: s3_put, unit: request, usd: 1, about: a, source: b}\n";
        let refused = |book: &str, words: &str| {
            holds(PriceBook::parse("b.yaml", book).unwrap_err(), &[words]);
        };
        for ([from, to], words) in cases(&[
            "usd: 0.526 | usd: -0.526 | usd: -0.526 is outside 0 to 1000000000",
            "GB-second | hour | b.yaml:10:11: prices.0.unit",
            "_gb_second | _gb_secnd | did you mean `lambda_gb_second`",
            "2026-11-21\n | 21.11.2026\n | write it as 2026-11-21",
            "region: | regoin: | did you mean `region`",
        ]) {
            refused(&SHIPPED.replacen(from, to, 1), words[0]);
        }
        let book = format!("{SHIPPED}{twice}");
        refused(&book, "`s3_put` is listed twice, first in line 29");
    }
}
