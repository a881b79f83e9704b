//! An experiment on this machine, from its first check to its last trial.

use async_trait::async_trait;
use epochcost_spec::metering::TrialOutcome;
use epochcost_spec::rows::{Row, TrialPlan};
use epochcost_spec::ui::Output;

use super::services::check;
use super::{Local, doctor, machine, measure, worker};
use crate::{
    Factory, Finding, Platform, PlatformError, PlatformOptions, Prepared, Progress, Site,
    SpendingConsent, TrialData,
};

const NAME: &str = "local";

/// Real processes on this machine.
#[derive(Clone, Copy, Debug)]
pub struct LocalFactory;

impl Factory for LocalFactory {
    fn name(&self) -> &'static str {
        NAME
    }

    fn site(&self) -> Site {
        Site::ThisMachine
    }

    fn has_services(&self) -> bool {
        true
    }

    fn open(&self, options: PlatformOptions) -> Result<Box<dyn Platform>, PlatformError> {
        Ok(Box::new(OnThisMachine {
            has_real_services: options.has_real_services,
            local: None,
        }))
    }
}

/// This machine, for one experiment.
struct OnThisMachine {
    has_real_services: bool,
    /// None before it is prepared.
    local: Option<Local>,
}

#[async_trait]
impl Platform for OnThisMachine {
    fn refuse(&self, rows: &[Row]) -> Result<(), PlatformError> {
        if self.has_real_services {
            check(rows)?;
        }
        machine::has_handles_for(rows)
    }

    async fn prepare(
        &mut self,
        plans: &[TrialPlan],
        _consent: &SpendingConsent,
        output: Output,
    ) -> Result<Prepared, PlatformError> {
        machine::has_loopback()?;
        let mut local = Local::with_worker(worker::find().await?).await?;
        if local.limits.storage.is_watched() {
            machine::has_temporary_files(&std::env::temp_dir())?;
        }
        for plan in plans {
            local.check_device(&plan.row)?;
        }
        if self.has_real_services {
            output.message("starting Redis, RabbitMQ and the S3 server");
            let rows: Vec<Row> = plans.iter().map(|plan| plan.row.clone()).collect();
            local = local.with_servers(&rows).await?;
        }
        let (limits, warning) = local.try_out(plans.iter().map(|plan| &plan.row));
        if let Some(warning) = warning {
            output.message(format_args!("warning: {warning}"));
        }
        let prepared = Prepared {
            worker: Some(local.worker.program().to_owned()),
            limits: limits.into(),
            servers: local.services.servers().await,
            infeasible: vec![None; plans.len()],
            ..Prepared::default()
        };
        self.local = Some(local);
        Ok(prepared)
    }

    async fn run_trial(
        &self,
        plan: &TrialPlan,
        data: &TrialData,
        progress: &dyn Progress,
    ) -> Result<TrialOutcome, PlatformError> {
        let local = (self.local.as_ref()).ok_or(PlatformError::NotPrepared(NAME))?;
        local.run_trial(plan, data, progress).await
    }

    async fn doctor(&self) -> Result<Vec<Finding>, PlatformError> {
        Ok(doctor::findings().await)
    }

    async fn measure(&self, output: Output) -> Result<Vec<Finding>, PlatformError> {
        output.message("measuring what sandboxes get: some seconds, on an idle machine");
        measure::limits(&worker::find().await?).await
    }
}
