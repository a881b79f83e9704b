//! `aws`: an account, and what runs left in it.

mod clean;
mod doctor;
mod prices;

use std::path::PathBuf;

use epochcost_planner::error::Error;
use epochcost_spec::exit::Exit;
use epochcost_spec::ui::Output;

/// `aws`.
#[derive(Debug, clap::Subcommand)]
pub enum Args {
    /// Check the account: identity, region, quotas, permissions.
    Doctor {
        /// Check for what this experiment needs, in place of the largest comparison.
        #[arg(value_name = "EXPERIMENT")]
        experiment: Option<PathBuf>,
    },
    /// Print the policy that the account's user or role needs.
    Policy,
    /// Show the price book, or ask the Pricing API for another.
    Prices(prices::Args),
    /// Find what runs left, by tag and in every region, and remove it.
    ///
    /// Asks before it removes anything. Fails if any service could not be
    /// asked: a list with a gap would read as "nothing is left".
    Clean(clean::Args),
}

/// Does what was asked.
///
/// # Errors
/// As of each.
pub async fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    match args {
        Args::Doctor { experiment } => doctor::account(experiment.as_deref(), output).await,
        Args::Policy => doctor::policy(output),
        Args::Prices(args) => prices::run(args, output).await,
        Args::Clean(args) => clean::run(args, output).await,
    }
}
