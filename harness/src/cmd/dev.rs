//! `dev`: what authors of training systems and of the simulator ask.

mod faults;
mod new;
mod trial;
mod validate;

use clap_complete::Shell;

use epochcost_planner::error::Error;
use epochcost_spec::exit::Exit;
use epochcost_spec::ui::{Output, print_bytes};

/// `dev`.
#[derive(Debug, clap::Subcommand)]
pub enum Args {
    /// Compare the simulator with public measurements, or with a recorded run, cell by cell.
    ///
    /// Every file names a data set, the series that constants may have been
    /// fitted to, and targets for all other series. Exits with 3 if a target
    /// is not met or missed as the file expects, or a run is off by more than --within.
    Validate(validate::Args),
    /// Begin a training system of your own, in a checkout.
    New(new::Args),
    /// Search for faults that break what every system promises.
    ///
    /// Draws schedules of crashes, hangs, delays and broken servers by a seed, and runs them in
    /// virtual time: each kind at each place that workers reach, then several at a time. A row
    /// must end, fail only for a cause, and succeed with the figures of the same row without
    /// faults or a warning. What breaks a promise is shrunk to the fewest faults and printed as an
    /// experiment for `run`; the exit code is 3.
    Faults(faults::Args),
    /// Run a trial that another machine handed over, as a rented one does.
    #[command(hide = true)]
    Trial(trial::Args),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// Does what was asked; `program` is the command line that completions are of.
///
/// # Errors
/// As of each.
pub async fn run(args: &Args, mut program: clap::Command, output: Output) -> Result<Exit, Error> {
    match args {
        Args::Validate(args) => validate::run(args, output),
        Args::New(args) => new::run(args, output),
        Args::Faults(args) => faults::run(args, output).await,
        Args::Trial(args) => Box::pin(trial::run(args)).await,
        Args::Completions { shell } => {
            // Into memory first: a reader that goes away (`| head`) is no error.
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut program, "epochcost", &mut script);
            print_bytes(&script);
            Ok(Exit::Done)
        }
    }
}
