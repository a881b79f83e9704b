//! `dev trial`: what a rented machine runs of a trial.

use std::path::PathBuf;

use epochcost_planner::error::Error;
use epochcost_platform::local::handed_over;
use epochcost_spec::exit::Exit;

/// Options of `dev trial`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory with the trial and its data; what was recorded is written beside them.
    directory: PathBuf,
}

pub async fn run(args: &Args) -> Result<Exit, Error> {
    handed_over::run(&args.directory, &()).await?;
    Ok(Exit::Done)
}
