//! Analysis of a run directory: figures with intervals, and verdicts. Nothing
//! here reads anything but `results/`; `docs/METHODOLOGY.md` defines every
//! figure.

pub mod agreement;
pub mod answer;
mod basis;
mod causes;
pub mod census;
mod clock;
mod columns;
pub mod comparison;
mod conclusions;
pub mod counts;
pub mod evidence;
mod figures;
pub mod findings;
pub mod headline;
pub mod items;
mod leads;
pub mod names;
pub mod overview;
mod own;
pub mod pace;
pub mod record;
mod rules;
pub mod standing;
pub mod summary;
pub mod titles;
mod trial;
mod usage;
mod variation;
mod verdicts;
pub mod warnings;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use epochcost_channels::Traffic;
use epochcost_platform::{Figures, figures_of};
use epochcost_record::{
    Manifest, PlannedRow, ResultsError, RowDraws, RunDirectory, SimulationRecord, TrialId, TrialRow,
};
use epochcost_spec::claims::{Estimate, Metric};
use epochcost_spec::cost::Rates;
use epochcost_spec::exit::Exit;
use epochcost_spec::metering::Invocation;
use epochcost_systems::{Host, StageSeconds, find};

use self::answer::{Answer, target};
use self::counts::Counts;
use self::summary::{Excluded, RowSummary, SUMMARY_VERSION, Summary, TrafficMeans, Verdict};
use self::verdicts::Judge;
use self::warnings::Warning;

pub use causes::Effect;
pub use clock::{Milestone, covered_s};
pub use columns::Columns;
pub use columns::machine_epochs;
pub use rules::{Circumstances, Fit, Rests, decide};
pub use trial::{EpochAnalysis, TrialAnalysis};
pub use usage::Usages;
pub use work::{SLIGHTLY, epochs_are_alike, samples_per_epoch};

/// A run, analysed.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// Content of `summary.json`.
    pub summary: Summary,
    /// Every planned row with its trials, in the experiment's order.
    pub rows: Vec<RowAnalysis>,
    /// What the platform profile of a simulated run misses by, in a sentence.
    pub misses: Option<String>,
}

/// A row and its trials.
#[derive(Clone, Debug)]
pub struct RowAnalysis {
    /// The row.
    pub planned: PlannedRow,
    /// Trials by number, failed ones included.
    pub trials: Vec<TrialAnalysis>,
    /// Whether they sample the ranges of a simulation's constants.
    pub is_sampled: bool,
    /// Whether its figures are of virtual time.
    pub is_simulated: bool,
    /// Its figures over draws of a simulation's constants.
    pub draws: Option<RowDraws>,
}

impl Analysis {
    /// Returns how a run with these results ends; see [`Summary::exit_status`].
    pub fn exit_status(&self) -> Exit {
        self.summary.exit_status()
    }

    /// Returns the warnings for readers of the results.
    pub fn warnings(&self) -> &[Warning] {
        &self.summary.warnings
    }

    /// Returns the rows of which further trials could decide a claim.
    pub fn undecided_rows(&self) -> BTreeSet<String> {
        let verdicts = self.summary.verdicts.iter();
        let rows = verdicts.flat_map(|verdict| &verdict.undecided_rows);
        rows.cloned().collect()
    }

    /// Returns whether a claim is undecided although its rows may have more trials than
    /// they have.
    pub fn awaits_trials(&self) -> bool {
        let open = self.undecided_rows();
        let mut rows = self.rows.iter();
        rows.any(|row| {
            let planned = &row.planned;
            open.contains(&planned.row.id) && row.trials.len() < planned.most_trials
        })
    }
}

impl RowAnalysis {
    /// Returns the trials that did not fail: those that figures are taken from.
    pub fn succeeded(&self) -> impl Iterator<Item = &TrialAnalysis> {
        let trials = self.trials.iter();
        trials.filter(|trial| trial.trial.failure.is_none())
    }

    /// Returns whether gradients are computed on functions; else, on instances.
    pub fn on_functions(&self) -> bool {
        let system = find(&self.planned.row.job.system);
        system.is_none_or(|system| system.deployment().runs_on(Host::Function))
    }

