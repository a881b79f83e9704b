//! A trial under its names, and the log that is read of it: what everything that
//! makes, follows or measures a trial works on.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use epochcost_aws::AwsError;
use epochcost_aws::deployment::{self, Training, TrialIndex};
use epochcost_aws::logs::LogReader;
use epochcost_systems::{Job, System, Task, find};
use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::log::{Seen, read};
use super::outcome::outcome;
use super::progress::{Start, WorkerProgress, steps, worker_progress};
use super::spending::{Rented, Spending};
use super::{Aws, unusable};
use crate::metering::TrialOutcome;
use crate::platform::{PlatformError, Progress};
use crate::rows::{Row, TrialPlan};

/// Polling interval of the logs.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long the last lines of a log may take, seconds, unless
/// [`PATIENCE_VARIABLE`] says so. CloudWatch Logs promises nothing; lines come
/// within seconds.
const PATIENCE_S: u64 = 120;
/// Names another time.
const PATIENCE_VARIABLE: &str = epochcost_environment::user::LOG_PATIENCE_S;
/// Clocks of this machine and of AWS may differ by this.
const SKEW_S: i64 = 300;

/// Seconds since the Unix epoch.
pub(super) fn unix_s() -> f64 {
    Timestamp::now().as_millisecond() as f64 / 1e3
}

/// A trial under its names.
pub(super) struct Trial<'a> {
    pub(super) aws: &'a Aws,
    pub(super) row: &'a Row,
    pub(super) system: &'static dyn System,
    pub(super) training: Training,
    pub(super) place: TrialIndex,
    /// When anything of it may have begun to cost.
    since: std::time::Instant,
    /// Names and ids of its instances, as they were made.
    pub(super) instances: Mutex<Vec<(String, String)>>,
}

impl<'a> Trial<'a> {
    /// Names the trial of `plan`.
    ///
    /// # Errors
    /// When its row or its system is unknown.
    pub(super) fn of(aws: &'a Aws, plan: &'a TrialPlan) -> Result<Self, PlatformError> {
        let row = &plan.row;
        let lost = |reason: String| PlatformError::Service {
            service: "the trial",
            reason,
        };
        let index = (aws.rows.iter().position(|known| known.row == row.id))
            .ok_or_else(|| lost(format!("nobody agreed to {}", row.id)))?;
        let system = find(&row.job.system)
            .ok_or_else(|| lost(format!("there is no system {:?}", row.job.system)))?;
        Ok(Self {
            aws,
            row,
            system,
            training: Training {
                job: row.job.clone(),
                ..aws.rows[index].clone()
            },
            place: TrialIndex {
                row: index,
                trial: plan.trial,
            },
            since: std::time::Instant::now(),
            instances: Mutex::default(),
        })
    }

    /// The watch on what this trial spends.
    ///
    /// # Errors
    /// When the row's settings are not its system's.
    pub(super) fn spending(&self) -> Result<Spending, PlatformError> {
        let hosts = self.training.service_hosts().map_err(unusable)?;
        let workers = self.training.instances().map_err(unusable)?;
        let rented = [
            (deployment::SERVICE_INSTANCE, hosts),
            (self.training.instance_type.as_str(), workers),
        ];
        let rented = rented.into_iter().filter(|(_, count)| *count > 0);
        let rented = rented.map(|(kind, count)| Rented {
            // Without a price there was no worst case and no consent.
            usd_an_hour: count as f64 * self.aws.instance_hour_usd(kind),
            since: self.since,
        });
        Ok(self.aws.spending(self.row.memory_mb, rented.collect()))
    }

    pub(super) fn job(&self) -> &Job {
        &self.row.job
    }

    /// What stands before every key of this trial.
    pub(super) fn scope(&self) -> String {
        self.place.to_string()
    }

    /// A watch on the logs of this trial's functions, from now on.
    ///
    /// # Errors
    /// When the row's settings are not its system's.
    pub(super) fn watch(&self) -> Result<Watch, PlatformError> {
        let began = Timestamp::now();
        let since = Timestamp::from_second(began.as_second() - SKEW_S).unwrap_or(began);
        Ok(Watch {
            reader: LogReader::default(),
            groups: self.log_groups()?,
            since,
            deadline_s: self.training.deadline_s().map_err(unusable)?,
            spending: self.spending()?,
            began: Instant::now(),
            known: 0,
        })
    }

