//! Platforms: where trials run.
//!
//! A [`Factory`] knows a platform by its name; the registry ([`PlatformKind::all`])
//! lists them. What it opens is a [`Platform`], which an experiment takes
//! through its life cycle: refuse, prepare, begin, run trials, tear down.
//! `docs/adding-a-platform.md` adds one.
//!
//! It imports `epochcost-spec` and the crates of AWS and of servers.

#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(feature = "aws")]
mod aws;
pub mod aws_plan;
mod cloud;
mod error;
mod factory;
mod finding;
mod lacking;
pub mod local;
mod prepared;
mod registry;
pub mod sim;
#[cfg(test)]
#[path = "../../testing.rs"]
mod testing;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the date of a trial's start")]
mod tasks {
    //! The example of `docs/adding-a-platform.md`, from there.
    include!(concat!(env!("OUT_DIR"), "/tasks.rs"));

    mod tests {
        include!(concat!(env!("OUT_DIR"), "/tasks_tests.rs"));
    }
}

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

pub use cloud::{
    Cloud, CostLine, Estimates, Invoked, Leftover, NoWorstCase, PlannedResource, RefreshedPrices,
    Removal, Resource, RowUsage, Survey, SurveyFilter, WorstCase,
};
pub use error::{CloudError, PlatformError};
pub use factory::{Factory, Figures, PlatformOptions, Site};
pub use finding::Finding;
pub use lacking::Lacking;
pub use prepared::{Prepared, SpendingConsent};
pub use registry::{PlatformKind, cloud, figures_of, find, simulator, site_of};

use epochcost_spec::metering::TrialOutcome;
pub use epochcost_spec::metering::{Limit, Server};
use epochcost_spec::rows::{Row, TrialPlan};
use epochcost_spec::ui::Output;

/// Follows a trial while it runs; `()` reports nothing.
pub trait Progress: Send + Sync {
    /// Reports the steps that ended so far, over all workers.
    fn steps(&self, _done: u64) {}

    /// Reports what is charged for by time from now on, and until when at most.
    fn rented(&self, _what: &str) {}
}

impl Progress for () {}

/// A place to run the trials of one experiment.
///
/// Its methods are called in the order of this definition. Dropping a
/// future stops everything that it started in this process or as a child of it.
#[async_trait]
pub trait Platform: Send + Sync {
    /// Refuses rows that cannot be run, before anything happens.
    ///
    /// # Errors
    /// [`PlatformError::Lacks`] or [`PlatformError::Refused`] with the row and
    /// the remedy.
    fn refuse(&self, _rows: &[Row]) -> Result<(), PlatformError> {
        Ok(())
    }

    /// Finds, builds or starts what trials need, and asks for consent to what
    /// they may cost. `plans` are the first trials of all rows, in their order.
    ///
    /// # Errors
    /// When something is lacking or does not start, or without consent.
    async fn prepare(
        &mut self,
        plans: &[TrialPlan],
        consent: &SpendingConsent,
        output: Output,
    ) -> Result<Prepared, PlatformError>;

    /// Creates what all trials share; `directory` is the run's, for records of it.
    ///
    /// # Errors
    /// When something could not be created. What was is left to [`tear_down`](Self::tear_down).
    async fn begin(&mut self, _directory: &Path) -> Result<(), PlatformError> {
        Ok(())
    }

    /// Runs one trial to its end. A failure of the system under test is part
    /// of the outcome, never an error.
    ///
    /// # Errors
    /// When the platform itself could not do its part.
    async fn run_trial(
        &self,
        plan: &TrialPlan,
        data: &TrialData,
        progress: &dyn Progress,
    ) -> Result<TrialOutcome, PlatformError>;

    /// Returns how many trials may run at the same time: one where clocks measure them.
    fn concurrent_trials(&self) -> usize {
        1
    }

    /// Removes everything that runs in `directory` created outside this machine
    /// and returns what is still there. May be repeated, and is called however
    /// the run ended, also before [`begin`](Self::begin).
    ///
    /// # Errors
    /// When it cannot be determined whether anything is left.
    async fn tear_down(
        &self,
        _directory: &Path,
        _output: Output,
    ) -> Result<Vec<Leftover>, PlatformError> {
        Ok(Vec::new())
    }

    /// Returns what there is of all that the platform needs. Nothing found
    /// missing is an error. Called on its own, before any other method.
    ///
    /// # Errors
    /// When the platform cannot be asked.
    async fn doctor(&self) -> Result<Vec<Finding>, PlatformError> {
        Ok(Vec::new())
    }

    /// Measures whether the platform keeps the limits that it states. Takes
    /// seconds; called on its own.
    ///
    /// # Errors
    /// When nothing can be measured.
    async fn measure(&self, _output: Output) -> Result<Vec<Finding>, PlatformError> {
        Ok(Vec::new())
    }
}

/// Locks a mutex, also after a thread that held it has panicked.
fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The records that a trial trains and is tested on.
#[derive(Clone, Debug, Default)]
pub struct TrialData {
    /// Training records, one after another.
    pub train: bytes::Bytes,
    /// Test records.
    pub test: bytes::Bytes,
    /// Bytes of one record.
    pub record_bytes: usize,
}

impl TrialData {
    /// Returns both splits of a dataset.
    pub fn of(dataset: &epochcost_datasets::Dataset) -> Self {
        Self {
            train: bytes::Bytes::copy_from_slice(dataset.train.records()),
            test: bytes::Bytes::copy_from_slice(dataset.test.records()),
            record_bytes: dataset.info.format.record_bytes(),
        }
    }
}
