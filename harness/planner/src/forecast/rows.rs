//! Rows and what each is expected to take.

use std::collections::BTreeSet;

use epochcost_experiment::Experiment;
use epochcost_judge::analysis::names::{Named, distinguished};
use epochcost_judge::analysis::titles::system_title;
use epochcost_platform::sim::Sim;
use epochcost_record::ComputeUsed;
use epochcost_simulator::{Infeasible, Simulation};
use epochcost_spec::cost::{CostModel, PriceBook};
use epochcost_spec::rows::{self, Row};
use epochcost_systems::{Device, Fidelity, Host, find};
use serde::Serialize;

use super::epochs::{cut, estimate};
use super::estimate::{Estimate, Obstacle, has_functions};
use super::{alone, frontier, memory, work};
use crate::error::{Error, Result};

/// A row and what it is expected to take.
#[derive(Serialize)]
pub(super) struct PlannedRow {
    pub(super) id: String,
    /// Name in sentences and charts.
    pub(super) name: String,
    pub(super) system: String,
    pub(super) model: String,
    pub(super) dataset: String,
    pub(super) fidelity: Fidelity,
    /// Trainings at once.
    #[serde(skip_serializing_if = "rows::is_one")]
    pub(super) jobs: usize,
    pub(super) workers: usize,
    pub(super) batch_size: usize,
    pub(super) batches_per_worker: usize,
    pub(super) epochs: usize,
    /// Optimizer steps of a worker's model in an epoch.
    pub(super) steps_per_epoch: usize,
    /// Samples that all its workers train on, over all epochs.
    pub(super) samples: usize,
    /// Memory size of its functions; null on instances.
    pub(super) memory_mb: Option<u32>,
    /// Type of its instances; null on functions.
    pub(super) instance_type: Option<String>,
    /// What its compute time stands on.
    pub(super) compute: Option<ComputeUsed>,
    /// Whether it computes on a GPU, of which nothing is known, so that it has a CPU's speed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) cpu_for_gpu: bool,
    /// The limit that makes it impossible.
    pub(super) infeasible: Option<Infeasible>,
    /// Why it fails, where no limit is to blame.
    pub(super) failure: Option<String>,
    /// Why it cannot be simulated or run at all.
    pub(super) impossible: Option<String>,
    /// What it is expected to take; null if it is impossible.
    pub(super) estimate: Option<Estimate>,
    /// Draws in which it is possible, and all draws, where it is in some and not in all.
    #[serde(skip)]
    pub(super) possible_draws: Option<[usize; 2]>,
    /// The smallest memory size at which its functions are feasible, MB.
    pub(super) smallest_memory_mb: Option<u32>,
    /// Whether nothing of the same model is both faster and cheaper.
    pub(super) on_frontier: bool,
}

/// A row with its simulation.
pub(super) struct Candidate {
    pub(super) row: Row,
    pub(super) simulation: Simulation,
}

/// Returns every row of an experiment with its simulation, or the reason why it
/// has none.
///
/// # Errors
/// When no row has one: the reason of the first.
pub(super) fn candidates(
    experiment: &Experiment,
    stands: &rows::Simulation,
) -> Result<Vec<Result<Candidate, Box<PlannedRow>>>> {
    let sim = Sim::new(stands.clone(), None);
    let plans = experiment.trial_plans();
    let described = plans.iter().take(experiment.rows.len()).map(|plan| {
        let mut simulation = sim.describe(plan).map_err(Error::from)?;
        // A plan is of what should happen.
        simulation.faults.clear();
        let row = plan.row.clone();
        Ok(Candidate { row, simulation })
    });
    some_of(described.collect(), &experiment.rows, stands)
}

/// Returns what succeeded, and rows that cannot be planned in the place of errors.
///
/// # Errors
/// The first, if nothing succeeded.
pub(super) fn some_of<T>(
    found: Vec<Result<T>>,
    rows: &[Row],
    stands: &rows::Simulation,
) -> Result<Vec<Result<T, Box<PlannedRow>>>> {
    let has_some = found.iter().any(Result::is_ok);
    let mut kept = Vec::with_capacity(found.len());
    for (found, row) in found.into_iter().zip(rows) {
        kept.push(match found {
            Ok(found) => Ok(found),
            Err(error) if has_some => {
                let reason = error.to_string().replace("\n  = help: ", "; ");
                Err(Box::new(PlannedRow::impossible(row, stands, reason)))
            }
            Err(error) => return Err(error),
        });
    }
    Ok(kept)
}

