//! What rows need on AWS, and cost there at most: in every build, without an account.

use epochcost_aws_plan::{Prices, Training, worst_case};

use super::{CostLine, NoWorstCase, RowUsage};
use crate::cost::PriceBook;

pub use epochcost_aws_plan::{NEW_ACCOUNT_MEMORY_MB, Needs, Quota};

/// Name of the platform, and of the forms of experiments for it.
pub const NAME: &str = "aws";

/// Prices of a price book.
pub(super) struct Book<'a>(pub(super) &'a PriceBook);

impl Prices for Book<'_> {
    fn price(&self, dimension: &str) -> Result<(f64, String), String> {
        let price = self.0.price(dimension).map_err(|error| error.to_string())?;
        Ok((price.usd, price.unit.clone()))
    }
}

/// Returns a row as AWS needs it.
pub fn training(usage: &RowUsage) -> Training {
    Training {
        row: usage.row.id.clone(),
        job: usage.row.job.clone(),
        memory_mb: usage.row.memory_mb,
        timeout_s: usage.row.timeout_s,
        instance_type: usage.row.instance_type.clone(),
        trials: usage.trials as u64,
        uses_tensor_store: usage.uses_tensor_store,
        uses_queue: usage.uses_queue,
        puts: usage.puts,
        bytes_up: usage.bytes_up,
        gets: usage.gets,
        data_gets: usage.data_gets,
    }
}

/// Returns the most that rows can cost, one line per row and price.
///
/// # Errors
/// When something has no price.
pub fn bound(rows: &[RowUsage], prices: &PriceBook) -> Result<Vec<CostLine>, NoWorstCase> {
    let trainings: Vec<Training> = rows.iter().map(training).collect();
    let lines = worst_case(&trainings, &Book(prices));
    let lines = lines.map_err(|error| NoWorstCase(error.to_string()))?;
    let lines = lines.into_iter().map(|line| CostLine {
        row: line.row,
        dimension: line.dimension,
        what: line.what,
        quantity: line.quantity,
        unit: line.unit,
        unit_usd: line.unit_usd,
        usd: line.usd,
    });
    Ok(lines.collect())
}
