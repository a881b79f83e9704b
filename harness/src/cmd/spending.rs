//! Options of verbs that may cost money.

use std::path::PathBuf;

use epochcost_planner::error::Error;
use epochcost_planner::forecast::price_book;
use epochcost_spec::cost::PriceBook;

/// Consent, limit and prices.
#[derive(Debug, clap::Args)]
pub struct Spending {
    /// Spend at most this, with what earlier tries in the same directory have spent; the local
    /// platform spends nothing.
    #[arg(long, value_name = "USD", value_parser = non_negative, allow_hyphen_values = true)]
    pub max_usd: Option<f64>,
    /// Prices of the worst case and of the bills, in place of the shipped ones (`epochcost aws prices
    /// refresh` writes them). On AWS they must be those of its region.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// On AWS: agree to the worst case without being asked.
    #[arg(long)]
    pub yes: bool,
}

fn non_negative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok(value),
        _ => Err("give dollars, 0 or more".to_owned()),
    }
}

impl Spending {
    /// Returns the prices of the file that was given, if one was.
    ///
    /// # Errors
    /// When the file is none of prices.
    pub fn prices(&self) -> Result<Option<PriceBook>, Error> {
        let read = self.prices.as_deref().map(|path| price_book(Some(path)));
        read.transpose()
    }
}
