//! Trials in virtual time.
//!
//! The systems' own code runs over modelled channels, functions and instances
//! (see `epochcost_simulator`). Where only sizes exist, it runs in this
//! process; where models really train, in the worker, since the harness links
//! no model.

mod compute;
mod life_cycle;
mod outcome;

use std::path::PathBuf;
use std::sync::Arc;

use epochcost_simulator::profile::{ModelCost, Profile};
use epochcost_simulator::{
    Infeasible, Options, Recorded, Simulated, Simulation, admit, refused, simulate,
};
use epochcost_systems::Device;
use tokio::sync::watch;

use epochcost_spec::metering::TrialOutcome;
use epochcost_spec::rows::{self, Precision, Row, TrialPlan, device};

use super::local::Worker;
use super::{PlatformError, Progress};

pub use life_cycle::SimFactory;
pub use outcome::invocation;

/// Number of workers above which those that are alike are simulated by a few of them: below it
/// every worker takes little time.
pub const CLASSES_ABOVE: usize = 256;

/// A platform that exists in a profile only.
#[derive(Debug)]
pub struct Sim {
    simulation: rows::Simulation,
    real: Option<RealCompute>,
}

/// Requirements of real training in virtual time.
#[derive(Clone, Debug)]
pub struct RealCompute {
    /// The worker, which links the models.
    pub worker: Worker,
    /// The dataset's directory.
    pub directory: PathBuf,
}

impl Sim {
    /// Returns the platform with an experiment's simulation settings.
    pub fn new(simulation: rows::Simulation, real: Option<RealCompute>) -> Self {
        Self { simulation, real }
    }

    /// Returns the simulation of a trial.
    ///
    /// # Errors
    /// [`PlatformError::Lacks`] when no compute profile knows the model.
    pub fn describe(&self, plan: &TrialPlan) -> Result<Simulation, PlatformError> {
        let row = &plan.row;
        if self.simulation.sample && plan.trial > 0 {
            return self.describe_draw(plan, row.job.seed);
        }
        let profile = self.simulation.profile_of(row);
        Ok(self.describe_on(plan, profile.values(), self.cost(row)?))
    }

    /// Returns the simulation of a trial on the constants that `seed` draws: the same for
    /// every row, except where a row states its own.
    ///
    /// # Errors
    /// The same as [`describe`](Self::describe).
    pub fn describe_draw(&self, plan: &TrialPlan, seed: u64) -> Result<Simulation, PlatformError> {
        let profile = self.simulation.profile_of(&plan.row);
        let cost = self.cost(&plan.row)?.sampled(seed);
        Ok(self.describe_on(plan, profile.sampled(seed), cost))
    }

    fn describe_on(&self, plan: &TrialPlan, profile: Profile<f64>, cost: ModelCost) -> Simulation {
        let row = &plan.row;
        Simulation {
            job: row.job.clone(),
            sizes: plan.sizes,
            memory_mb: row.memory_mb,
            function_memory_mb: row.function_memory_mb.clone(),
            timeout_s: row.timeout_s as f64,
            cost,
            profile,
            has_limits: self.simulation.limits,
            faults: row.faults.clone(),
            jobs: row.jobs as u64,
        }
    }

    /// Returns the cost of a step of the row's model on the row's device.
    ///
    /// # Errors
    /// The same as [`describe`](Self::describe).
    pub fn cost(&self, row: &Row) -> Result<ModelCost, PlatformError> {
        let device = device(&self.simulation, row);
        let model = &row.job.model;
        let own = row.own_model.as_ref();
        let or_cpu = row.cpu_fallback && own.is_none();
        let profiled = self.simulation.cost(model, device, or_cpu);
        let profiled = profiled.map(|(_, cost)| cost.clone());
        let known = profiled.or_else(|| own?.cost(device));
        known.ok_or_else(|| {
            let compute = self.simulation.compute.iter();
            let names: Vec<&str> = compute.map(|known| known.name.as_str()).collect();
            let option = match device {
                Device::Cpu => "",
                Device::Cuda => " --device cuda",
            };
            PlatformError::Lacks {
                what: format!(
                    "what a step of {model} costs on the device {device}: the compute profiles {} do not say",
                    names.join(" and ")
                ),
                remedy: match own {
                    Some(_) => "profile its program on that device (`epochcost profile`), or state the \
                                model's `flops_per_sample`"
                        .to_owned(),
                    None => format!(
                        "measure it (`epochcost profile --model {model}{option}`) and name the file in \
                         `simulation.compute`"
                    ),
                },
            }
        })
    }

