//! `dev faults`: a search for faults that break what every system promises.

use std::path::PathBuf;

use epochcost_experiment::document::Node;
use epochcost_experiment::{Experiment, Options, named, rows_alone};
use epochcost_planner::error::Error;
use epochcost_platform::simulator;
use epochcost_spec::exit::Exit;
use epochcost_spec::ui::Output;

use crate::cmd::done_or_failed;
use crate::run::faults::Search;

/// `dev faults`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Experiment whose rows are searched: a file, or the name of a shipped one.
    #[arg(value_name = "EXPERIMENT")]
    experiment: PathBuf,
    /// Set a field, as for `run`.
    #[arg(long, value_name = "A.B=C")]
    set: Vec<String>,
    /// Everything is drawn from this.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Number of schedules.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    schedules: usize,
}

/// Schedules between two messages.
const BETWEEN: usize = 500;

/// Searches, and prints what was found.
///
/// # Errors
/// When the experiment cannot be searched.
pub async fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    let document = rows_alone(named::read(&args.experiment)?);
    let states_values = |simulation: &Node| simulation.get("real_compute").is_some();
    let trains = !document.root.get("simulation").is_some_and(states_values);
    let trains = trains.then(|| "simulation.real_compute=true".to_owned());
    let options = Options {
        set: trains.into_iter().chain(args.set.clone()).collect(),
        trials: Some(1),
        platform: Some(simulator()),
        ..Options::default()
    };
    let experiment = Experiment::from_document(document, &options)?;
    let search = Search::open(experiment, args.seed, output).await?;
    let found = search.run(args.schedules, |found| {
        if found.schedules % BETWEEN == 0 {
            let (done, broken) = (found.schedules, found.violations.len());
            let all = args.schedules;
            output.message(format_args!("{done} of {all}: {broken} violations"));
        }
    });
    let found = found.await?;
    for violation in &found.violations {
        let (schedule, row, broken) = (violation.schedule, &violation.row, &violation.broken);
        let replay = &violation.replay;
        output.text(format!("# {row}, schedule {schedule}: {broken}\n{replay}"));
    }
    output.json(&found);
    let (schedules, failed, violations) = (found.schedules, found.failed, found.violations.len());
    let seed = args.seed;
    output.message(format_args!(
        "seed {seed}: {schedules} schedules, {failed} rows failed, {violations} violations"
    ));
    Ok(done_or_failed(found.violations.is_empty()))
}
