//! An experiment in virtual time, from its constants to its last trial.

use std::num::NonZero;
use std::path::PathBuf;
use std::thread;

use async_trait::async_trait;
use epochcost_spec::metering::TrialOutcome;
use epochcost_spec::rows::{Simulation, TrialPlan};
use epochcost_spec::ui::Output;

use super::{RealCompute, Sim};
use crate::local::worker;
use crate::{
    Factory, Platform, PlatformError, PlatformOptions, Prepared, Progress, Site, SpendingConsent,
    TrialData,
};

const NAME: &str = "sim";

/// Virtual time.
#[derive(Clone, Copy, Debug)]
pub struct SimFactory;

impl Factory for SimFactory {
    fn name(&self) -> &'static str {
        NAME
    }

    fn site(&self) -> Site {
        Site::VirtualTime
    }

    fn open(&self, options: PlatformOptions) -> Result<Box<dyn Platform>, PlatformError> {
        Ok(Box::new(InVirtualTime {
            simulation: options.simulation,
            dataset_directory: options.dataset_directory,
            sim: None,
        }))
    }
}

/// Virtual time, for one experiment.
struct InVirtualTime {
    /// Settings from which durations are computed.
    simulation: Option<Simulation>,
    dataset_directory: PathBuf,
    /// None before it is prepared.
    sim: Option<Sim>,
}

#[async_trait]
impl Platform for InVirtualTime {
    async fn prepare(
        &mut self,
        plans: &[TrialPlan],
        _consent: &SpendingConsent,
        _output: Output,
    ) -> Result<Prepared, PlatformError> {
        let simulation = (self.simulation.clone()).ok_or(PlatformError::NotPrepared(NAME))?;
        // Models train in the worker, which links them.
        let real = if simulation.real_compute {
            let (worker, _) = worker::find_and_describe().await?;
            let directory = self.dataset_directory.clone();
            Some(RealCompute { worker, directory })
        } else {
            None
        };
        let worker = real.as_ref().map(|real| real.worker.program().to_owned());
        let sim = Sim::new(simulation, real);
        // A row that cannot be simulated ends the run only where none can be.
        let mut infeasible = Vec::with_capacity(plans.len());
        let mut errors = Vec::new();
        for plan in plans {
            infeasible.push(match sim.infeasible(plan).await {
                Ok(limit) => limit.map(|limit| limit.to_string()),
                Err(error) => {
                    let reason = format!("infeasible: {error}");
                    errors.push(error);
                    Some(reason)
                }
            });
        }
        if errors.len() == plans.len()
            && let Some(first) = errors.into_iter().next()
        {
            return Err(first);
        }
        self.sim = Some(sim);
        Ok(Prepared {
            worker,
            infeasible,
            ..Prepared::default()
        })
    }

    /// One per core: a trial keeps little more than one of them busy, and no clock measures it.
    fn concurrent_trials(&self) -> usize {
        thread::available_parallelism().map_or(1, NonZero::get)
    }

    async fn run_trial(
        &self,
        plan: &TrialPlan,
        _data: &TrialData,
        progress: &dyn Progress,
    ) -> Result<TrialOutcome, PlatformError> {
        let sim = self.sim.as_ref().ok_or(PlatformError::NotPrepared(NAME))?;
        sim.run_trial(plan, progress).await
    }
}