/// Returns what a row is expected to take.
///
/// # Errors
/// When the row is none of a known system, or something has no price.
pub(super) fn plan(
    candidate: &Candidate,
    stands: &rows::Simulation,
    prices: &PriceBook,
) -> Result<PlannedRow> {
    let Candidate { row, simulation } = candidate;
    let on_functions = has_functions(row);
    let (mut infeasible, mut failure, mut known) = (None, None, None);
    match estimate(row, simulation, prices)? {
        Ok(estimate) => known = Some(estimate),
        Err(Obstacle::Infeasible(limit)) => infeasible = Some(limit),
        Err(Obstacle::Failed(reason)) => failure = Some(reason),
    }
    let smallest_memory_mb = if on_functions {
        // A training that is carried on needs no more than its first epochs.
        let epochs = known.as_ref().and_then(|e| e.carried_on_from_epochs);
        memory::smallest(
            &epochs.map_or_else(|| simulation.clone(), |epochs| cut(simulation, epochs / 2)),
            known.as_ref().map(|e| e.function_peak_memory_mb),
        )?
    } else {
        None
    };
    Ok(PlannedRow {
        infeasible,
        failure,
        estimate: known,
        smallest_memory_mb,
        ..PlannedRow::unknown(row, stands)
    })
}

impl PlannedRow {
    /// Returns a row of which nothing but its fields is known.
    fn unknown(row: &Row, stands: &rows::Simulation) -> Self {
        let job = &row.job;
        let compute = ComputeUsed::of(stands, row);
        let on_cpu = (compute.as_ref()).is_some_and(|of| of.device == Device::Cpu);
        Self {
            cpu_for_gpu: job.device == Device::Cuda && on_cpu,
            id: row.id.clone(),
            name: row.id.clone(),
            system: job.system.clone(),
            model: job.model.clone(),
            dataset: job.data.dataset.clone(),
            fidelity: job.fidelity,
            jobs: row.jobs,
            workers: job.workers,
            batch_size: job.batch_size,
            batches_per_worker: job.batches_per_worker,
            epochs: job.epochs,
            steps_per_epoch: work::steps_per_epoch(job),
            samples: work::samples(job),
            memory_mb: has_functions(row).then_some(row.memory_mb),
            instance_type: find(&job.system)
                .is_none_or(|system| system.deployment().runs_on(Host::Instance))
                .then(|| row.instance_type.clone()),
            compute,
            infeasible: None,
            failure: None,
            impossible: None,
            estimate: None,
            possible_draws: None,
            smallest_memory_mb: None,
            on_frontier: false,
        }
    }

    /// Returns whether it is one instance alone.
    pub(super) fn is_alone(&self) -> bool {
        self.system == alone::SYSTEM && self.workers == 1
    }

    /// Returns why it is not possible; nothing if it is.
    pub(super) fn why_not(&self) -> Option<String> {
        let limit = self.infeasible.as_ref().map(ToString::to_string);
        limit
            .or_else(|| (self.impossible.as_ref()).map(|why| format!("cannot be run: {why}")))
            .or_else(|| self.failure.as_ref().map(|why| format!("fails: {why}")))
    }

    /// Returns in how many draws a row with figures is possible; nothing if it is in all.
    pub(super) fn in_draws(&self) -> Option<String> {
        let [possible, all] = self.possible_draws.filter(|_| self.estimate.is_some())?;
        Some(format!("possible in {possible} of {all} draws"))
    }

    /// Returns a row that cannot be simulated or run.
    pub(super) fn impossible(row: &Row, stands: &rows::Simulation, reason: String) -> Self {
        Self {
            impossible: Some(reason),
            ..Self::unknown(row, stands)
        }
    }
}

/// Names the rows as reports do.
pub(super) fn name(rows: &mut [PlannedRow]) {
    let system = |row: &PlannedRow| {
        if row.is_alone() {
            "one instance alone".to_owned()
        } else {
            system_title(&row.system)
        }
    };
    let named: Vec<Named<'_>> = (rows.iter())
        .map(|row| Named {
            id: &row.id,
            system: system(row),
            model: &row.model,
            described: match row.jobs {
                1 => row.fidelity.as_str().to_owned(),
                jobs => format!("{}, {jobs} at once", row.fidelity.as_str()),
            },
            workers: row.workers,
            batch_size: row.batch_size,
            memory_mb: row.memory_mb,
        })
        .collect();
    let names = distinguished(&named);
    for (row, name) in rows.iter_mut().zip(names) {
        row.name = name;
    }
}

/// Marks the rows on the frontier of their model: by whole seconds and
/// dollars or, where rows train different numbers of samples, a sample of
/// each. Returns whether it was by sample.
pub(super) fn mark_frontier(rows: &mut [PlannedRow], account: CostModel) -> bool {
    let first = rows.first().map(|row| row.samples);
    let by_sample = rows.iter().any(|row| Some(row.samples) != first);
    let models: BTreeSet<String> = rows.iter().map(|row| row.model.clone()).collect();
    for model in models {
        let (mut own, mut points) = (Vec::new(), Vec::new());
        for row in rows.iter_mut().filter(|row| row.model == model) {
            let Some(estimate) = &row.estimate else {
                continue;
            };
            let each = if by_sample { row.samples as f64 } else { 1.0 };
            points.push((estimate.seconds / each, estimate.usd(account) / each));
            own.push(row);
        }
        for (row, on) in own.into_iter().zip(frontier::frontier(&points)) {
            row.on_frontier = on;
        }
    }
    by_sample
}
