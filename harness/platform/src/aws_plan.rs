//! What rows need on AWS, and cost there at most: in every build, without an account.

use epochcost_aws_plan::{Prices, WorstCaseError, shares, worst_case};
use epochcost_channels::Allowance;
use epochcost_spec::cost::PriceBook;

use super::{CostLine, Invoked, NoWorstCase, RowUsage};

pub use epochcost_aws_plan::{
    Limits, NEW_ACCOUNT_MEMORY_MB, Needs, Quota, Share, Shares, Training,
};

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

/// Limits as multiples of the forecast: published trainings on Lambda took 2 to 8 times as long as
/// their simulations.
const SLACK: f64 = 8.0;
/// Shortest time limit of a function, seconds.
const FUNCTION_S: u64 = 60;
/// Shortest time limit of a trial, seconds.
const TRIAL_S: u64 = 600;

/// Least numbers of requests that an invocation may send: what it polls for may be some seconds late.
const REQUESTS: Allowance = Allowance {
    lists: 500,
    reads: 2_000,
};

/// Returns the limit of what is forecast to take so many seconds, or requests.
fn limit(forecast: f64, least: u64) -> u64 {
    least.max((SLACK * forecast).ceil() as u64)
}

/// Returns a row as AWS needs it: with the limits that follow from its forecast.
pub fn training(usage: &RowUsage) -> Training {
    let of_function = |(function, most): (&String, &Invoked)| {
        let reads = most.requests.gets + most.requests.missed_gets;
        let limits = Limits {
            timeout_s: (usage.row.timeout_s).min(limit(most.seconds, FUNCTION_S)),
            allowance: Allowance {
                lists: limit(most.requests.lists as f64, REQUESTS.lists),
                reads: limit(reads as f64, REQUESTS.reads),
            },
        };
        (function.clone(), limits)
    };
    let mut row = Training {
        row: usage.row.id.clone(),
        job: usage.row.job.clone(),
        memory_mb: usage.row.memory_mb,
        limits: Limits {
            timeout_s: usage.row.timeout_s,
            allowance: REQUESTS,
        },
        by_function: usage.most.iter().map(of_function).collect(),
        trial_s: None,
        instance_type: usage.row.instance_type.clone(),
        one_machine: usage.row.one_machine.is_some(),
        gpus: usage.row.one_machine.and_then(|machine| machine.gpus),
        trials: usage.trials as u64,
        uses_tensor_store: usage.uses_tensor_store,
        uses_queue: usage.uses_queue,
        puts: usage.puts,
        bytes_up: usage.bytes_up,
        gets: usage.gets,
        data_gets: usage.data_gets,
    };
    // What the row itself allows is the most.
    let most_s = row.deadline_s().unwrap_or(u64::MAX);
    row.trial_s = Some(most_s.min(limit(usage.seconds, TRIAL_S)));
    row
}

/// Returns the most that rows can cost, one line per row and price.
///
/// # Errors
/// When something has no price.
pub fn bound(rows: &[RowUsage], prices: &PriceBook) -> Result<Vec<CostLine>, NoWorstCase> {
    let trainings: Vec<Training> = rows.iter().map(training).collect();
    worst_case(&trainings, &Book(prices)).map_err(none)
}

/// Returns the most that what all trials share can cost, and one trial of each row.
///
/// # Errors
/// When something has no price.
pub fn bounds(rows: &[RowUsage], prices: &PriceBook) -> Result<Shares, NoWorstCase> {
    let trainings: Vec<Training> = rows.iter().map(training).collect();
    shares(&trainings, &Book(prices)).map_err(none)
}

fn none(error: WorstCaseError) -> NoWorstCase {
    NoWorstCase(error.to_string())
}
