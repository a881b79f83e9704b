//! `run`: from experiments to run directories and reports.

use std::path::{Path, PathBuf};

use epochcost_experiment::{Experiment, Options, describe, expanded};
use epochcost_judge::analysis::{self, Analysis};
use epochcost_planner::error::Error;
use epochcost_record::{RunDirectory, probe};
use epochcost_report as report;
use epochcost_spec::exit::Exit;
use epochcost_spec::format::shell_word;
use epochcost_spec::ui::Output;

use super::{Fetch, Selection, Spending};
use crate::run::{Destination, Ended, SpendingConsent, Stop, execute, runnable, stop_signal};

/// `run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to run.
    #[command(flatten)]
    selection: Selection,
    /// The run directory; by default a new one under `results/`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with the run in `--out`: finished trials are not run again.
    #[arg(long, requires = "out")]
    resume: bool,
    /// Check everything and show what would be run, then stop.
    #[arg(long)]
    dry_run: bool,
    /// What it may cost.
    #[command(flatten)]
    spending: Spending,
    /// Whether to get its data.
    #[command(flatten)]
    fetch: Fetch,
}

/// Runs every experiment, each into a directory of its own.
///
/// # Errors
/// Whatever kept an experiment from being run; trials that had ended are kept.
pub async fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    let experiments = load(args)?;
    args.fetch.run(&experiments, output).await?;
    for experiment in experiments.iter().filter(|one| one.needs_data()) {
        experiment.data.inspect(&experiment.document)?;
    }
    if args.dry_run {
        for experiment in &experiments {
            output.text(describe(experiment));
        }
        output.json(&experiments.iter().map(expanded).collect::<Vec<_>>());
        return Ok(Exit::Done);
    }
    probe(args.out.as_deref().unwrap_or(Path::new("results")), "--out")?;
    let mut stop = stop_signal()?;
    let mut exit = Exit::Done;
    for experiment in &experiments {
        if experiment.is_shipped() {
            output.message(format_args!(
                "{} is shipped with this program; `epochcost list --write DIR` writes it out",
                experiment.name
            ));
        }
        exit = exit.max(one(args, experiment, output, &mut stop).await?);
    }
    Ok(exit)
}

/// Everything that can be refused before any work starts, but the directory.
fn load(args: &Args) -> Result<Vec<Experiment>, Error> {
    let files = &args.selection.experiments;
    if args.out.is_some() && files.len() > 1 {
        return Err(Error::usage(
            format!(
                "--out names one run directory, and there are {} experiments",
                files.len()
            ),
            "run them one at a time, or leave --out out",
        ));
    }
    let options = Options {
        prices: args.spending.prices()?,
        ..args.selection.options()
    };
    let load = |file: &PathBuf| -> Result<Experiment, Error> {
        let experiment = Experiment::load(file, &options)?;
        runnable(&experiment)?;
        args.selection.check_services(&experiment)?;
        Ok(experiment)
    };
    files.iter().map(load).collect()
}

/// One experiment, until it ends or a signal comes.
async fn one(
    args: &Args,
    experiment: &Experiment,
    output: Output,
    stop: &mut Stop,
) -> Result<Exit, Error> {
    if let Some(idle) = experiment.idle_fields() {
        output.message(format_args!("note: {idle}"));
    }
    let destination = match (args.out.as_deref(), args.resume) {
        (None, _) => Destination::New,
        (Some(out), false) => Destination::At(out),
        (Some(out), true) => {
            if !RunDirectory::is_in(out) {
                let out = out.display();
                output.message(format!("there is no run in {out} yet: this one begins"));
            }
            Destination::After(out)
        }
    };
    let consent = SpendingConsent {
        yes: args.spending.yes,
        max_usd: args.spending.max_usd,
        spent_in: None,
        prices: experiment.prices.clone(),
    };
    match execute(experiment, destination, (consent, None), output, stop).await {
        Ended::Whole(directory, analysis) => {
            print_summary(&directory, &analysis, output);
            Ok(analysis.exit_status())
        }
        Ended::Failed(_, error) => Err(error),
        Ended::Stopped(directory) => Err(interrupted(args, directory)?),
    }
}

fn print_summary(directory: &RunDirectory, analysis: &Analysis, output: Output) {
    let page = directory.path().join("report.html");
    output.text(report::terminal_table(analysis, output.width()));
    output.json(&analysis.summary);
    for line in report::terminal_warnings(analysis.warnings(), "on the report's page") {
        output.message(line);
    }
    output.message(format_args!("report: {}", page.display()));
}

/// Reports what was kept, if anything was.
fn interrupted(args: &Args, directory: Option<RunDirectory>) -> Result<Error, Error> {
    let (mut kept, mut path) = (0, args.out.clone().unwrap_or_else(|| "results".into()));
    if let Some(directory) = directory {
        kept = directory.finished_trials()?.len();
        path = directory.path().to_path_buf();
        if kept > 0 {
            report::write(&directory, &analysis::summarise(&directory)?)?;
        }
    }
    Ok(Error::Interrupted {
        kept,
        remedy: format!(
            "go on with --out {} --resume",
            shell_word(&path.to_string_lossy())
        ),
        directory: path,
    })
}
