//! What is simulated in the place of a recorded row, and the simulation.

use async_trait::async_trait;
use epochcost_simulator::profile::{
    Client, ComputeOrigin, ComputeProfile, Constant, ModelCost, Profile,
};
use epochcost_systems::{Record, StepRecord, find};

use super::{Replay, calibrate};
use crate::analysis::RowAnalysis;
use crate::cost::Pace;
use crate::error::Error;
use crate::forecast::estimate::pace_of;
use crate::metering::Invocation;
use crate::platform::Progress;
use crate::platform::sim::{RealCompute, Sim};
use crate::results::TrialRow;
use crate::rows::{Row, Simulation, TrialPlan};

/// One simulated trial.
pub(super) struct Replayed {
    pub(super) trial: TrialRow,
    pub(super) invocations: Vec<Invocation>,
    pub(super) steps: Vec<StepRecord>,
}

/// What is simulated, and on what.
pub(super) struct Setting {
    row: Row,
    profile: Profile<Constant>,
    compute: ComputeProfile,
}

impl Setting {
    /// The row, with the name and the seed of a trial.
    pub(super) fn row(&self) -> &Row {
        &self.row
    }

    /// What a second of a function costs there, if it is not Lambda's price.
    pub(super) fn function_price(&self) -> Option<&str> {
        self.profile.function_price.as_deref()
    }

    /// Pace at which polls are billed there, if it is not that of its services.
    pub(super) fn pace(&self) -> Option<Pace> {
        pace_of(&self.profile.values())
    }

    /// What its steps cost.
    pub(super) fn cost(&self) -> Option<&ModelCost> {
        self.compute.models.first()
    }

    /// The row as it was run, on the machine it was run on.
    pub(super) fn recorded(plan: &Replay, row: &RowAnalysis, cost: ModelCost) -> Self {
        Self {
            row: first_trial(row),
            profile: plan.recorded_on.clone(),
            compute: steps_of(cost),
        }
    }

    /// The row under the replay's settings.
    pub(super) async fn replayed(plan: &Replay, row: &RowAnalysis) -> Result<Self, Error> {
        let compute = match &plan.compute {
            Some(compute) => compute.clone(),
            None => steps_of(calibrate::cost(plan, row).await?),
        };
        let mut setting = Self {
            row: first_trial(row),
            profile: plan.platform.clone(),
            compute,
        };
        setting.row.memory_mb = plan.memory_mb.unwrap_or(setting.row.memory_mb);
        if let Some(workers) = plan.workers {
            let job = &mut setting.row.job;
            job.workers = workers;
            // Each worker keeps its mini-batches: the data are as many as that takes.
            let samples = workers * job.batch_size * job.batches_per_worker;
            job.data.train_samples = job.data.train_samples.max(samples);
        }
        // Only what this row's steps cost is kept, for the record.
        let model = setting.row.job.model.clone();
        setting.compute.models.retain(|cost| cost.model == model);
        Ok(setting)
    }
}

/// The row with the name and the seed of its first trial.
fn first_trial(row: &RowAnalysis) -> Row {
    let mut first = row.planned.row.clone();
    first.job.trial = format!("{}-t0", first.id);
    if let Some(trial) = row.succeeded().next() {
        first.job.seed = trial.trial.seed;
    }
    // A run's own steps are the CPU's, also of rows that asked for a GPU.
    first.cpu_fallback = true;
    first
}

/// A compute profile of one cost alone.
fn steps_of(cost: ModelCost) -> ComputeProfile {
    ComputeProfile {
        schema: 1,
        name: "recorded".into(),
        about: "steps as the run recorded them".into(),
        origin: ComputeOrigin::Measured,
        models: vec![cost],
    }
}

/// Whether the row's traffic follows from the values that it sends, and not
/// from their sizes alone.
pub(super) fn sends_what_it_learns(row: &RowAnalysis) -> bool {
    let planned = &row.planned.row;
    let Some(system) = find(&planned.job.system) else {
        return false;
    };
    let bound = system.bind(&planned.job);
    let by_size = bound.and_then(|bound| bound.traffic(planned.sizes())).ok();
    row.succeeded()
        .any(|trial| trial.trial.closed_form.is_some() && trial.trial.closed_form != by_size)
}

/// What a simulation stands on, with the limits of its platform.
pub(super) fn simulation(
    profile: Profile<Constant>,
    compute: Vec<ComputeProfile>,
    real_compute: bool,
) -> Simulation {
    Simulation {
        profile,
        client: Client::default(),
        compute,
        limits: true,
        real_compute,
        sample: false,
        held_out: Vec::new(),
        draws: 0,
    }
}

struct Silent;

#[async_trait]
impl Progress for Silent {
    fn steps(&self, _done: u64) {}
}

/// Simulates one trial.
pub(super) async fn simulate(
    setting: &Setting,
    real: Option<&RealCompute>,
) -> Result<Replayed, Error> {
    let Setting {
        row,
        profile,
        compute,
    } = setting;
    let simulation = simulation(profile.clone(), vec![compute.clone()], real.is_some());
    let platform = Sim::new(simulation, real.cloned());
    let plan = TrialPlan {
        sizes: row.sizes(),
        trial: 0,
        row: row.clone(),
    };
    let mut outcome = platform.run_trial(&plan, &Silent).await?;
    if let Some(infeasible) = platform.infeasible(&plan).await? {
        outcome.failure = Some(infeasible.to_string());
    }
    let trial = TrialRow::new(&plan, &outcome);
    let steps = outcome
        .records
        .into_iter()
        .filter_map(|record| match record {
            Record::Step(step) => Some(*step),
            _ => None,
        });
    Ok(Replayed {
        trial,
        steps: steps.collect(),
        invocations: outcome.invocations,
    })
}
