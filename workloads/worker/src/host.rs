//! The errors and the clock of a worker process.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use epochcost_channels::ChannelError;
use epochcost_systems::{Clock, SystemError};
use lambda_runtime::Diagnostic;
use thiserror::Error;

/// The reason why a worker failed.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// An unknown argument.
    #[error(
        "there is no argument {0:?}: give none, --instance, --describe, --profile or --probe cpu|memory|storage"
    )]
    Usage(String),
    /// An environment variable is missing or malformed.
    #[error("the environment variable {name} is missing or malformed")]
    Variable {
        /// Name of the variable.
        name: &'static str,
    },
    /// The environment names a service that cannot be used.
    #[error("the environment variable {name} is unusable: {reason}")]
    Service {
        /// Name of the variable.
        name: &'static str,
        /// The mistake in its value.
        reason: String,
    },
    /// The task cannot be read.
    #[error("the task is malformed: {0}")]
    Task(String),
    /// The job names a system that this worker does not know.
    #[error("this worker has no system {0:?}")]
    UnknownSystem(String),
    /// A service could not be reached.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The training system failed.
    #[error(transparent)]
    System(#[from] SystemError),
    /// The Lambda runtime ended.
    #[error("the Lambda runtime ended: {0}")]
    Runtime(String),
    /// Standard input could not be read.
    #[error("failed to read standard input: {0}")]
    Input(#[from] std::io::Error),
}

/// Returns the time until a deadline, given in milliseconds since the Unix epoch.
pub fn until(deadline_ms: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Duration::from_millis(deadline_ms).saturating_sub(now.unwrap_or_default())
}

/// Converts the error of an invocation into the Runtime API's report.
impl From<WorkerError> for Diagnostic {
    fn from(error: WorkerError) -> Self {
        Self {
            error_type: "WorkerError".into(),
            error_message: error.to_string(),
        }
    }
}

/// A clock of seconds since the Unix epoch that never runs backwards: the system's
/// clock at the start of the process, and the monotonic clock from there.
pub struct HostClock {
    origin: Duration,
    started: Instant,
}

impl HostClock {
    /// Starts the clock at the system's time.
    pub fn new() -> Self {
        let origin = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            origin,
            started: Instant::now(),
        }
    }
}

#[async_trait]
impl Clock for HostClock {
    fn now(&self) -> Duration {
        self.origin + self.started.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        if duration.is_zero() {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(duration).await;
        }
    }
}
