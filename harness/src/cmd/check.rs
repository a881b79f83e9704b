//! `check`: validate experiments and show what they expand to.

use std::path::PathBuf;

use epochcost_experiment::{Experiment, describe, expanded, yaml_files};
use epochcost_planner::error::Error;
use epochcost_planner::forecast::{price_book, priced};
use epochcost_spec::exit::Exit;
use epochcost_spec::shipped;
use epochcost_spec::ui::{Output, eprint_line};

use super::{Fetch, Selection};

/// `check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to check; of a directory, every experiment below it.
    #[command(flatten)]
    selection: Selection,
    /// The price book of its bills, as for `run`.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Whether to get their data.
    #[command(flatten)]
    fetch: Fetch,
}

/// Checks every file, and reports every one that is wrong.
///
/// # Errors
/// The last file's error; those before it were reported.
pub async fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    let options = args.selection.options();
    let prices = price_book(args.prices.as_deref())?;
    let mut failed: Option<Error> = None;
    let mut experiments = Vec::new();
    let mut note = |error: Error| {
        if let Some(earlier) = failed.replace(error) {
            eprint_line(format_args!(
                "error: {}",
                epochcost_spec::chain::chain(&earlier)
            ));
        }
    };
    for (file, is_named) in &files(&args.selection.experiments)? {
        let load = || -> Result<Experiment, Error> {
            let experiment = Experiment::load(file, &options)?;
            priced(&experiment, Some(&prices))?;
            Ok(experiment)
        };
        match load() {
            Ok(experiment) => experiments.push((experiment, *is_named)),
            Err(error) => note(error),
        }
    }
    let (mut experiments, named): (Vec<Experiment>, Vec<bool>) = experiments.into_iter().unzip();
    args.fetch.run(&experiments, output).await?;
    let mut named = named.into_iter();
    experiments.retain(|experiment| {
        let is_named = named.next().unwrap_or(true);
        // Of a directory's files, those are valid whose data nobody has fetched.
        let data = experiment.needs_data() && (is_named || experiment.data.directory.exists());
        let found = if data {
            experiment.data.inspect(&experiment.document)
        } else {
            Ok(())
        };
        found.map_err(|error| note(error.into())).is_ok()
    });
    for experiment in &experiments {
        output.text(describe(experiment));
    }
    output.json(&experiments.iter().map(expanded).collect::<Vec<_>>());
    failed.map_or(Ok(Exit::Done), Err)
}

/// Returns what was named, with the experiments below it in place of a directory, and whether it was.
fn files(named: &[PathBuf]) -> Result<Vec<(PathBuf, bool)>, Error> {
    let mut files = Vec::new();
    for path in named {
        let is_file = shipped::is_file(&shipped::experiment(path));
        let Some(directory) = shipped::directory(path).filter(|_| !is_file) else {
            files.push((path.clone(), true));
            continue;
        };
        let below = yaml_files(&directory).map_err(|error| Error::unreadable(&error, None))?;
        if below.is_empty() {
            return Err(Error::NothingSelected(format!(
                "there is no experiment below {}",
                path.display()
            )));
        }
        files.extend(below.into_iter().map(|file| (file, false)));
    }
    Ok(files)
}