    /// Returns the mean of `metric` over the trials that did not fail; of `completed`, over
    /// all.
    pub fn estimate(&self, metric: Metric) -> Estimate {
        let values = self.values(metric).into_iter().map(|(_, value)| value);
        self.of_values(&values.collect::<Vec<_>>())
    }

    /// Returns the values of `metric` with their trials: those that have one. Of losses there
    /// is none as soon as training diverged in one trial: a mean of the others would be too low.
    pub fn values(&self, metric: Metric) -> Vec<(&TrialAnalysis, f64)> {
        let is_part =
            |trial: &&TrialAnalysis| metric == Metric::Completed || trial.trial.failure.is_none();
        let is_loss = matches!(metric, Metric::TrainLoss | Metric::ValidationLoss);
        if is_loss && self.succeeded().any(|trial| trial.trial.diverged.is_some()) {
            return Vec::new();
        }
        let value = |trial: &TrialAnalysis| trial.metric(metric, &self.planned.row.job);
        let trials = self.trials.iter().filter(is_part);
        let valued = trials.filter_map(|trial| Some((trial, value(trial)?)));
        valued.collect()
    }

    /// Returns the mean seconds to the first evaluation with an accuracy of `target`; nothing if a
    /// trial does not get there: a mean of those that do would be too short.
    pub fn seconds_to(&self, target: f64) -> Estimate {
        self.all_or_nothing(|trial| trial.time_to_accuracy(target))
    }

    /// Returns the mean cost, with everything billed, to the first evaluation with
    /// an accuracy of `target`; nothing if a trial does not get there.
    pub fn usd_to(&self, target: f64) -> Estimate {
        self.all_or_nothing(|trial| Some(trial.reached(target)?.full_usd))
    }

    /// Returns the same by the paper's cost model.
    pub fn paper_usd_to(&self, target: f64) -> Estimate {
        self.all_or_nothing(|trial| Some(trial.reached(target)?.paper_usd))
    }

    fn all_or_nothing(&self, value: impl Fn(&TrialAnalysis) -> Option<f64>) -> Estimate {
        let values: Option<Vec<f64>> = self.succeeded().map(value).collect();
        self.of_values(&values.unwrap_or_default())
    }

    fn of_values(&self, values: &[f64]) -> Estimate {
        if self.is_sampled {
            Estimate::of_samples(values)
        } else {
            Estimate::of(values)
        }
    }

    /// Returns the mean seconds of one stage, per worker and epoch.
    pub fn stage(&self, stage: impl Fn(&StageSeconds) -> f64) -> Option<f64> {
        let parts = machine_epochs(&self.planned.row.job);
        let trials = self.succeeded().filter(|trial| !trial.epochs.is_empty());
        let values = trials.map(|trial| stage(&trial.seconds) / parts);
        Estimate::of(&values.collect::<Vec<_>>()).mean
    }

    /// Returns the mean of a figure of an epoch over the trials, by epoch: of those epochs of
    /// which every trial has it. The others' mean would be that of other trials from epoch to
    /// epoch.
    pub fn by_epoch(&self, figure: impl Fn(&EpochAnalysis) -> Option<f64>) -> Vec<(usize, f64)> {
        let trials: Vec<&TrialAnalysis> = self.succeeded().collect();
        let means = by_epoch(&trials, |_, epoch| Some([figure(epoch)?])).into_iter();
        means.map(|(epoch, [mean])| (epoch, mean)).collect()
    }
}

/// Returns the means over `trials` of figures of an epoch, of those epochs of which every trial
/// has them.
pub fn by_epoch<const N: usize>(
    trials: &[&TrialAnalysis],
    figures: impl Fn(&TrialAnalysis, &EpochAnalysis) -> Option<[f64; N]>,
) -> Vec<(usize, [f64; N])> {
    let mut sums: BTreeMap<usize, (usize, [f64; N])> = BTreeMap::new();
    for trial in trials {
        for epoch in &trial.epochs {
            if let Some(values) = figures(trial, epoch) {
                let (count, sum) = sums.entry(epoch.epoch).or_insert((0, [0.0; N]));
                *count += 1;
                (0..N).for_each(|i| sum[i] += values[i]);
            }
        }
    }
    sums.retain(|_, (count, _)| *count == trials.len());
    let mean = |(epoch, (count, sum)): (usize, (usize, [f64; N]))| {
        (epoch, sum.map(|sum| sum / count as f64))
    };
    sums.into_iter().map(mean).collect()
}