    fn log_groups(&self) -> Result<Vec<String>, PlatformError> {
        let calls = self.training.calls().map_err(unusable)?;
        let groups = calls
            .iter()
            .map(|called| deployment::log_group_name(&self.function(called.function)));
        Ok(groups.collect())
    }

    /// Names and ids of the instances that were made.
    pub(super) fn instances(&self) -> Vec<(String, String)> {
        let known = self.instances.lock();
        known.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The name of a function on Lambda.
    pub(super) fn function(&self, function: &str) -> String {
        let system = &self.job().system;
        deployment::function_name(&self.aws.scope, system, function, self.place)
    }

    pub(super) fn task(&self, function: &str, rank: usize) -> Task {
        Task {
            job: self.job().clone(),
            function: function.to_owned(),
            rank,
            epoch: 0,
            batch: None,
        }
    }

    pub(super) fn task_bytes(&self, function: &str, rank: usize) -> Result<Vec<u8>, PlatformError> {
        serde_json::to_vec(&self.task(function, rank))
            .map_err(|error| PlatformError::Worker(format!("unwritable task: {error}")))
    }
}

/// The logs of a trial, read over and over.
pub(super) struct Watch {
    reader: LogReader,
    groups: Vec<String>,
    since: Timestamp,
    pub(super) deadline_s: u64,
    spending: Spending,
    began: Instant,
    /// Invocations that are known to have been made, whatever the log says.
    pub(super) known: usize,
}

impl Watch {
    pub(super) fn is_over(&self) -> bool {
        self.began.elapsed() > Duration::from_secs(self.deadline_s)
    }

    /// Everything that is there.
    ///
    /// # Errors
    /// When the logs cannot be read, or more is spent than may be.
    pub(super) async fn poll(
        &mut self,
        trial: &Trial<'_>,
        progress: &dyn Progress,
    ) -> Result<Vec<Seen>, AwsError> {
        let clients = &trial.aws.clients;
        self.reader.read(clients, &self.groups, self.since).await?;
        let seen = read(self.reader.streams());
        progress.steps(steps(&seen));
        self.spending.check(&seen)?;
        Ok(seen)
    }

    /// Until all that was started has ended, or the trial's time is over.
    pub(super) async fn follow(
        &mut self,
        trial: &Trial<'_>,
        starts: &[Start],
        progress: &dyn Progress,
    ) -> Result<WorkerProgress, AwsError> {
        loop {
            let seen = self.poll(trial, progress).await?;
            let reached = worker_progress(starts, &seen);
            if reached != WorkerProgress::Running || self.is_over() {
                return Ok(reached);
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits for the lines that are still missing of what has begun, and makes
    /// the trial's outcome of them.
    ///
    /// # Errors
    /// When the logs cannot be read, or more is spent than may be.
    pub(super) async fn complete(
        &mut self,
        trial: &Trial<'_>,
        failure: Option<String>,
        progress: &dyn Progress,
    ) -> Result<TrialOutcome, AwsError> {
        let since = Instant::now();
        let patience = std::env::var(PATIENCE_VARIABLE).ok();
        let patience = patience.and_then(|seconds| seconds.parse().ok());
        let patience = Duration::from_secs(patience.unwrap_or(PATIENCE_S));
        let seen = loop {
            let clients = &trial.aws.clients;
            self.reader.read(clients, &self.groups, self.since).await?;
            let seen = read(self.reader.streams());
            let is_whole =
                seen.len() >= self.known && seen.iter().all(|seen| seen.report.is_some());
            if is_whole || since.elapsed() > patience {
                break seen;
            }
            sleep(POLL_INTERVAL).await;
        };
        *trial.aws.spent() = self.spending.check(&seen)?;
        progress.steps(steps(&seen));
        Ok(outcome(&seen, self.known, self.reader.repeated(), failure))
    }
}
