//! Recorded and simulated figures of every row, side by side.

use epochcost_channels::Traffic;
use epochcost_simulator::profile::{ComputeOrigin, ModelCost};
use epochcost_systems::StageSeconds;
use serde::Serialize;

use super::setting::{self, Setting, sends_what_it_learns, simulate};
use super::{Replay, SAME_MACHINE};
use crate::analysis::{RowAnalysis, TrialAnalysis};
use crate::claims::Estimate;
use crate::error::Error;
use crate::exit::Exit;
use crate::results::{
    Build, ConstantRecord, Git, Machine, SchemaVersion, SimulationRecord, command_line,
};
use crate::rows::Row;

/// The version of the record.
const VERSION: SchemaVersion = SchemaVersion { major: 1, minor: 0 };

/// A run and its replay.
#[derive(Serialize)]
pub struct Comparison {
    schema_version: SchemaVersion,
    /// Time of creation.
    created: String,
    epochcost: Build,
    git: Option<Git>,
    /// The command line.
    command: Vec<String>,
    pub(super) run: RecordedRun,
    pub(super) replay: Settings,
    /// The share by which a wall time may be off.
    pub(super) within: Option<f64>,
    pub(super) rows: Vec<RowComparison>,
}

/// The run that was recorded.
#[derive(Serialize)]
pub(super) struct RecordedRun {
    pub(super) run_id: String,
    created: String,
    pub(super) experiment: String,
    worker_sha256: Option<String>,
    machine: Machine,
}

/// What the replay stands on.
#[derive(Serialize)]
pub(super) struct Settings {
    /// The platform profile.
    pub(super) profile: String,
    /// Whether it stands for the machine of the run.
    pub(super) is_same_machine: bool,
    /// The compute profile; null where steps take what the run recorded.
    pub(super) compute: Option<String>,
    /// Source of the numbers of the compute profile.
    compute_origin: ComputeOrigin,
    /// Memory size of every function, if it is another.
    pub(super) memory_mb: Option<u32>,
    /// Number of workers, if it is another.
    pub(super) workers: Option<usize>,
    /// Every number of the platform profile.
    constants: Vec<ConstantRecord>,
}

/// A row, recorded and simulated.
#[derive(Serialize)]
pub(super) struct RowComparison {
    pub(super) id: String,
    pub(super) system: String,
    pub(super) model: String,
    pub(super) recorded: Option<Figures>,
    pub(super) simulated: Option<Figures>,
    /// Simulated wall time over the recorded one.
    pub(super) ratio: Option<f64>,
    /// What a step costs.
    cost: Option<ModelCost>,
    /// Whether models really trained: what is sent depends on what is learnt.
    real_compute: bool,
    /// Why a figure is missing, or what it lacks.
    pub(super) note: Option<String>,
}

/// What a row took, mean over trials.
#[derive(Clone, Serialize)]
pub(super) struct Figures {
    pub(super) workers: usize,
    /// Memory size of its functions; null on instances.
    pub(super) memory_mb: Option<u32>,
    /// Time from the first start to the last end, seconds.
    pub(super) wall_s: Estimate,
    /// Seconds per worker.
    pub(super) stage_seconds: StageSeconds,
    pub(super) billed_ms: Option<f64>,
    pub(super) cost_paper_usd: f64,
    pub(super) cost_full_usd: f64,
    /// The exchange's traffic, of one trial.
    pub(super) traffic: Traffic,
}

impl Comparison {
    /// Simulates every row.
    pub(super) async fn of(plan: &Replay) -> Result<Self, Error> {
        let mut rows = Vec::with_capacity(plan.rows.len());
        for row in &plan.rows {
            rows.push(RowComparison::of(plan, row).await?);
        }
        if rows.iter().all(|row| row.recorded.is_none()) {
            return Err(Error::NothingSelected(format!(
                "no row of {} has a trial that did not fail",
                plan.run.path().display()
            )));
        }
        let manifest = plan.run.manifest();
        let now = jiff::Timestamp::now();
        Ok(Self {
            schema_version: VERSION,
            created: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            epochcost: Build::current(),
            git: Git::here(),
            command: command_line(),
            run: RecordedRun {
                run_id: manifest.run_id.clone(),
                created: manifest.created.clone(),
                experiment: manifest.experiment.clone(),
                worker_sha256: manifest.worker_sha256.clone(),
                machine: plan.run.machine().clone(),
            },
            replay: Settings::of(plan),
            within: plan.within,
            rows,
        })
    }

    /// Returns [`Exit::Failed`] if a row is off by more than it may.
    pub fn exit(&self) -> Exit {
        let Some(within) = self.within else {
            return Exit::Done;
        };
        if self.rows.iter().any(|row| row.is_off(within)) {
            Exit::Failed
        } else {
            Exit::Done
        }
    }
}