/// Analyses a run.
///
/// # Errors
/// When a file of the run is missing or damaged.
pub fn summarise(run: &RunDirectory) -> Result<Analysis, ResultsError> {
    let rows = rows(run).map_err(|error| error.of_run(run.path()))?;
    let judge = Judge {
        rows: &rows,
        claims: run.claims(),
        manifest: run.manifest(),
    };
    let claims = run.claims().iter().filter(|claim| claim.excluded.is_none());
    let verdicts: Vec<Verdict> = claims.flat_map(|claim| judge.judge(claim)).collect();
    let (manifest, target) = (run.manifest(), target(run.claims()));
    let summary = |row| row_summary(row, manifest, &verdicts, target);
    let summaries: Vec<RowSummary> = rows.iter().map(summary).collect();
    let simulation = manifest.simulation.as_ref();
    let order: Vec<TrialId> = run.trials()?.into_iter().map(|trial| trial.id).collect();
    let summary = Summary {
        schema_version: SUMMARY_VERSION,
        run_id: manifest.run_id.clone(),
        platform: manifest.platform.clone(),
        profile: simulation.map(|record| record.profile.clone()),
        answer: Answer::of(&rows, &summaries, run.claims(), &verdicts, manifest),
        target_accuracy: target,
        excluded: run.claims().iter().filter_map(Excluded::of).collect(),
        warnings: warnings::collect(run, &rows, &order),
        rows: summaries,
        counts: Counts::of(verdicts.iter().map(|verdict| (verdict, !verdict.holds()))),
        verdicts,
    };
    Ok(Analysis {
        summary,
        rows,
        misses: simulation.map(SimulationRecord::misses),
    })
}

fn rows(run: &RunDirectory) -> Result<Vec<RowAnalysis>, ResultsError> {
    // Invocations and trials by trial.
    let mut calls: BTreeMap<TrialId, Vec<Invocation>> = BTreeMap::new();
    for row in run.invocations()? {
        calls.entry(row.trial).or_default().push(row.invocation);
    }
    let mut trials: BTreeMap<String, BTreeMap<usize, TrialRow>> = BTreeMap::new();
    for trial in run.trials()? {
        let of_row = trials.entry(trial.id.row.clone()).or_default();
        of_row.insert(trial.id.trial, trial);
    }
    let drawn = run.draws()?.into_iter();
    let drawn = drawn.map(|draws| (draws.row.clone(), draws));
    let mut draws: BTreeMap<String, RowDraws> = drawn.collect();
    // What all trials of a simulation have in common.
    let simulation = run.manifest().simulation.as_ref();
    let is_sampled = simulation.is_some_and(|record| record.sample);
    let is_simulated = figures_of(&run.manifest().platform) == Figures::Simulated;
    let rates = simulation.map_or_else(Rates::default, SimulationRecord::rates);
    let pace = pace::of_run(run.manifest());
    // Trials by planned row, with their steps.
    let analysed = |planned: &PlannedRow| {
        let row = &planned.row;
        let trials = trials.remove(&row.id).unwrap_or_default().into_values();
        let trials = trials.map(|trial| {
            let calls = calls.remove(&trial.id).unwrap_or_default();
            let steps = run.steps(&trial)?;
            TrialAnalysis::new(row, trial, calls, &steps, run.prices(), rates, pace)
        });
        Ok(RowAnalysis {
            planned: planned.clone(),
            trials: trials.collect::<Result<_, _>>()?,
            is_sampled,
            is_simulated,
            draws: draws.remove(&row.id),
        })
    };
    run.rows().iter().map(analysed).collect()
}

