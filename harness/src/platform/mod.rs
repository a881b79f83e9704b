//! Where trials run.

#[cfg(feature = "aws")]
pub mod aws;
mod finding;
pub mod local;
pub mod sim;

use async_trait::async_trait;

pub use finding::Finding;

use crate::metering::TrialOutcome;
use crate::rows::TrialPlan;

/// Follows a trial while it runs.
pub trait Progress: Send + Sync {
    /// Steps that ended so far, over all workers.
    fn steps(&self, done: u64);
}

/// A place to run trials.
#[async_trait]
pub trait Platform: Send + Sync {
    /// The platform's name: `local`, `sim`, `aws`.
    fn name(&self) -> &'static str;

    /// Runs one trial to its end. A failure of the system under test is part
    /// of the outcome, never an error.
    ///
    /// Dropping the future stops everything that the trial started.
    ///
    /// # Errors
    /// When the platform itself could not do its part.
    async fn run_trial(
        &self,
        plan: &TrialPlan,
        data: &TrialData,
        progress: &dyn Progress,
    ) -> Result<TrialOutcome, PlatformError>;
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
    /// Both splits of a dataset.
    pub fn of(dataset: &epochcost_datasets::Dataset) -> Self {
        Self {
            train: bytes::Bytes::copy_from_slice(dataset.train.records()),
            test: bytes::Bytes::copy_from_slice(dataset.test.records()),
            record_bytes: dataset.info.format.record_bytes(),
        }
    }
}

/// Why a platform could not run a trial.
#[derive(Debug, thiserror::Error)]
pub enum PlatformError {
    /// The worker binary could not be found or built.
    #[error("failed to get the worker: {0}")]
    Worker(String),
    /// A service could not be started.
    #[error("failed to start {service}: {reason}")]
    Service {
        /// Which.
        service: &'static str,
        /// Why.
        reason: String,
    },
    /// The platform lacks something that the experiment needs.
    #[error("this platform lacks {what}: {remedy}")]
    Lacks {
        /// What.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// AWS could not do its part.
    #[cfg(feature = "aws")]
    #[error(transparent)]
    Aws(#[from] epochcost_aws::AwsError),
    /// The operating system refused.
    #[error("failed to {doing}")]
    Io {
        /// What was attempted.
        doing: String,
        /// What the system said.
        source: std::io::Error,
    },
}
