//! A product of the Pricing API (`GetProducts`, format `aws_v1`), and the price
//! in it.

use std::collections::BTreeMap;

use serde::Deserialize;
use thiserror::Error;

use super::Query;

/// A price as the Pricing API has it today.
#[derive(Clone, Debug, PartialEq)]
pub struct Refreshed {
    /// The dimension's name in price books.
    pub dimension: String,
    /// The price book's unit.
    pub unit: String,
    /// US dollars a unit, of the first tier that costs anything.
    pub usd: f64,
    /// What it is, in words, with its other tiers.
    pub about: String,
    /// The product's SKU and since when it costs that.
    pub source: String,
}

/// Why there is no price.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PriceError {
    /// The region does not have the product.
    #[error("{region} has no {dimension}: the Pricing API has no product for {asked}")]
    NotOffered {
        /// The dimension.
        dimension: String,
        /// The region.
        region: String,
        /// What was asked for.
        asked: String,
    },
    /// More than one product answers, and they cost differently.
    #[error("{dimension} is ambiguous: the Pricing API has {skus} at different prices")]
    Ambiguous {
        /// The dimension.
        dimension: String,
        /// Their SKUs.
        skus: String,
    },
    /// A product is not in the shape that this program knows.
    #[error("the price of {dimension} cannot be read: {reason}")]
    Unreadable {
        /// The dimension.
        dimension: String,
        /// Why.
        reason: String,
    },
}

/// The parts of a product that a price needs; there are many others.
#[derive(Deserialize)]
struct Document {
    product: Product,
    terms: Terms,
}

#[derive(Deserialize)]
struct Product {
    sku: String,
}

#[derive(Deserialize)]
struct Terms {
    #[serde(rename = "OnDemand", default)]
    on_demand: BTreeMap<String, Term>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Term {
    effective_date: String,
    price_dimensions: BTreeMap<String, Dimension>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dimension {
    unit: String,
    begin_range: Option<String>,
    end_range: Option<String>,
    price_per_unit: BTreeMap<String, String>,
}

/// From how many units on a price holds, and to how many.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tier {
    from: f64,
    to: f64,
    usd: f64,
}

/// The price that `products` have for `query` in `region`.
///
/// # Errors
/// Whatever makes the price uncertain: it is never taken as 0.
pub fn read(query: &Query, region: &str, products: &[String]) -> Result<Refreshed, PriceError> {
    let mut prices = Vec::new();
    for text in products {
        prices.push(one(query, text).map_err(|reason| PriceError::Unreadable {
            dimension: query.dimension.clone(),
            reason,
        })?);
    }
    let Some((first, others)) = prices.split_first() else {
        return Err(PriceError::NotOffered {
            dimension: query.dimension.clone(),
            region: region.to_owned(),
            asked: asked(query),
        });
    };
    // One thing may be listed under several SKUs; that is no matter at one price.
    if others.iter().any(|other| other.tiers != first.tiers) {
        let skus: Vec<&str> = prices.iter().map(|price| price.sku.as_str()).collect();
        return Err(PriceError::Ambiguous {
            dimension: query.dimension.clone(),
            skus: skus.join(", "),
        });
    }
    Ok(Refreshed {
        dimension: query.dimension.clone(),
        unit: query.unit.to_owned(),
        usd: first.tiers[0].usd,
        about: about(query, &first.tiers),
        source: format!(
            "Pricing API, {} of {}, effective {}",
            first.sku, query.service, first.effective
        ),
    })
}

struct Price {
    sku: String,
    effective: String,
    /// Those that cost something; at least one.
    tiers: Vec<Tier>,
}

fn one(query: &Query, text: &str) -> Result<Price, String> {
    let document: Document = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let sku = document.product.sku;
    let mut terms = document.terms.on_demand.into_values();
    let (Some(term), None) = (terms.next(), terms.next()) else {
        return Err(format!("{sku} has not exactly one price on demand"));
    };
    let mut tiers = Vec::new();
    for dimension in term.price_dimensions.values() {
        tiers.push(tier(query, &sku, dimension)?);
    }
    tiers.sort_by(|a, b| a.from.total_cmp(&b.from));
    is_whole(&sku, &tiers)?;
    // What an account has for nothing at first is in no price book.
    tiers.retain(|tier| tier.usd > 0.0);
    if tiers.is_empty() {
        return Err(format!("{sku} costs nothing in any tier"));
    }
    Ok(Price {
        sku,
        effective: term.effective_date,
        tiers,
    })
}

fn tier(query: &Query, sku: &str, dimension: &Dimension) -> Result<Tier, String> {
    if !query.units.contains(&dimension.unit.as_str()) {
        return Err(format!(
            "{sku} is priced by the unit {:?}, which is none of {:?}",
            dimension.unit, query.units
        ));
    }
    let Some(usd) = dimension.price_per_unit.get("USD") else {
        let currencies: Vec<_> = dimension.price_per_unit.keys().collect();
        return Err(format!("{sku} has no price in USD, but in {currencies:?}"));
    };
    let number = |text: &str| -> Result<f64, String> {
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
            _ => Err(format!("{sku} has the number {text:?}")),
        }
    };
    Ok(Tier {
        from: number(dimension.begin_range.as_deref().unwrap_or("0"))?,
        to: match dimension.end_range.as_deref() {
            None | Some("Inf") => f64::INFINITY,
            Some(end) => number(end)?,
        },
        usd: number(usd)?,
    })
}

/// Tiers that leave something without a price are no price.
fn is_whole(sku: &str, tiers: &[Tier]) -> Result<(), String> {
    let mut reached = 0.0;
    for tier in tiers {
        if tier.from != reached {
            return Err(format!(
                "{sku} has no price, or two, from {reached} units on"
            ));
        }
        reached = tier.to;
    }
    if reached != f64::INFINITY {
        return Err(format!("{sku} has no price from {reached} units on"));
    }
    Ok(())
}

fn about(query: &Query, tiers: &[Tier]) -> String {
    let mut about = query.about.clone();
    for tier in &tiers[1..] {
        about.push_str(&format!(
            ", {} from {} {}s a month on",
            tier.usd, tier.from, query.unit
        ));
    }
    about
}

fn asked(query: &Query) -> String {
    let attributes = query.attributes.iter();
    let usage = query.usage.map(|usage| format!("usagetype with {usage}"));
    let attributes: Vec<String> = attributes
        .map(|(name, value)| format!("{name}={value}"))
        .chain(usage)
        .collect();
    format!("{} with {}", query.service, attributes.join(", "))
}
