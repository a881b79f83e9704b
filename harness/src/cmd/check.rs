//! `check`: validate experiments and show what they expand to.

use std::path::PathBuf;

use epochcost_experiment::{Experiment, describe, expanded, yaml_files};
use epochcost_planner::error::Error;
use epochcost_planner::forecast::{price_book, priced};
use epochcost_spec::chain::chain;
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
    let (mut experiments, mut named) = (Vec::new(), Vec::new());
    let mut note = |error: Error| {
        if let Some(earlier) = failed.replace(error) {
            eprint_line(format_args!("error: {}", chain(&earlier)));
        }
    };
    for (file, is_named) in &files(&args.selection.experiments)? {
        let loaded = Experiment::load(file, &options).map_err(Error::from);
        match loaded.and_then(|loaded| priced(&loaded, Some(&prices)).map(|()| loaded)) {
            Ok(experiment) => {
                experiments.push(experiment);
                named.push(*is_named);
            }
            Err(error) => note(error),
        }
    }
    args.fetch.run(&experiments, output).await?;
    let mut named = named.into_iter();
    experiments.retain(|experiment| {
        let is_named = named.next().unwrap_or(true);
        // Of a directory's files, those are valid whose data nobody has fetched.
        let data = experiment.needs_data() && (is_named || experiment.data.directory.exists());
        let inspected = data.then(|| experiment.data.inspect(&experiment.document));
        let inspected = inspected.unwrap_or(Ok(()));
        inspected.map_err(|error| note(error.into())).is_ok()
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
