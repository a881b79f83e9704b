//! Products of the Pricing API (`GetProducts`, format `aws_v1`) and their prices.

use std::collections::BTreeMap;

use serde::Deserialize;
use thiserror::Error;

use super::Query;

/// Current price from the Pricing API.
#[derive(Clone, Debug, PartialEq)]
pub struct Refreshed {
    /// Name of the dimension in price books.
    pub dimension: String,
    /// Unit in price books.
    pub unit: String,
    /// US dollars per unit, of the first tier that is not free.
    pub usd: f64,
    /// Description, with the other tiers.
    pub about: String,
    /// SKU of the product and effective date of the price.
    pub source: String,
}

/// Reason why there is no price.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PriceError {
    /// The region does not have the product.
    #[error("{region} has no {dimension}: the Pricing API has no product for {asked}")]
    NotOffered {
        /// Dimension.
        dimension: String,
        /// Region.
        region: String,
        /// Service and attributes of the query.
        asked: String,
    },
    /// Several products match, with different prices.
    #[error("{dimension} is ambiguous: the Pricing API has {skus} at different prices")]
    Ambiguous {
        /// Dimension.
        dimension: String,
        /// SKUs of the products.
        skus: String,
    },
    /// A product does not have the expected form.
    #[error("the price of {dimension} cannot be read: {reason}")]
    Unreadable {
        /// Dimension.
        dimension: String,
        /// Problem.
        reason: String,
    },
}

/// Parts of a product that this program reads.
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

/// Price of a range of units.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tier {
    from: f64,
    to: f64,
    usd: f64,
}

/// Returns the price that `products` have for `query` in `region`.
///
/// # Errors
/// The reason why the price is uncertain; an uncertain price is never 0.
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
            asked: described(query),
        });
    };
    // A product may have several SKUs, which is harmless at one price.
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
    /// Tiers that are not free; at least one.
    tiers: Vec<Tier>,
}

/// Reads the price of one product.
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
    // Free tiers of an account are in no price book.
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

/// Reads one tier.
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

/// Checks that the tiers cover every quantity exactly once.
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

/// Returns the description with all tiers after the first.
fn about(query: &Query, tiers: &[Tier]) -> String {
    let mut about = query.about.clone();
    for tier in &tiers[1..] {
        about.push_str(&format!(
            ", {} from {} {}s per month on",
            tier.usd, tier.from, query.unit
        ));
    }
    about
}

/// Returns the service and the attributes of a query as text.
fn described(query: &Query) -> String {
    let attributes = query.attributes.iter();
    let usage = query.usage.map(|usage| format!("usagetype with {usage}"));
    let attributes: Vec<String> = attributes
        .map(|(name, value)| format!("{name}={value}"))
        .chain(usage)
        .collect();
    format!("{} with {}", query.service, attributes.join(", "))
}
