//! Draws of a simulated run: each row that a ranking compares is timed again under
//! constants that are drawn from the profile's ranges.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use epochcost_experiment::Experiment;
use epochcost_judge::analysis::agreement::{self, Figure};
use epochcost_judge::analysis::{TrialAnalysis, pace};
use epochcost_planner::error::Error;
use epochcost_planner::forecast::parallel;
use epochcost_platform::sim::{self, Sim};
use epochcost_record::{
    DrawnFigure, PlannedRow, ResultsError, RowDraws, RunDirectory, TrialId, TrialRow, steps,
};
use epochcost_simulator::Recorded;
use epochcost_simulator::profile::Profile;
use epochcost_spec::claims::Claim;
use epochcost_spec::cost::{Pace, PriceBook, Rates};
use epochcost_spec::metering::{Invocation, TrialOutcome};
use epochcost_spec::rows::{TrialPlan, draw_seed};
use epochcost_spec::ui::Output;
use indicatif::ProgressBar;

use super::progress::ticking;

/// Largest relative difference between a trial and the same trial timed again: what
/// writing and reading a number may change.
const ROUNDING: f64 = 1e-9;

/// Returns whether every row that a ranking compares has its draws.
///
/// # Errors
/// When `draws.jsonl` is damaged.
pub(super) fn are_complete(directory: &RunDirectory) -> Result<bool, ResultsError> {
    let simulation = directory.manifest().simulation.as_ref();
    if simulation.is_none_or(|record| record.draws == 0) {
        return Ok(true);
    }
    let finished = finished(directory)?;
    let rows = wanted(directory.claims(), directory.rows()).into_keys();
    let ids = rows.map(|place| &directory.rows()[place].row.id);
    Ok(ids.into_iter().all(|id| finished.contains(id)))
}

fn finished(directory: &RunDirectory) -> Result<BTreeSet<String>, ResultsError> {
    Ok(directory.draws()?.into_iter().map(|d| d.row).collect())
}

/// Returns the figures that draws keep of each possible row, by its position.
fn wanted(claims: &[Claim], rows: &[PlannedRow]) -> BTreeMap<usize, Vec<Figure>> {
    let mut wanted = agreement::figures(claims, rows);
    wanted.retain(|place, _| rows[*place].infeasible.is_none());
    wanted
}

/// Draws what rankings compare, row by row; each row is written to disk when it ends.
/// Does nothing where figures are measured, or no ranking is claimed.
///
/// # Errors
/// When a row cannot be simulated, or a file cannot be read or written.
pub(super) async fn draw(
    experiment: &Experiment,
    directory: &RunDirectory,
    output: Output,
) -> Result<(), Error> {
    let Some(simulation) = &experiment.simulation else {
        return Ok(());
    };
    let wanted = wanted(&experiment.claims, directory.rows());
    if wanted.is_empty() {
        return Ok(());
    }
    // What was drawn before an interruption is kept.
    let began = Instant::now();
    let finished = finished(directory)?;
    let mut trials = recorded_trials(directory)?;
    let draws = simulation.draws;
    let rows = wanted.len();
    let template = "{spinner} [{pos}/{len} draws, {elapsed}] {msg}";
    let bar = ticking(rows * draws as usize, output, template);
    for (place, figures) in wanted {
        let planned = directory.rows()[place].clone();
        let id = planned.row.id.clone();
        let of_row = trials.remove(&id).unwrap_or_default();
        if finished.contains(&id) {
            bar.inc(draws.into());
            let text = format!("{draws} draws of {id}: already finished");
            bar.suspend(|| output.detail(text));
            continue;
        }
        bar.set_message(id.clone());
        let since = Instant::now();
        let task = RowTask {
            sim: Sim::new(simulation.clone(), None),
            plans: experiment.trial_plans(),
            seed: experiment.seed,
            draws,
            trains: simulation.real_compute,
            profile: simulation.profile.values(),
            prices: directory.prices().clone(),
            pace: pace::of_run(directory.manifest()),
            planned,
            figures,
        };
        let drawn = task.spawn(directory.clone(), of_row, bar.clone());
        directory.append_draws(&drawn.await?)?;
        let seconds = since.elapsed().as_secs_f64();
        bar.suspend(|| output.detail(format_args!("{draws} draws of {id}: {seconds:.1} s")));
    }
    bar.finish_and_clear();
    let seconds = began.elapsed().as_secs_f64();
    output.message(format_args!(
        "rankings are judged over {draws} draws of the profile's constants: {rows} rows, {seconds:.1} s"
    ));
    Ok(())
}