    /// Returns the limit that makes a row impossible on this platform, if there is one.
    ///
    /// # Errors
    /// The same as [`describe`](Self::describe), and when the row's system is unknown.
    pub async fn infeasible(&self, plan: &TrialPlan) -> Result<Option<Infeasible>, PlatformError> {
        let mut simulation = self.describe(plan)?;
        let admitted = admit(&simulation, &kept());
        // A limit is the row's own, whatever is injected into it.
        simulation.faults.clear();
        let known = refused(&simulation, package_mb())?;
        if known.is_some() {
            return Ok(known);
        }
        admitted?;
        if !self.simulation.limits {
            return Ok(None);
        }
        Ok(phantom(simulation, false, &|_| {}).await?.infeasible)
    }

    /// Runs one trial, as [`Platform::run_trial`](super::Platform::run_trial) says.
    ///
    /// # Errors
    /// When the row cannot be simulated, or the worker fails.
    pub async fn run_trial(
        &self,
        plan: &TrialPlan,
        progress: &dyn Progress,
    ) -> Result<TrialOutcome, PlatformError> {
        let simulation = self.describe(plan)?;
        let steps = |done| progress.steps(done);
        let simulated = match &self.real {
            None => phantom(simulation, true, &steps).await?,
            Some(real) => {
                compute::run(real, &plan.row.job.data.dataset, &simulation, &steps).await?
            }
        };
        let mut outcome = outcome::of(simulated);
        if plan.row.precision != Precision::default() {
            outcome.warnings.push(format!(
                "precision {} changes no simulated time or value: compute profiles are measured in fp32; \
                 run the row with --platform local, or remove `precision`",
                plan.row.precision.name()
            ));
        }
        Ok(outcome)
    }
}

/// Times a trial on this thread: the systems' code on sizes, with what a trained trial
/// recorded in place of values. A limit that it meets is the outcome's failure.
///
/// # Errors
/// When the trial cannot be simulated.
pub fn time(
    simulation: &Simulation,
    recorded: Option<Arc<Recorded>>,
) -> Result<TrialOutcome, PlatformError> {
    if let Some(infeasible) = refused(simulation, package_mb())? {
        return Ok(TrialOutcome {
            failure: Some(infeasible.to_string()),
            ..outcome::of(Simulated::default())
        });
    }
    let options = Options { recorded, ..kept() };
    let simulated = simulate(simulation, options)?;
    Ok(outcome::of(simulated))
}

/// Options of a trial of sizes only whose steps are recorded.
fn kept() -> Options {
    Options {
        keeps_steps: true,
        classes_above: Some(CLASSES_ABOVE),
        ..Options::default()
    }
}

/// Simulates sizes only, on a thread of its own: an interruption leaves it
/// behind, and it ends with the process.
async fn phantom(
    simulation: Simulation,
    keeps_steps: bool,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Simulated, PlatformError> {
    let (steps, mut seen) = watch::channel(0);
    let (answer, mut answered) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().spawn(move || {
        let options = Options {
            keeps_steps,
            progress: Some(Box::new(move |done| {
                steps.send_replace(done);
            })),
            ..kept()
        };
        // The receiver is gone after an interruption.
        let _ = answer.send(simulate(&simulation, options));
    });
    thread.map_err(|error| {
        let what = format!("failed to start a thread: {error}");
        PlatformError::lacking(what, "raise the limit on threads with `ulimit -u`")
    })?;
    loop {
        tokio::select! {
            biased;
            simulated = &mut answered => {
                progress(*seen.borrow());
                let ended = simulated.map_err(|_| {
                    PlatformError::service("the simulation", "its thread ended without an answer")
                });
                return Ok(ended??);
            }
            Ok(()) = seen.changed() => progress(*seen.borrow_and_update()),
        }
    }
}

/// Returns the size of the worker that would be deployed, MB; 0 where none is built.
pub fn package_mb() -> f64 {
    let beside = std::env::current_exe().map(|program| program.with_file_name("bootstrap"));
    let size = beside.and_then(std::fs::metadata).map(|file| file.len());
    size.map_or(0.0, |bytes| bytes as f64 / f64::from(1 << 20))
}
