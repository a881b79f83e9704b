//! The errors and the clock of a worker process.

use std::env;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use epochcost_channels::ChannelError;
use epochcost_environment::worker as variable;
use epochcost_systems::{Clock, SystemError};
use lambda_runtime::Diagnostic;
use rustix::time::{ClockId, clock_gettime};
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
    Duration::from_millis(deadline_ms).saturating_sub(HostClock::new().now())
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

/// A clock of seconds since the Unix epoch that never runs backwards: that of the trial where
/// the harness passed it, else the system's at the start of the process; the monotonic clock
/// from there.
pub struct HostClock {
    origin: Duration,
    started: Instant,
}

impl HostClock {
    /// Starts the clock.
    pub fn new() -> Self {
        let ahead_ns = env::var(variable::CLOCK).ok();
        Self::at(ahead_ns.and_then(|text| text.parse().ok()))
    }

    /// Starts the clock `ahead_ns` ahead of the monotonic one.
    fn at(ahead_ns: Option<i128>) -> Self {
        let started = Instant::now();
        #[expect(
            clippy::disallowed_methods,
            reason = "the origin of the clock, read once"
        )]
        let system = || SystemTime::now().duration_since(UNIX_EPOCH);
        let origin = match ahead_ns {
            Some(ahead_ns) => {
                let now = clock_gettime(ClockId::Monotonic);
                let now_ns = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
                Duration::from_nanos(u64::try_from(now_ns + ahead_ns).unwrap_or_default())
            }
            None => system().unwrap_or_default(),
        };
        Self { origin, started }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes that start before and after somebody sets the system's clock read one time.
    #[test]
    fn workers_read_the_clock_of_their_trial() {
        let day_ns = 86_400_000_000_000;
        let [first, second] = [0, day_ns].map(|ahead_ns| HostClock::at(Some(ahead_ns)).now());
        let apart_s = second.as_secs_f64() - first.as_secs_f64();
        // Both were read within seconds.
        assert!((86_390.0..86_500.0).contains(&apart_s), "{apart_s}");
        assert!(first < HostClock::at(None).now());
    }
}
