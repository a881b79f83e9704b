//! Prices from the Pricing API.

mod document;
mod fetch;
mod query;

pub use document::{PriceError, Refreshed, read};
pub use fetch::{fetch, fetch_as_configured};
pub use query::{Query, queries};
