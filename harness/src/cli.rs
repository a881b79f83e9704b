//! The command line.

mod help;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use self::help::with_help;
use crate::chain::chain;
use crate::cmd;
use crate::error::Error;
use crate::exit::Exit;
use crate::ui::{Output, eprint_line, fit_to, output_failure, print_bytes};

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
    /// Compare the simulator with public measurements, or with a recorded run, cell by cell.
    ///
    /// Every file names a data set, the series that constants may have been
    /// fitted to, and targets for all other series. Exits with 3 if a target
    /// is not met or missed as the file expects, or a run is off by more than --within.
    Validate(cmd::validate::Args),
    /// Draw where training is cheapest, and where it is fastest.
    ///
    /// By the size of a model and the operations of a sample, under a deadline: the best
    /// of functions, of one machine alone and of several machines at every place, as a
    /// picture and in sentences. Everything is simulated.
    Map(cmd::map::Args),
    /// Measure this machine's compute profile, which simulations stand on.
    ///
    /// A step of b samples takes fixed + b x sample seconds on one thread: a
    /// line fitted to the medians by least squares of relative errors. Measure
    /// on an idle machine. `profile calibrate` moves a platform profile towards
    /// measurements of one's own account.
    Profile(cmd::profile::Args),
    /// Gone: what it did is asked of other verbs.
    #[command(hide = true, disable_help_flag = true)]
    Replay {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _arguments: Vec<OsString>,
    },
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
    /// Write an appendix for artefact evaluation, from the recorded reproduction.
    ///
    /// Fills in the form of EuroSys and SOSP 2026 in Markdown and LaTeX: claims C1,
    /// C2, ... with the item, the command and the expected verdict of each.
    Artifact(cmd::artifact::Args),
    /// Make, fetch and check datasets.
    Data(cmd::data::Args),
    /// Show the price book, or ask the Pricing API for another.
    Prices(cmd::prices::Args),
    /// Show what there is.
    List(cmd::list::Args),
    /// Write out the experiments, profiles, places and prices inside this program.
    ///
    /// Into DIR, to read, change and run. Overwrites nothing.
    Init(cmd::init::Args),
    /// Begin a training system of your own, in a checkout.
    New(cmd::scaffold::Args),
    /// Test training systems.
    #[command(subcommand)]
    Dev(cmd::dev::Args),
    /// Show what this machine can do, and what to install for the rest.
    Doctor(cmd::doctor::Args),
    /// Find what runs left on AWS, by tag and in every region, and remove it.
    ///
    /// Asks before it removes anything. Fails if any service could not be
    /// asked: a list with a gap would read as "nothing is left".
    Clean(cmd::clean::Args),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// Parses the command line, runs the verb, and renders its error.
pub async fn main() -> ExitCode {
    let parsed = with_help(Cli::command()).try_get_matches();
    let cli = match parsed.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches)) {
        Ok(cli) => cli,
        Err(error) => {
            let asks_for_json = std::env::args_os().any(|argument| argument == "--json");
            if asks_for_json && error.use_stderr() {
                let output = Output {
                    json: true,
                    verbosity: 0,
                    wide: false,
                };
                let text = error.to_string();
                let text = text.strip_prefix("error: ").unwrap_or(&text);
                output.error(text.trim_end(), Exit::Usage as u8);
            }
            error.exit()
        }
    };
    let verbosity = if cli.global.quiet {
        -1
    } else {
        i8::try_from(cli.global.verbose).unwrap_or(1)
    };
    let output = Output {
        json: cli.global.json,
        verbosity,
        wide: cli.global.wide,
    };
    fit_to(output.width());
    let ended = dispatch(cli.verb, output).await;
    match ended.and_then(written) {
        Ok(exit) => exit.into(),
        Err(error) => {
            let text = chain(&error);
            eprint_line(format_args!("error: {text}"));
            output.error(&text, error.exit() as u8);
            error.exit().into()
        }
    }
}

/// Turns the end of a verb whose results could not be printed into an error.
fn written(exit: Exit) -> Result<Exit, Error> {
    match output_failure() {
        None => Ok(exit),
        Some(source) => Err(Error::Io {
            doing: "write to standard output".to_owned(),
            source,
        }),
    }
}

async fn dispatch(verb: Verb, output: Output) -> Result<Exit, Error> {
    match verb {
        Verb::Run(args) => cmd::run::run(&args, output).await,
        Verb::Check(args) => cmd::check::run(&args, output),
        Verb::Plan(args) => cmd::plan::run(&args, output),
        Verb::Validate(args) => cmd::validate::run(&args, output),
        Verb::Map(args) => cmd::map::run(&args, output),
        Verb::Profile(args) => cmd::profile::run(&args, output).await,
        Verb::Replay { .. } => Err(Error::Usage {
            problem: "there is no verb `replay` any more".to_owned(),
            remedy: "`epochcost validate RUN` compares a run with its simulation, `epochcost plan RUN --set \
                     workers=16` plans it under other settings, `epochcost profile calibrate RUN` takes its steps"
                .to_owned(),
        }),
        Verb::Reproduce(args) => cmd::reproduce::run(&args, output).await,
        Verb::Report(args) => cmd::report::run(&args, output),
        Verb::Compare(args) => cmd::compare::run(&args, output),
        Verb::Audit(args) => cmd::audit::run(&args, output),
        Verb::Artifact(args) => cmd::artifact::run(&args, output),
        Verb::Data(args) => cmd::data::run(&args, output).await,
        Verb::Prices(args) => cmd::prices::run(&args, output).await,
        Verb::List(args) => cmd::list::run(&args, output),
        Verb::Init(args) => cmd::init::run(&args, output),
        Verb::New(args) => cmd::scaffold::run(&args, output),
        Verb::Dev(args) => cmd::dev::run(&args, output).await,
        Verb::Doctor(args) => cmd::doctor::run(&args, output).await,
        Verb::Clean(args) => cmd::clean::run(&args, output).await,
        Verb::Completions { shell } => {
            // Into memory first: a reader that goes away (`| head`) is no error.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "epochcost", &mut script);
            print_bytes(&script);
            Ok(Exit::Done)
        }
    }
}