/// Trials and their invocations, by row.
type Trials = BTreeMap<String, Vec<(TrialRow, Vec<Invocation>)>>;

fn recorded_trials(directory: &RunDirectory) -> Result<Trials, Error> {
    let mut calls: BTreeMap<TrialId, Vec<Invocation>> = BTreeMap::new();
    for call in directory.invocations()? {
        calls.entry(call.trial).or_default().push(call.invocation);
    }
    let mut trials = Trials::new();
    for trial in directory.trials()? {
        let calls = calls.remove(&trial.id).unwrap_or_default();
        let of_row = trials.entry(trial.id.row.clone()).or_default();
        of_row.push((trial, calls));
    }
    Ok(trials)
}

/// The draws of one row.
struct RowTask {
    sim: Sim,
    /// Trials of all rows.
    plans: Vec<TrialPlan>,
    /// The experiment's seed.
    seed: u64,
    draws: u32,
    /// Whether the row's trials were trained.
    trains: bool,
    profile: Profile<f64>,
    prices: PriceBook,
    /// Pace at which polls are billed, if it is not that of the simulated services.
    pace: Option<Pace>,
    planned: PlannedRow,
    figures: Vec<Figure>,
}

/// One trial of a row that draws time again.
struct Base {
    plan: TrialPlan,
    /// Recorded values of a trained trial.
    recorded: Option<Arc<Recorded>>,
}

