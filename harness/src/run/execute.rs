//! One experiment from its plan to its report: what `run` and `reproduce` share.

use std::path::Path;

use epochcost_experiment::Experiment;
use epochcost_judge::analysis::{self, Analysis};
use epochcost_planner::error::Error;
use epochcost_planner::forecast::priced;
use epochcost_platform::{Finding, Platform, SpendingConsent};
use epochcost_record::{
    ComputeUsed, NewRun, PlannedRow, RunDirectory, SimulationRecord, TrialId, command_line,
};
use epochcost_report as report;
use epochcost_spec::metering::TrialOutcome;
use epochcost_spec::rows::TrialPlan;
use epochcost_spec::ui::Output;
use futures_util::stream::{self, StreamExt};
use tokio::sync::Semaphore;

use super::draws;
use super::prepared::{Opened, Prepared, open};
use super::progress::Following;
use super::signal::Stop;
use super::tear_down::tear_down;

/// Directory of a run.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'a> {
    /// A new directory under `results/`.
    New,
    /// This directory, which is empty or absent.
    At(&'a Path),
    /// This directory, which contains the first trials of the run.
    After(&'a Path),
}

/// End of a run.
pub enum Ended {
    /// All trials ended; the reports are written.
    Whole(Box<RunDirectory>, Box<Analysis>),
    /// A signal stopped the run. The directory is `None` before it was created.
    Stopped(Option<RunDirectory>),
    /// An error ended the run. Trials that had ended are kept.
    Failed(Option<RunDirectory>, Error),
}

/// Runs an experiment until it ends or a signal comes, of each row the trials below `until` if there
/// is such a number. Dropping the work stops every process that it started; the platform is torn
/// down however it ended.
pub async fn execute(
    experiment: &Experiment,
    destination: Destination<'_>,
    (consent, until): (SpendingConsent, Option<usize>),
    output: Output,
    stop: &mut Stop,
) -> Ended {
    let mut opened = match open(experiment, consent.prices.as_ref()) {
        Ok(opened) => opened,
        Err(error) => return Ended::Failed(None, error),
    };
    let mut directory = None;
    let work = Work {
        experiment,
        destination,
        consent,
        until,
        output,
    };
    let ended = tokio::select! {
        result = work.run(&mut opened, &mut directory) => match result {
            Ok((directory, analysis)) => Ended::Whole(Box::new(directory), Box::new(analysis)),
            Err(error) => Ended::Failed(directory.clone(), error),
        },
        () = stop => Ended::Stopped(directory.clone()),
    };
    let Some(directory) = directory else {
        return ended;
    };
    let torn_down = tear_down(opened.platform.as_ref(), directory.path(), output).await;
    match (torn_down, ended) {
        // Why the run failed comes first; leftovers were reported.
        (Ok(()), ended) | (Err(_), ended @ Ended::Failed(..)) => ended,
        (Err(error), _) => Ended::Failed(Some(directory), error),
    }
}

/// File with what was expected of a run that costs money, written before its first trial.
const FORECAST: &str = "forecast.json";

/// One experiment on its way through a platform's life cycle.
struct Work<'a> {
    experiment: &'a Experiment,
    destination: Destination<'a>,
    consent: SpendingConsent,
    /// Number of the first trial that is not due yet, if there is one.
    until: Option<usize>,
    output: Output,
}

impl Work<'_> {
    /// Runs everything from preparation to the report. `place` is filled in as
    /// soon as there is a run directory.
    async fn run(
        &self,
        opened: &mut Opened,
        place: &mut Option<RunDirectory>,
    ) -> Result<(RunDirectory, Analysis), Error> {
        let (experiment, output) = (self.experiment, self.output);
        let prepared = Prepared::of(experiment, opened, self.consent.clone(), output).await?;
        let directory = open_directory(self, &prepared)?;
        let directory = place.insert(match &self.consent.prices {
            Some(prices) => directory.priced_by(prices.clone()),
            None => directory,
        });
        output.message(format_args!("results go to {}", directory.path().display()));
        if let Some(forecast) = opened.forecast() {
            directory.keep_json(FORECAST, &forecast)?;
        }
        if !experiment.rows.is_empty() {
            let platform = opened.platform.as_mut();
            // Leftovers of an earlier run that was cut off are removed first.
            tear_down(platform, directory.path(), output).await?;
            platform.begin(directory.path()).await?;
            let stage = Trials {
                experiment,
                platform,
                prepared: &prepared,
                directory,
                output,
            };
            let mut plans = experiment.trial_plans();
            let until = self.until.filter(|until| *until < experiment.trials);
            plans.retain(|plan| until.is_none_or(|until| plan.trial < until));
            stage.run(plans).await?;
            if until.is_none() {
                stage.add().await?;
                draws::draw(experiment, directory, output).await?;
            }
        }
        let analysis = analysis::summarise(directory)?;
        report::write(directory, &analysis)?;
        Ok((directory.clone(), analysis))
    }
}

/// Refuses what the experiment's platform cannot run and what has no price, in the shipped book
/// if there is no other, before anything happens.
///
/// # Errors
/// Names what is lacking and what to do.
pub fn runnable(experiment: &Experiment) -> Result<(), Error> {
    let prices = experiment.prices.as_ref();
    priced(experiment, prices)?;
    let opened = open(experiment, prices)?;
    Ok(opened.platform.refuse(&experiment.rows)?)
}

/// Returns what an experiment's platform lacks for it, without doing anything.
///
/// # Errors
/// When the platform cannot be asked, or a row cannot be estimated.
pub async fn platform_findings(experiment: &Experiment) -> Result<Vec<Finding>, Error> {
    Ok(open(experiment, None)?.platform.doctor().await?)
}

