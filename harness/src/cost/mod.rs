//! What a trial costs: a dated price book, and bills made of line items.
//!
//! Two accounts are kept of every trial: `paper`, by the formula of the
//! system's paper, and `full`, with everything that AWS would charge for.
//! A local run's bill says what AWS would have charged for the durations that
//! were measured here: local durations at list prices.

mod bill;
mod formula;
mod prices;

pub use bill::{Account, Bill, LineItem, Usage, full, paper};
pub use formula::{function_usd, instance_usd, peer_function_rate_usd};
pub use prices::{Price, PriceBook, PriceBookError};
