//! The command line.

mod help;
mod moved;

use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use epochcost_planner::error::Error;
use epochcost_spec::chain::chain;
use epochcost_spec::exit::Exit;
use epochcost_spec::ui::{Output, eprint_line, fit_to, output_failure};

use self::help::with_help;
use self::moved::moved;
use crate::cmd;

/// When does serverless training pay? Runs training systems side by side and
/// reports time, cost, communication and accuracy.
///
/// Exit codes: 0 done; 1 internal error; 2 bad usage or bad experiment; 3 a
/// trial failed or a verdict is not the one expected; 4 nothing selected; 5 the
/// platform lacks something (`epochcost doctor` reports what); 6 spending limit; 7
/// interrupted, partial results kept.
#[derive(Debug, Parser)]
#[command(name = "epochcost", version, propagate_version = true)]
pub struct Cli {
    /// Options of every verb.
    #[command(flatten)]
    global: Global,
    /// What to do.
    #[command(subcommand)]
    verb: Verb,
}

/// Options of every verb.
#[derive(Debug, Args)]
struct Global {
    /// Print results as JSON on standard output; messages stay on standard error.
    #[arg(long, global = true, help_heading = "Output", display_order = 100)]
    json: bool,
    /// Say more.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Output", display_order = 101)]
    verbose: u8,
    /// Show all columns of tables, however wide the terminal is.
    #[arg(long, global = true, help_heading = "Output", display_order = 103)]
    wide: bool,
    /// Say nothing but errors and results.
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        help_heading = "Output",
        display_order = 102
    )]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run experiments.
    Run(cmd::run::Args),
    /// Validate experiments and show what they expand to.
    Check(cmd::check::Args),
    /// Say what an experiment would take, before anything runs.
    ///
    /// Simulates every row with sizes only, on the platform profile and the
    /// compute profiles that the experiment or the options name: time, dollars,
    /// traffic, memory, and which rows nothing beats. Impossible rows are named
    /// with the limit that they meet, and are no error.
    Plan(cmd::plan::Args),
    /// Measure this machine's compute profile, which simulations stand on.
    ///
    /// A step of b samples takes fixed + b x sample seconds on one thread: a
    /// line fitted to the medians by least squares of relative errors. Measure
    /// on an idle machine. `profile calibrate` moves a platform profile towards
    /// measurements of one's own account.
    Profile(cmd::profile::Args),
    /// Run the tables and figures of the papers, and report on all of them.
    ///
    /// Every item is an experiment in a directory of `experiments/`, and a run
    /// with a directory of its own. What is recorded already is not run again
    /// unless the experiment, a profile or a binary has changed; what was
    /// interrupted goes on. Ends with one page over all items.
    Reproduce(cmd::reproduce::Args),
    /// Write the report of runs again, from their results alone.
    Report(cmd::report::Args),
    /// Compare two runs, row by row and metric by metric.
    ///
    /// Prints what changed from the first run to the second, and `undecided`
    /// where the trials do not decide. Exits with 0 whatever it finds, unless
    /// --fail-on names it, or names what one trial cannot tell.
    Compare(cmd::compare::Args),
    /// Recompute the papers' figures from their own inputs.
    ///
    /// Shows inputs, formula and both results of every figure that does not add
    /// up, and whether the paper's conclusion survives it; with -v also of
    /// those that do. Findings are no failure: exits with 0.
    Audit(cmd::audit::Args),
    /// Show what there is.
    List(cmd::list::Args),
    /// Show what this machine can do, and what to install for the rest.
    Doctor(cmd::doctor::Args),
    /// Check an AWS account, show prices, and remove what runs left.
    #[command(subcommand)]
    Aws(cmd::aws::Args),
    /// Begin and test training systems, and validate the simulator.
    #[command(subcommand)]
    Dev(cmd::dev::Args),
}

/// Parses the command line, runs the verb, and renders its error.
pub async fn main() -> ExitCode {
    let parsed = with_help(Cli::command()).try_get_matches();
    let cli = match parsed.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches)) {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    let global = cli.global;
    let verbosity = i8::try_from(global.verbose).unwrap_or(1);
    let output = Output {
        json: global.json,
        verbosity: if global.quiet { -1 } else { verbosity },
        wide: global.wide,
    };
    fit_to(output.width());
    let ended = dispatch(cli.verb, output).await;
    match ended.and_then(written) {
        Ok(exit) => exit.into(),
        Err(error) => failed(&error, output),
    }
}

/// Says why a command line is none, or shows the help that it asks for.
fn refused(error: &clap::Error) -> ExitCode {
    let output = Output {
        json: std::env::args_os().any(|argument| argument == "--json"),
        verbosity: 0,
        wide: false,
    };
    if let Some(moved) = moved(error) {
        return failed(&moved, output);
    }
    if error.use_stderr() {
        let text = error.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        output.error(text.trim_end(), Exit::Usage as u8);
    }
    error.exit()
}

/// Reports an error, to people and where asked to programs.
fn failed(error: &Error, output: Output) -> ExitCode {
    let text = chain(error);
    eprint_line(format_args!("error: {text}"));
    output.error(&text, error.exit() as u8);
    error.exit().into()
}

/// Turns the end of a verb whose results could not be printed into an error.
fn written(exit: Exit) -> Result<Exit, Error> {
    match output_failure() {
        None => Ok(exit),
        Some(source) => Err(Error::io("write to standard output")(source)),
    }
}

async fn dispatch(verb: Verb, output: Output) -> Result<Exit, Error> {
    match verb {
        Verb::Run(args) => cmd::run::run(&args, output).await,
        Verb::Check(args) => cmd::check::run(&args, output).await,
        Verb::Plan(args) => cmd::plan::run(&args, output),
        Verb::Profile(args) => cmd::profile::run(&args, output).await,
        Verb::Reproduce(args) => cmd::reproduce::run(&args, output).await,
        Verb::Report(args) => cmd::report::run(&args, output),
        Verb::Compare(args) => cmd::compare::run(&args, output),
        Verb::Audit(args) => cmd::audit::run(&args, output),
        Verb::List(args) => cmd::list::run(&args, output),
        Verb::Doctor(args) => cmd::doctor::run(&args, output).await,
        Verb::Aws(args) => cmd::aws::run(&args, output).await,
        Verb::Dev(args) => cmd::dev::run(&args, Cli::command(), output).await,
    }
}
