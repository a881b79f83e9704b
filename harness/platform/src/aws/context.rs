//! A trial with its resource names, and the log tail of its functions: the context of
//! everything that makes, follows or measures the trial.

use std::sync::Mutex;
use std::time::Duration;

use epochcost_aws::deployment::{self, Training, TrialIndex};
use epochcost_aws::logs::LogReader;
use epochcost_aws::{AwsError, Cause};
use epochcost_spec::metering::TrialOutcome;
use epochcost_spec::rows::{Row, TrialPlan};
use epochcost_systems::{Job, System, Task, find};
use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::log::{Seen, read};
use super::outcome::outcome;
use super::progress::{Start, WorkerProgress, steps, worker_progress};
use super::spending::{Rented, Spending};
use super::{Aws, unusable};
use crate::{PlatformError, Progress, locked};

/// Polling interval of the logs.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Default time limit of a log's last lines, seconds; [`PATIENCE_VARIABLE`]
/// overrides it. CloudWatch Logs guarantees no time; lines arrive within seconds.
const PATIENCE_S: u64 = 120;
/// Environment variable of another time limit, seconds.
const PATIENCE_VARIABLE: &str = epochcost_environment::user::LOG_PATIENCE_S;
/// Largest tolerated difference of the clocks of this machine and of AWS.
const SKEW_S: i64 = 300;

/// Returns the time in seconds since the Unix epoch.
pub(super) fn unix_s() -> f64 {
    Timestamp::now().as_millisecond() as f64 / 1e3
}

/// A trial with its resource names.
pub(super) struct Trial<'a> {
    pub(super) aws: &'a Aws,
    pub(super) plan: &'a TrialPlan,
    pub(super) row: &'a Row,
    pub(super) system: &'static dyn System,
    pub(super) training: Training,
    pub(super) place: TrialIndex,
    /// Time from which its resources may cost.
    since: std::time::Instant,
    /// Names and ids of its instances, in the order of their creation.
    pub(super) instances: Mutex<Vec<(String, String)>>,
}

impl<'a> Trial<'a> {
    /// Names the trial of `plan`.
    ///
    /// # Errors
    /// When its row or its system is unknown.
    pub(super) fn of(aws: &'a Aws, plan: &'a TrialPlan) -> Result<Self, PlatformError> {
        let row = &plan.row;
        let lost = |reason: String| PlatformError::service("the trial", reason);
        let index = (aws.rows.iter().position(|known| known.row == row.id))
            .ok_or_else(|| lost(format!("the user did not agree to {}", row.id)))?;
        let system = find(&row.job.system)
            .ok_or_else(|| lost(format!("there is no system {:?}", row.job.system)))?;
        Ok(Self {
            aws,
            plan,
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

    /// Returns the monitor of this trial's spending.
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
            what: format!("{count} × {kind}"),
            // Without a price there was no worst case and no consent.
            usd_per_hour: count as f64 * self.aws.instance_hour_usd(kind),
            since: self.since,
        });
        Ok(self.aws.spending(self.row.memory_mb, rented.collect()))
    }

    pub(super) fn job(&self) -> &Job {
        &self.row.job
    }

    /// Returns the prefix of every key of this trial.
    pub(super) fn scope(&self) -> String {
        self.place.to_string()
    }

    /// Returns a tail of the logs of this trial's functions, from now on.
    ///
    /// # Errors
    /// When the row's settings are not its system's.
    pub(super) fn log_tail(&self) -> Result<LogTail, PlatformError> {
        let began = Timestamp::now();
        let since = Timestamp::from_second(began.as_second() - SKEW_S).unwrap_or(began);
        Ok(LogTail {
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

    /// Returns names and ids of the instances that were made.
    pub(super) fn instances(&self) -> Vec<(String, String)> {
        locked(&self.instances).clone()
    }

    /// Returns the name of a function on Lambda.
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
            round: 0,
        }
    }

    pub(super) fn task_bytes(&self, function: &str, rank: usize) -> Result<Vec<u8>, PlatformError> {
        let task = serde_json::to_vec(&self.task(function, rank));
        task.map_err(PlatformError::unwritable("task"))
    }
}

/// Tail of a trial's logs, which are polled while it runs.
pub(super) struct LogTail {
    reader: LogReader,
    groups: Vec<String>,
    since: Timestamp,
    pub(super) deadline_s: u64,
    spending: Spending,
    began: Instant,
    /// Number of invocations known to have been made, even if no log has them.
    pub(super) known: usize,
}

impl LogTail {
    pub(super) fn is_over(&self) -> bool {
        self.began.elapsed() > Duration::from_secs(self.deadline_s)
    }

    /// Reads new lines of the logs; returns every invocation so far.
    ///
    /// # Errors
    /// When the logs cannot be read, or more is spent than may be.
    pub(super) async fn poll(
        &mut self,
        trial: &Trial<'_>,
        progress: &dyn Progress,
    ) -> Result<Vec<Seen>, AwsError> {
        let clients = &trial.aws.clients;
        if self.is_over() {
            // Lines may be late by any time; without them the trial would not have ended.
            self.read_whole(trial).await?;
        } else {
            (self.reader)
                .read_new(clients, &self.groups, self.since)
                .await?;
        }
        let seen = read(self.reader.streams());
        progress.steps(steps(&seen));
        self.spending.check(&seen)?;
        Ok(seen)
    }

    /// Reads all lines of the logs; returns whether CloudWatch had the patience.
    async fn read_whole(&mut self, trial: &Trial<'_>) -> Result<bool, AwsError> {
        let clients = &trial.aws.clients;
        match self.reader.read(clients, &self.groups, self.since).await {
            Err(error) if error.cause() == Some(Cause::Throttled) => Ok(false),
            read => read.map(|_| true),
        }
    }

    /// Polls until everything that was started has ended, or the trial's deadline.
    pub(super) async fn follow(
        &mut self,
        trial: &Trial<'_>,
        starts: &[Start],
        progress: &dyn Progress,
    ) -> Result<WorkerProgress, AwsError> {
        loop {
            let is_over = self.is_over();
            let seen = self.poll(trial, progress).await?;
            let reached = worker_progress(starts, &seen);
            let is_running = matches!(reached, WorkerProgress::Running(_));
            if !is_running || is_over {
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
            let is_read = self.read_whole(trial).await?;
            let seen = read(self.reader.streams());
            let is_whole = is_read
                && seen.len() >= self.known
                && seen.iter().all(|seen| seen.report.is_some());
            if is_whole || since.elapsed() > patience {
                break seen;
            }
            sleep(POLL_INTERVAL).await;
        };
        self.spending.check(&seen)?;
        progress.steps(steps(&seen));
        Ok(outcome(&seen, self.known, self.reader.repeated(), failure))
    }
}