/// Sets a flag when it is dropped: the threads of an interrupted row end early.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl RowTask {
    /// Draws on threads that may block.
    async fn spawn(
        self,
        directory: RunDirectory,
        trials: Vec<(TrialRow, Vec<Invocation>)>,
        bar: ProgressBar,
    ) -> Result<RowDraws, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let _stop = StopOnDrop(stop.clone());
        let drawn = tokio::task::spawn_blocking(move || {
            let bases = self.bases(&directory, trials)?;
            match bases {
                Ok(bases) => self.draw(&bases, &stop, &bar),
                Err(reason) => Ok(self.drawn(Some(reason))),
            }
        });
        let drawn = drawn.await.map_err(std::io::Error::other);
        drawn.map_err(Error::io("draw constants"))?
    }

    /// Returns the trials that draws time again, or the reason why a trained one cannot be:
    /// timed again under its own constants, it must take what it took.
    fn bases(
        &self,
        directory: &RunDirectory,
        trials: Vec<(TrialRow, Vec<Invocation>)>,
    ) -> Result<Result<Vec<Base>, String>, Error> {
        let mut plans: Vec<TrialPlan> = self.plans.clone();
        plans.retain(|plan| plan.row.id == self.planned.row.id);
        let mut bases = Vec::with_capacity(plans.len());
        for plan in plans {
            let own = (trials.iter()).find(|(trial, _)| trial.id.trial == plan.trial);
            let Some((trial, calls)) = own.filter(|(trial, _)| trial.failure.is_none()) else {
                return Ok(Err(format!("trial {} failed", plan.trial)));
            };
            let mut recorded = None;
            if self.trains {
                let steps = directory.steps(trial)?;
                recorded = Some(trial.values(&steps));
                let before = self.analyse(trial.clone(), calls.clone(), &steps)?;
                let again = sim::time(&self.sim.describe(&plan)?, recorded.clone())?;
                let again = self.values(&plan, &again)?;
                if let Some(reason) = self.difference(&before, &again) {
                    return Ok(Err(reason));
                }
            }
            bases.push(Base { plan, recorded });
        }
        Ok(Ok(bases))
    }

    /// Returns the first figure in which a trial and the same trial timed again differ.
    fn difference(&self, before: &TrialAnalysis, again: &[Option<f64>]) -> Option<String> {
        let differs = |before: Option<f64>, again: Option<f64>| match (before, again) {
            (Some(before), Some(again)) => (before - again).abs() > ROUNDING * before.abs(),
            (before, again) => before != again,
        };
        let mut figures = self.figures.iter().zip(again);
        figures.find_map(|(figure, again)| {
            let before = agreement::value(before, &self.planned, *figure);
            differs(before, *again).then(|| {
                let name = figure.0.name();
                let [again, before] = [*again, before]
                    .map(|value| value.map_or("none".to_owned(), |value| value.to_string()));
                format!("timed again, its {name} is {again} and not {before}")
            })
        })
    }

    /// Times the row once for every draw, on every core. Draw k times trial k modulo the
    /// number of trials.
    fn draw(
        &self,
        bases: &[Base],
        stop: &AtomicBool,
        bar: &ProgressBar,
    ) -> Result<RowDraws, Error> {
        let draws: Vec<u32> = (0..self.draws).collect();
        let drawn = parallel::map(&draws, |draw| {
            let base = &bases[*draw as usize % bases.len()];
            if stop.load(Ordering::Relaxed) {
                return Ok(vec![None; self.figures.len()]);
            }
            let seed = draw_seed(self.seed, *draw);
            let simulation = self.sim.describe_draw(&base.plan, seed)?;
            let outcome = sim::time(&simulation, base.recorded.clone())?;
            bar.inc(1);
            self.values(&base.plan, &outcome)
        });
        let drawn: Vec<Vec<Option<f64>>> = drawn.into_iter().collect::<Result<_, Error>>()?;
        let figures = self.figures.iter().enumerate();
        Ok(RowDraws {
            figures: figures
                .map(|(place, (metric, target))| DrawnFigure {
                    metric: *metric,
                    target: *target,
                    values: drawn.iter().map(|values| values[place]).collect(),
                })
                .collect(),
            ..self.drawn(None)
        })
    }

    /// Returns draws without figures, with the reason if they were refused.
    fn drawn(&self, refused: Option<String>) -> RowDraws {
        RowDraws {
            of: None,
            row: self.planned.row.id.clone(),
            draws: self.draws,
            figures: Vec::new(),
            refused,
        }
    }

    /// Returns the row's figures of an outcome, in their order.
    fn values(&self, plan: &TrialPlan, outcome: &TrialOutcome) -> Result<Vec<Option<f64>>, Error> {
        if outcome.failure.is_some() {
            return Ok(vec![None; self.figures.len()]);
        }
        let steps: Vec<_> = steps(outcome).cloned().collect();
        let trial = TrialRow::new(plan, outcome);
        let analysis = self.analyse(trial, outcome.invocations.clone(), &steps)?;
        let value = |figure: &Figure| agreement::value(&analysis, &self.planned, *figure);
        Ok(self.figures.iter().map(value).collect())
    }

    fn analyse(
        &self,
        trial: TrialRow,
        calls: Vec<Invocation>,
        steps: &[epochcost_systems::StepRecord],
    ) -> Result<TrialAnalysis, Error> {
        let (row, rates) = (&self.planned.row, Rates::from(&self.profile));
        let (prices, pace) = (&self.prices, self.pace);
        let analysis = TrialAnalysis::new(row, trial, calls, steps, prices, rates, pace);
        Ok(analysis?)
    }
}