fn open_directory(work: &Work<'_>, prepared: &Prepared) -> Result<RunDirectory, Error> {
    let (experiment, destination) = (work.experiment, work.destination);
    let planned = experiment.rows.iter().zip(&prepared.platform.infeasible);
    let simulation = experiment.simulation.as_ref();
    let rows = planned.map(|(row, infeasible)| PlannedRow {
        row: row.clone(),
        trials: experiment.trials,
        most_trials: experiment.most_trials,
        infeasible: infeasible.clone(),
        compute: simulation.and_then(|simulation| ComputeUsed::of(simulation, row)),
    });
    let seeds = (0..experiment.most_trials).map(|trial| experiment.trial_seed(trial));
    let platform = &prepared.platform;
    let run = NewRun {
        experiment: experiment.name.clone(),
        experiment_file: experiment.document.file.clone(),
        platform: experiment.platform.as_str().to_owned(),
        services: experiment.services.as_str().to_owned(),
        experiment_yaml: experiment.document.resolved(),
        rows: rows.collect(),
        claims: experiment.claims.clone(),
        datasets: prepared.datasets.clone(),
        seeds: seeds.collect(),
        command: command_line(),
        worker: platform.worker.clone(),
        limits: platform.limits.clone(),
        servers: platform.servers.clone(),
        rehearsed: platform.rehearsed,
        simulation: simulation_record(experiment),
        prices: work.consent.prices.clone(),
    };
    Ok(match destination {
        Destination::After(path) if RunDirectory::is_in(path) => RunDirectory::resume(path, &run)?,
        Destination::After(path) => RunDirectory::create_again(path, run)?,
        Destination::At(path) => RunDirectory::create(Some(path), run)?,
        Destination::New => RunDirectory::create(None, run)?,
    })
}

/// Returns what a simulation of the experiment is computed from.
pub fn simulation_record(experiment: &Experiment) -> Option<SimulationRecord> {
    let simulation = experiment.simulation.as_ref()?;
    Some(SimulationRecord::of(simulation, &experiment.rows))
}

/// The trials of a run.
struct Trials<'a> {
    experiment: &'a Experiment,
    platform: &'a dyn Platform,
    prepared: &'a Prepared,
    directory: &'a RunDirectory,
    output: Output,
}

/// Returns a warning of each fault that did not happen.
fn missed_faults(plan: &TrialPlan, outcome: &TrialOutcome) -> Vec<String> {
    let faults = &plan.row.faults;
    let times = outcome.faults(faults.len());
    let missed = faults.iter().zip(times).filter(|(_, times)| *times == 0);
    missed.map(|(fault, _)| fault.did_not_happen()).collect()
}

impl Trials<'_> {
    /// Runs those of `plans` that have not ended yet; each is written to disk when it ends.
    async fn run(&self, mut plans: Vec<TrialPlan>) -> Result<(), Error> {
        let finished = self.directory.finished_trials()?;
        let rows = self.experiment.rows.iter();
        let impossible = rows.zip(&self.prepared.platform.infeasible);
        let impossible = impossible.filter(|(_, why)| why.is_some());
        let impossible: Vec<&str> = impossible.map(|(row, _)| row.id.as_str()).collect();
        plans.retain(|plan| !impossible.contains(&plan.row.id.as_str()));
        let figures = self.experiment.platform.site().figures();
        let following = Following::new(plans.len(), figures, self.output);
        let mut left = Vec::with_capacity(plans.len());
        for (index, plan) in plans.iter().enumerate() {
            if finished.contains(&TrialId::of(plan)) {
                following.skipped(index, plan);
            } else {
                left.push((index, plan));
            }
        }
        // Several at a time where clocks are virtual. They are written in their order: while one
        // takes long, a few others end and wait to be written.
        let at_once = self.platform.concurrent_trials();
        let (turns, following) = (&Semaphore::new(at_once), &following);
        let running = left.into_iter().map(|(index, plan)| async move {
            let _turn = turns.acquire().await;
            let (progress, data) = (following.trial(index, plan), &self.prepared.data);
            let outcome = self.platform.run_trial(plan, data, &progress).await;
            (index, plan, outcome)
        });
        let waiting = if at_once > 1 { 4 } else { 0 };
        let mut ended = stream::iter(running).buffered(at_once + waiting);
        while let Some((index, plan, outcome)) = ended.next().await {
            let mut outcome = outcome?;
            outcome.warnings.extend(missed_faults(plan, &outcome));
            self.directory.append_trial(plan, &outcome)?;
            following.ended(index, plan, &outcome);
        }
        following.finish();
        Ok(())
    }

    /// Doubles the trials of the rows that undecided claims compare, until every claim is
    /// decided or there are as many trials as there may be.
    async fn add(&self) -> Result<(), Error> {
        let most = self.experiment.most_trials;
        let mut run = self.experiment.trials;
        while run < most {
            let rows = analysis::summarise(self.directory)?.undecided_rows();
            if rows.is_empty() {
                return Ok(());
            }
            let until = (2 * run).min(most);
            self.output.message(format_args!(
                "an interval crosses the edge of a claim's band: trials {} to {until} of {}",
                run + 1,
                rows.iter().cloned().collect::<Vec<_>>().join(", "),
            ));
            let mut plans = self.experiment.plans_of(run..until);
            plans.retain(|plan| rows.contains(&plan.row.id));
            self.run(plans).await?;
            run = until;
        }
        Ok(())
    }
}
