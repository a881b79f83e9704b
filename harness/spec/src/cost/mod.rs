//! Costs of a trial: a dated price book, and bills made of line items.
//!
//! Every trial is priced by two cost models: `paper`, the formula of the
//! system's paper, and `full`, with everything that AWS would charge for.
//! A local run's bill is what AWS would have charged for the durations that
//! were measured here: local durations at list prices, with as many polls as AWS
//! would have answered in that time.

mod bill;
mod formula;
pub mod instances;
mod prices;
mod units;

pub use bill::{
    Bill, CostModel, EC2_MINIMUM_S, LineItem, Pace, Rates, Usage, billed_s, dimensions,
    even_gb_months, full, paper,
};
pub use bill::{hourly_usd, is_ec2};
pub use formula::{function_rate_usd, function_usd, instance_usd};
pub use prices::{Book, ec2, stale};
pub use prices::{Price, PriceBook, PriceBookError};
pub use units::of as unit_of;

use epochcost_systems::{Job, QueueService, find};

/// Returns the queue that a job's system is paid for by; RabbitMQ of an unknown one.
pub fn queue_service(job: &Job) -> QueueService {
    let bound = find(&job.system).and_then(|system| system.bind(job).ok());
    bound.map_or(QueueService::RabbitMq, |bound| bound.queue_service())
}
