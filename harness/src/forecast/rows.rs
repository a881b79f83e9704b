//! Rows and what each is expected to take.

use epochcost_simulator::{Infeasible, Simulation};
use epochcost_systems::{Fidelity, Host, find};
use serde::Serialize;

use super::estimate::{Estimate, Outcome, estimate, has_functions};
use super::{frontier, memory};
use crate::cost::{CostModel, PriceBook};
use crate::error::Error;
use crate::experiment::Experiment;
use crate::platform::sim::Sim;
use crate::results::ComputeUsed;
use crate::rows::{self, Row};

/// A row and what it is expected to take.
#[derive(Serialize)]
pub(super) struct PlannedRow {
    pub(super) id: String,
    pub(super) system: String,
    pub(super) model: String,
    pub(super) dataset: String,
    pub(super) fidelity: Fidelity,
    pub(super) workers: usize,
    pub(super) batch_size: usize,
    pub(super) batches_per_worker: usize,
    pub(super) epochs: usize,
    /// Memory size of its functions; null on instances.
    pub(super) memory_mb: Option<u32>,
    /// Type of its instances; null on functions.
    pub(super) instance_type: Option<String>,
    /// What its compute time stands on.
    pub(super) compute: Option<ComputeUsed>,
    /// The limit that makes it impossible.
    pub(super) infeasible: Option<Infeasible>,
    /// Why it fails, where no limit is to blame.
    pub(super) failure: Option<String>,
    /// What it is expected to take; null if it is impossible.
    pub(super) estimate: Option<Estimate>,
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

/// Returns every row of an experiment with its simulation.
///
/// # Errors
/// When no compute profile knows a model.
pub(super) fn candidates(
    experiment: &Experiment,
    stands: &rows::Simulation,
) -> Result<Vec<Candidate>, Error> {
    let sim = Sim::new(stands.clone(), None);
    let plans = experiment.trial_plans();
    let first = plans.iter().take(experiment.rows.len());
    first
        .map(|plan| {
            Ok(Candidate {
                row: plan.row.clone(),
                simulation: sim.describe(plan)?,
            })
        })
        .collect()
}

/// Returns what a row is expected to take.
///
/// # Errors
/// When the row is none of a known system, or something has no price.
pub(super) fn plan(
    candidate: &Candidate,
    stands: &rows::Simulation,
    prices: &PriceBook,
) -> Result<PlannedRow, Error> {
    let Candidate { row, simulation } = candidate;
    let on_functions = has_functions(row);
    let (mut infeasible, mut failure, mut known) = (None, None, None);
    match estimate(row, simulation, prices)? {
        Outcome::Feasible(estimate) => known = Some(estimate),
        Outcome::Infeasible(limit) => infeasible = Some(limit),
        Outcome::Failed(reason) => failure = Some(reason),
    }
    let smallest_memory_mb = if on_functions {
        memory::smallest(simulation, known.as_ref().map(|e| e.peak_memory_mb))?
    } else {
        None
    };
    let job = &row.job;
    Ok(PlannedRow {
        id: row.id.clone(),
        system: job.system.clone(),
        model: job.model.clone(),
        dataset: job.data.dataset.clone(),
        fidelity: job.fidelity,
        workers: job.workers,
        batch_size: job.batch_size,
        batches_per_worker: job.batches_per_worker,
        epochs: job.epochs,
        memory_mb: on_functions.then_some(row.memory_mb),
        instance_type: find(&job.system)
            .is_none_or(|system| system.deployment().runs_on(Host::Instance))
            .then(|| row.instance_type.clone()),
        compute: ComputeUsed::of(stands, row),
        infeasible,
        failure,
        estimate: known,
        smallest_memory_mb,
        on_frontier: false,
    })
}

impl PlannedRow {
    /// Samples that it trains on.
    fn samples(&self) -> f64 {
        let samples = self.workers * self.batch_size * self.batches_per_worker * self.epochs;
        samples as f64
    }
}

/// Marks the rows on the frontier of their model: by whole seconds and
/// dollars or, where rows train different numbers of samples, a sample of
/// each. Returns whether it was by sample.
pub(super) fn mark_frontier(rows: &mut [PlannedRow], account: CostModel) -> bool {
    let first = rows.first().map(PlannedRow::samples);
    let by_sample = rows.iter().any(|row| Some(row.samples()) != first);
    let mut models: Vec<String> = rows.iter().map(|row| row.model.clone()).collect();
    models.sort();
    models.dedup();
    for model in models {
        let (mut own, mut points) = (Vec::new(), Vec::new());
        for row in rows.iter_mut().filter(|row| row.model == model) {
            let Some(estimate) = &row.estimate else {
                continue;
            };
            let each = if by_sample { row.samples() } else { 1.0 };
            points.push((estimate.seconds / each, estimate.usd(account) / each));
            own.push(row);
        }
        for (row, on) in own.into_iter().zip(frontier::frontier(&points)) {
            row.on_frontier = on;
        }
    }
    by_sample
}