/// Returns whether a claim foresaw how the trials of the row `id` end, and is right.
fn ends_as_expected(id: &str, verdicts: &[Verdict]) -> bool {
    verdicts.iter().any(|verdict| {
        verdict.metric == Some(Metric::Completed)
            && verdict.row.as_deref() == Some(id)
            && verdict.expect.is_some()
            && verdict.holds()
    })
}

fn row_summary(
    row: &RowAnalysis,
    manifest: &Manifest,
    verdicts: &[Verdict],
    target: Option<f64>,
) -> RowSummary {
    let (plan, job) = (&row.planned.row, &row.planned.row.job);
    let failed_trials = row.trials.len() - row.succeeded().count();
    let is_expected = ends_as_expected(&plan.id, verdicts);
    let throttles = row.trials.iter().filter_map(|trial| trial.trial.throttles);
    let diverged = (row.trials.iter()).filter(|trial| trial.trial.diverged.is_some());
    let own_verdicts = (verdicts.iter()).filter(|verdict| verdict.row.as_ref() == Some(&plan.id));
    RowSummary {
        // What the row is.
        id: plan.id.clone(),
        system: job.system.clone(),
        model: job.model.clone(),
        dataset: job.data.dataset.clone(),
        fidelity: job.fidelity,
        precision: plan.precision,
        platform: manifest.platform.clone(),
        services: (manifest.simulation.is_none()).then(|| manifest.services.clone()),
        tensor_store: plan.tensor_store,
        jobs: plan.jobs,
        workers: job.workers,
        batch_size: job.batch_size,
        batches_per_worker: job.batches_per_worker,
        epochs: job.epochs,
        // Trials, and what may have kept them from running.
        trials: row.trials.len(),
        failed_trials,
        failed_as_expected: if is_expected { failed_trials } else { 0 },
        infeasible: row.planned.infeasible.clone(),
        compute: row.planned.compute.clone(),
        memory_mb: row.on_functions().then_some(plan.memory_mb),
        // Time, usage and cost.
        figures: figures(row),
        throttles: throttles.reduce(|sum, one| sum + one),
        retries: row.succeeded().map(TrialAnalysis::retries).sum(),
        retried_trials: row.succeeded().filter(|trial| trial.retries() > 0).count(),
        diverged_trials: diverged.count(),
        seconds_to_target: target.map(|target| row.seconds_to(target)),
        cost_to_target_paper_usd: target.and_then(|target| row.paper_usd_to(target).mean),
        cost_to_target_full_usd: target.and_then(|target| row.usd_to(target).mean),
        // Traffic, metered and by closed form.
        traffic: traffic(row, TrialAnalysis::exchange),
        closed_form: row.succeeded().find_map(|trial| trial.trial.closed_form),
        traffic_matches: all(row, |trial| trial.traffic_matches),
        dataset_traffic: traffic(row, |trial| trial.traffic.dataset.total()),
        state_traffic: traffic(row, |trial| trial.traffic.state.total()),
        replicas_identical: all(row, |trial| trial.replicas_identical),
        cpu_for_gpu: work::is_cpu_for_gpu(row),
        instance_minimum: work::holds_minimum(row),
        verdicts: own_verdicts.cloned().collect(),
    }
}

/// Returns the estimates of all metrics that trials of the row have, by name.
fn figures(row: &RowAnalysis) -> BTreeMap<String, Estimate> {
    let of = |metric: Metric| {
        let estimate = row.estimate(metric);
        (estimate.n > 0).then(|| (metric.name().to_owned(), estimate))
    };
    Metric::ALL.into_iter().filter_map(of).collect()
}

fn traffic(row: &RowAnalysis, purpose: impl Fn(&TrialAnalysis) -> Traffic) -> TrafficMeans {
    let trials = row.succeeded().filter(|trial| !trial.epochs.is_empty());
    TrafficMeans::of(&trials.map(purpose).collect::<Vec<_>>())
}

/// Returns whether it holds in every trial that has a value, none if no trial
/// has.
fn all(row: &RowAnalysis, holds: impl Fn(&TrialAnalysis) -> Option<bool>) -> Option<bool> {
    let values = row.succeeded().filter_map(holds);
    values.reduce(|all, one| all && one)
}
