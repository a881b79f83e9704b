//! One experiment from its plan to its report: what `run` and `reproduce` share.

use std::path::Path;
use std::sync::Arc;

use super::aws::{self, Terms};
use super::prepared::Prepared;
use super::progress::{Following, TrialProgress};
use super::signal::Stop;
use crate::analysis::{self, Analysis};
use crate::error::Error;
use crate::experiment::{Experiment, PlatformKind, Services};
use crate::platform::local::check;
use crate::report;
use crate::results::{ComputeUsed, NewRun, PlannedRow, RunDirectory, SimulationRecord, TrialId};
use crate::ui::Output;

/// Where a run goes.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'a> {
    /// Into a new directory under `results/`.
    New,
    /// Into this directory, which is empty or absent.
    At(&'a Path),
    /// Into this directory, after the trials that it holds.
    After(&'a Path),
}

impl Destination<'_> {
    fn path(&self) -> Option<&Path> {
        match self {
            Self::New => None,
            Self::At(path) | Self::After(path) => Some(path),
        }
    }
}

/// How a run ended.
pub enum Ended {
    /// With all its trials; the reports are written.
    Whole(Box<RunDirectory>, Box<Analysis>),
    /// By a signal. There is a directory if it came to that.
    Stopped(Option<RunDirectory>),
    /// By an error. Trials that had ended are kept.
    Failed(Option<RunDirectory>, Error),
}

/// Runs an experiment until it ends or a signal comes. Dropping the work stops
/// every process that it started; what it made on AWS is removed however it ended.
pub async fn execute(
    experiment: &Experiment,
    destination: Destination<'_>,
    terms: Terms,
    output: Output,
    stop: &mut Stop,
) -> Ended {
    let mut directory = None;
    let ended = tokio::select! {
        result = work(experiment, destination, terms, output, &mut directory) => match result {
            Ok((directory, analysis)) => Ended::Whole(Box::new(directory), Box::new(analysis)),
            Err(error) => Ended::Failed(directory.clone(), error),
        },
        () = stop => Ended::Stopped(directory.clone()),
    };
    let Some(directory) = directory.filter(|_| experiment.platform == PlatformKind::Aws) else {
        return ended;
    };
    match (aws::put_away(directory.path(), output).await, ended) {
        (Ok(()), ended) => ended,
        // Why it failed comes first; what is left was said.
        (Err(_), Ended::Failed(directory, error)) => Ended::Failed(directory, error),
        (Err(error), _) => Ended::Failed(Some(directory), error),
    }
}

async fn work(
    experiment: &Experiment,
    destination: Destination<'_>,
    terms: Terms,
    output: Output,
    place: &mut Option<RunDirectory>,
) -> Result<(RunDirectory, Analysis), Error> {
    let mut prepared = Prepared::of(experiment, terms, output).await?;
    let directory = place.insert(open_directory(destination, experiment, &prepared)?);
    output.message(format_args!("results go to {}", directory.path().display()));
    if let Some(agreed) = prepared.agreed.take() {
        // What a run that was cut off left goes first.
        aws::put_away(directory.path(), output).await?;
        prepared.platform = Some(aws::begin(agreed, directory.path()).await?);
    }
    trials(experiment, &prepared, directory, output).await?;
    let analysis = analysis::summarise(directory)?;
    report::write(directory, &analysis)?;
    Ok((directory.clone(), analysis))
}

/// Refuses what no platform of this build can run.
///
/// # Errors
/// Names what is lacking and what to do.
pub fn runnable(experiment: &Experiment) -> Result<(), Error> {
    match (experiment.platform, experiment.services) {
        (PlatformKind::Local, Services::Embedded) | (PlatformKind::Sim, _) => Ok(()),
        (PlatformKind::Local, Services::Real) => Ok(check(&experiment.rows)?),
        (PlatformKind::Aws, _) => aws::runnable(experiment),
    }
}

fn open_directory(
    destination: Destination<'_>,
    experiment: &Experiment,
    prepared: &Prepared,
) -> Result<RunDirectory, Error> {
    let planned = experiment.rows.iter().zip(&prepared.infeasible);
    let rows: Vec<PlannedRow> = planned
        .map(|(row, infeasible)| PlannedRow {
            row: row.clone(),
            trials: experiment.trials,
            infeasible: infeasible.clone(),
            compute: (experiment.simulation.as_ref())
                .and_then(|simulation| ComputeUsed::of(simulation, row)),
        })
        .collect();
    let simulation = simulation_record(experiment);
    if let Destination::After(path) = destination
        && path.join("manifest.json").exists()
    {
        return Ok(RunDirectory::resume(path, &rows, simulation.as_ref())?);
    }
    let run = NewRun {
        experiment: experiment.name.clone(),
        platform: experiment.platform.as_str().to_owned(),
        services: experiment.services.as_str().to_owned(),
        experiment_yaml: experiment.document.resolved(),
        rows,
        claims: experiment.claims.clone(),
        datasets: prepared.datasets.clone(),
        seeds: (0..experiment.trials)
            .map(|trial| experiment.trial_seed(trial))
            .collect(),
        command: std::env::args().collect(),
        worker: prepared.worker.clone(),
        limits: prepared.limits.clone(),
        servers: prepared.servers.clone(),
        simulation,
    };
    Ok(RunDirectory::create(destination.path(), run)?)
}

/// What a simulation of the experiment stands on.
pub fn simulation_record(experiment: &Experiment) -> Option<SimulationRecord> {
    let simulation = experiment.simulation.as_ref()?;
    Some(SimulationRecord::of(simulation, &experiment.rows))
}

/// Runs every trial that has not ended yet; each is on the disk when it has.
async fn trials(
    experiment: &Experiment,
    prepared: &Prepared,
    directory: &RunDirectory,
    output: Output,
) -> Result<(), Error> {
    let Some(platform) = &prepared.platform else {
        return Ok(());
    };
    let finished = directory.finished_trials()?;
    let impossible = experiment.rows.iter().zip(&prepared.infeasible);
    let impossible: Vec<&str> = impossible
        .filter_map(|(row, why)| why.as_ref().map(|_| row.id.as_str()))
        .collect();
    let mut plans = experiment.trial_plans();
    plans.retain(|plan| !impossible.contains(&plan.row.id.as_str()));
    let following = Following::new(plans.len(), output);
    for (index, plan) in plans.iter().enumerate() {
        if finished.contains(&TrialId::of(plan)) {
            following.skipped(index, plan);
            continue;
        }
        let progress: Arc<TrialProgress> = following.trial(index, plan);
        let data = &prepared.data;
        let outcome = platform.run_trial(plan, data, progress.as_ref()).await?;
        directory.append_trial(plan, &outcome)?;
        following.ended(index, plan, &outcome);
    }
    following.finish();
    Ok(())
}
