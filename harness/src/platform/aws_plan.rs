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

/// Time limits as multiples of the forecast: published trainings on Lambda took 2 to 8 times as long as
/// their simulations.
const SLACK: f64 = 8.0;
/// Shortest time limit of a function, seconds.
const FUNCTION_S: u64 = 60;
/// Shortest time limit of a trial, seconds.
const TRIAL_S: u64 = 900;

/// Returns the time limit of what is forecast to take so many seconds.
fn limit_s(forecast_s: f64, least_s: u64) -> u64 {
    least_s.max((SLACK * forecast_s).ceil() as u64)
}

/// Returns a row as AWS needs it: with the time limits that follow from its forecast.
pub fn training(usage: &RowUsage) -> Training {
    let row = Training {
        row: usage.row.id.clone(),
        job: usage.row.job.clone(),
        memory_mb: usage.row.memory_mb,
        timeout_s: usage.row.timeout_s,
        trial_s: None,
        instance_type: usage.row.instance_type.clone(),
        trials: usage.trials as u64,
        uses_tensor_store: usage.uses_tensor_store,
        uses_queue: usage.uses_queue,
        puts: usage.puts,
        bytes_up: usage.bytes_up,
        gets: usage.gets,
        data_gets: usage.data_gets,
    };
    // What the row itself allows is the most.
    let trial_s = row.deadline_s().unwrap_or(u64::MAX);
    let trial_s = trial_s.min(limit_s(usage.seconds, TRIAL_S));
    let function_s = limit_s(usage.longest_function_s, FUNCTION_S);
    Training {
        timeout_s: row.timeout_s.min(function_s),
        trial_s: Some(trial_s),
        ..row
    }
}

/// Returns the most that rows can cost, one line per row and price.
///
/// # Errors
/// When something has no price.
pub fn bound(rows: &[RowUsage], prices: &PriceBook) -> Result<Vec<CostLine>, NoWorstCase> {
    let trainings: Vec<Training> = rows.iter().map(training).collect();
    worst_case(&trainings, &Book(prices)).map_err(|error| NoWorstCase(error.to_string()))
}
