//! Trials on this machine: real processes, real bytes, real time.
//!
//! The harness speaks the AWS Lambda Runtime API to worker processes, so the
//! worker is the binary that runs in the cloud. Every invocation ends in a
//! REPORT line like Lambda's, and its figures are read from that line. The
//! services that workers talk through are on loopback: in this process, or real servers.

mod account;
mod checkout;
mod collector;
mod control;
pub(crate) mod environment;
mod function;
mod host;
pub mod http;
mod instance;
mod lambda;
mod limits;
mod measure;
mod process;
mod runtime_api;
mod sandbox;
mod services;
#[cfg(test)]
mod tests;
mod trial;
mod usage;
pub mod worker;

pub use function::{FunctionConfig, FunctionLimits, LocalFunction};
pub use host::{InvocationLines, LogSink};
pub use limits::{Enforced, Enforcement};
pub use measure::{MeasuredLimit, measure_limits};
pub use services::{Missing, Programs, Requirement, ServerUsed, check, requirements};
pub use worker::Worker;

use std::sync::Arc;

use async_trait::async_trait;

use super::{Platform, PlatformError, Progress, TrialData};
use crate::metering::TrialOutcome;
use crate::rows::{Row, TrialPlan};
use limits::Limits;
use services::{Provider, Real};
use worker::Description;

/// This machine.
#[derive(Debug)]
pub struct Local {
    worker: Worker,
    description: Description,
    limits: Arc<Limits>,
    cores: usize,
    services: Provider,
}

impl Local {
    /// Finds or builds the worker, and looks at what this machine can enforce.
    ///
    /// # Errors
    /// [`PlatformError::Worker`] when there is no worker to be had.
    pub async fn new() -> Result<Self, PlatformError> {
        let found = tokio::task::spawn_blocking(worker::find_or_build).await;
        Self::with_worker(found.map_err(|error| PlatformError::Worker(error.to_string()))??).await
    }

    /// Trials run `worker`.
    ///
    /// # Errors
    /// [`PlatformError::Worker`] when it is none.
    pub async fn with_worker(worker: Worker) -> Result<Self, PlatformError> {
        let description = worker.describe().await?;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Self {
            worker,
            description,
            limits: Arc::new(Limits::detect()),
            cores,
            services: Provider::Embedded,
        })
    }

    /// The same with real servers for these rows in place of the embedded
    /// services. Those that every trial needs are started.
    ///
    /// # Errors
    /// [`PlatformError::Lacks`] where something is missing, and
    /// [`PlatformError::Service`] when a server does not start.
    pub async fn with_servers(self, rows: &[Row]) -> Result<Self, PlatformError> {
        Ok(Self {
            services: Provider::Real(Real::start(rows).await?),
            ..self
        })
    }

    /// The real servers that trials run on; none where services are embedded.
    pub async fn servers(&self) -> Vec<ServerUsed> {
        match &self.services {
            Provider::Embedded => Vec::new(),
            Provider::Real(real) => real.used().await,
        }
    }

    /// The worker binary.
    pub fn worker(&self) -> &Worker {
        &self.worker
    }

    /// Refuses a row on a device that is not here, where it may not take the CPU instead.
    ///
    /// # Errors
    /// [`PlatformError::Lacks`] with the remedy.
    pub fn check_device(&self, row: &Row) -> Result<(), PlatformError> {
        match row.cpu_fallback {
            true => Ok(()),
            false => self.description.offers(
                row.job.device,
                &row.id,
                "set `fallback: true` in the row's `device` for the CPU in its place",
            ),
        }
    }

    /// How the limits of functions are held.
    pub fn enforcement(&self) -> Enforcement {
        self.limits.enforcement()
    }
}

/// How the limits of functions would be held on this machine.
pub fn enforcement() -> Enforcement {
    Limits::detect().enforcement()
}

#[async_trait]
impl Platform for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    async fn run_trial(
        &self,
        plan: &TrialPlan,
        data: &TrialData,
        progress: &dyn Progress,
    ) -> Result<TrialOutcome, PlatformError> {
        let row = &plan.row;
        self.check_device(row)?;
        trial::run(self, plan, data, progress).await
    }
}
