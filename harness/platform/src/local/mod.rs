//! Trials on this machine: real processes, real bytes, real time.
//!
//! The harness speaks the AWS Lambda Runtime API to worker processes, so the
//! worker is the binary that runs in the cloud. Every invocation ends in a
//! REPORT line like Lambda's, and its figures are read from that line. The
//! services that workers talk through are on loopback: in this process, or real servers.

mod account;
mod checkout;
mod clock;
mod collector;
mod control;
mod doctor;
pub mod environment;
mod function;
mod gate;
mod gpus;
pub mod handed_over;
mod host;
pub mod http;
mod instance;
mod lambda;
mod life_cycle;
mod limits;
mod machine;
mod measure;
mod process;
mod program;
mod runtime_api;
mod sandbox;
mod services;
#[cfg(test)]
mod tests;
mod trial;
mod usage;
pub mod worker;

use std::sync::Arc;

use epochcost_spec::metering::{Limit, TrialOutcome};
use epochcost_spec::rows::{Row, TrialPlan};
use epochcost_systems::{Host as HostKind, find};
use limits::Limits;
use services::{Provider, Real};
use worker::Description;

use super::{PlatformError, Progress, TrialData};

pub use function::{FunctionConfig, FunctionLimits, LocalFunction};
pub use host::{InvocationLines, LogSink};
pub use life_cycle::LocalFactory;
pub use machine::{explained, raise_limits};
pub use services::{object_server, redis_module, requirements};
pub use worker::Worker;

/// This machine, with a worker and services for trials.
#[derive(Debug)]
pub struct Local {
    worker: Worker,
    description: Description,
    limits: Arc<Limits>,
    cores: usize,
    services: Provider,
}

impl Local {
    /// Returns this machine with `worker` for its trials; detects what it can enforce.
    ///
    /// # Errors
    /// [`PlatformError::Worker`] when it is no worker of this version.
    pub async fn with_worker(worker: Worker) -> Result<Self, PlatformError> {
        Ok(Self {
            description: worker.describe().await?,
            worker,
            limits: Arc::new(Limits::detect()),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            services: Provider::Embedded,
        })
    }

    /// Puts real servers for these rows in place of the embedded services, and
    /// starts those that every trial needs.
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

    /// Refuses a row on a device that is not here, where it may not take the CPU instead, and one
    /// whose workers do not fit on their GPUs.
    ///
    /// # Errors
    /// [`PlatformError::Lacks`] with the remedy.
    pub fn check_device(&self, row: &Row) -> Result<(), PlatformError> {
        gpus::check(row, &self.description.gpus)?;
        if row.cpu_fallback {
            return Ok(());
        }
        self.description.offers(
            row.job.device,
            &row.id,
            "set `fallback: true` in the row's `device` for the CPU in its place",
        )
    }

    /// Returns how the limits of the functions of these rows are enforced, and a warning where
    /// one is larger than this machine; tries the largest.
    pub fn try_out<'a>(
        &mut self,
        rows: impl IntoIterator<Item = &'a Row>,
    ) -> ([Limit; 3], Option<String>) {
        let largest_mb = rows.into_iter().filter_map(largest_function_mb).max();
        let largest_mb = largest_mb.unwrap_or_default();
        // No trial shares them yet.
        if let Some(limits) = Arc::get_mut(&mut self.limits) {
            limits.try_out(largest_mb);
        }
        let limits = &self.limits;
        (limits.enforcement(largest_mb), limits.too_large(largest_mb))
    }

    /// Runs one trial, as [`Platform::run_trial`](super::Platform::run_trial) says.
    ///
    /// # Errors
    /// When the device is not here, or this machine could not do its part.
    pub async fn run_trial(
        &self,
        plan: &TrialPlan,
        data: &TrialData,
        progress: &dyn Progress,
    ) -> Result<TrialOutcome, PlatformError> {
        self.check_device(&plan.row)?;
        self.worker.check()?;
        trial::run(self, plan, data, progress).await
    }
}

/// Returns the memory size of the largest function of a row, MB; none without functions.
fn largest_function_mb(row: &Row) -> Option<u32> {
    let deployment = find(&row.job.system)?.deployment();
    let functions = deployment.functions.iter();
    let functions = functions.filter(|function| function.host == HostKind::Function);
    let own = |name: &str| row.function_memory_mb.get(name).copied();
    functions
        .map(|function| own(function.name).unwrap_or(row.memory_mb))
        .max()
}