impl Settings {
    fn of(plan: &Replay) -> Self {
        let compute = plan.compute.as_ref();
        let simulation = setting::simulation(plan.platform.clone(), Vec::new(), false);
        Self {
            profile: plan.platform.name.clone(),
            is_same_machine: plan.is_same_machine || plan.platform.name == SAME_MACHINE,
            compute: compute.map(|compute| compute.name.clone()),
            compute_origin: compute.map_or(ComputeOrigin::Measured, |compute| compute.origin),
            memory_mb: plan.memory_mb,
            workers: plan.workers,
            constants: SimulationRecord::of(&simulation, &[]).constants,
        }
    }
}

impl RowComparison {
    async fn of(plan: &Replay, row: &RowAnalysis) -> Result<Self, Error> {
        let job = &row.planned.row.job;
        let trials: Vec<&TrialAnalysis> = row.succeeded().collect();
        let mut compared = Self {
            id: row.planned.row.id.clone(),
            system: job.system.clone(),
            model: job.model.clone(),
            recorded: Figures::of(&row.planned.row, row.on_functions(), &trials),
            simulated: None,
            ratio: None,
            cost: None,
            real_compute: false,
            note: None,
        };
        if trials.is_empty() {
            let why = row.planned.infeasible.clone();
            compared.note = Some(why.unwrap_or_else(|| "every trial of it failed".into()));
            return Ok(compared);
        }
        if !row.planned.row.faults.is_empty() {
            compared.note = Some("its faults are not simulated".into());
        }
        let setting = Setting::replayed(plan, row).await?;
        compared.cost = setting.cost().cloned();
        let real = plan.real.as_ref().filter(|_| sends_what_it_learns(row));
        if real.is_none() && sends_what_it_learns(row) {
            compared.note = Some(
                "what it sends depends on what it learns, which sizes do not show: sent whole"
                    .into(),
            );
        }
        compared.real_compute = real.is_some();
        let replayed = simulate(&setting, real).await?;
        if let Some(failure) = replayed.trial.failure {
            compared.note = Some(failure);
            return Ok(compared);
        }
        let analysed = TrialAnalysis::new(
            setting.row(),
            replayed.trial,
            replayed.invocations,
            &replayed.steps,
            plan.run.prices(),
            setting.function_price(),
            setting.pace(),
        )?;
        compared.simulated = Figures::of(setting.row(), row.on_functions(), &[&analysed]);
        let wall = |figures: &Option<Figures>| figures.as_ref()?.wall_s.mean;
        compared.ratio = wall(&compared.simulated)
            .zip(wall(&compared.recorded))
            .map(|(simulated, recorded)| simulated / recorded)
            .filter(|ratio| ratio.is_finite());
        Ok(compared)
    }

    /// Whether it was recorded and its simulated wall time is not within that
    /// share of the recorded one.
    pub(super) fn is_off(&self, within: f64) -> bool {
        let is_near = |ratio: f64| (ratio - 1.0).abs() <= within;
        self.recorded.is_some() && !self.ratio.is_some_and(is_near)
    }
}

impl Figures {
    /// The means of `trials`; none without any.
    fn of(row: &Row, on_functions: bool, trials: &[&TrialAnalysis]) -> Option<Self> {
        let first = trials.first()?;
        let count = trials.len() as f64;
        let mean = |of: fn(&TrialAnalysis) -> f64| {
            trials.iter().map(|trial| of(trial)).sum::<f64>() / count
        };
        let walls: Vec<f64> = trials.iter().map(|trial| trial.trial.wall_s).collect();
        let parts = row.job.workers as f64;
        Some(Self {
            workers: row.job.workers,
            memory_mb: on_functions.then_some(row.memory_mb),
            wall_s: Estimate::of(&walls),
            stage_seconds: StageSeconds {
                fetch_dataset: mean(|trial| trial.seconds.fetch_dataset) / parts,
                compute_gradients: mean(|trial| trial.seconds.compute_gradients) / parts,
                serialise: mean(|trial| trial.seconds.serialise) / parts,
                put: mean(|trial| trial.seconds.put) / parts,
                wait: mean(|trial| trial.seconds.wait) / parts,
                get: mean(|trial| trial.seconds.get) / parts,
                aggregate: mean(|trial| trial.seconds.aggregate) / parts,
                update_model: mean(|trial| trial.seconds.update_model) / parts,
                detect_convergence: mean(|trial| trial.seconds.detect_convergence) / parts,
            },
            billed_ms: first
                .billed_ms()
                .map(|_| mean(|trial| trial.billed_ms().unwrap_or(0.0))),
            cost_paper_usd: mean(|trial| trial.paper.total_usd()),
            cost_full_usd: mean(|trial| trial.full.total_usd()),
            traffic: first.exchange(),
        })
    }
}
