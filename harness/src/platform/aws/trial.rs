//! One trial on AWS: its data, its functions, its work, and their removal.

use std::collections::BTreeSet;
use std::time::Duration;

use epochcost_aws::deployment::{self, Package, Place, Training};
use epochcost_aws::invoke;
use epochcost_aws::logs::LogReader;
use epochcost_aws::resource::{Address, Spec};
use epochcost_aws::{AwsError, objects, provision, remove, workers};
use epochcost_systems::{
    DATASET_BUCKET, Device, Host, Job, Launch, System, Task, dataset_objects, find,
};
use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::log::{Seen, read};
use super::spending::Spending;
use super::watch::{Standing, Start, standing, steps};
use super::{Aws, instances, is_the_trials, unusable};
use crate::metering::TrialOutcome;
use crate::plan::{Row, TrialPlan};
use crate::platform::{PlatformError, Progress, TrialData};

/// From one look at the logs to the next.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// How long the last lines of a log may take, seconds, unless
/// [`PATIENCE_VARIABLE`] says so. CloudWatch Logs promises nothing; lines come
/// within seconds.
const PATIENCE_S: u64 = 120;
/// Names another time.
const PATIENCE_VARIABLE: &str = "EPOCHCOST_LOG_PATIENCE_S";
/// Clocks of this machine and of AWS may differ by this.
const SKEW_S: i64 = 300;

/// Runs one trial; whatever happens, what was made for it is removed.
pub(super) async fn run(
    aws: &Aws,
    plan: &TrialPlan,
    data: &TrialData,
    progress: &dyn Progress,
) -> Result<TrialOutcome, PlatformError> {
    let trial = Trial::of(aws, plan)?;
    let specs = trial.specs()?;
    let outcome = match trial.make(&specs, data).await {
        Ok(()) => trial.work(progress).await,
        Err(error) => Err(error),
    };
    let outcome = match outcome {
        Err(PlatformError::Aws(error)) if is_the_trials(&error) => Ok(TrialOutcome {
            failure: Some(error.to_string()),
            ..TrialOutcome::default()
        }),
        outcome => outcome,
    };
    let left = trial.put_away(&specs).await;
    let mut outcome = outcome?;
    outcome.warnings.extend(left?);
    Ok(outcome)
}

/// Seconds since the Unix epoch.
pub(super) fn unix_s() -> f64 {
    Timestamp::now().as_millisecond() as f64 / 1e3
}

/// A trial under its names.
pub(super) struct Trial<'a> {
    pub(super) aws: &'a Aws,
    row: &'a Row,
    system: &'static dyn System,
    pub(super) training: Training,
    pub(super) place: Place,
}

impl<'a> Trial<'a> {
    fn of(aws: &'a Aws, plan: &'a TrialPlan) -> Result<Self, PlatformError> {
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
            place: Place {
                row: index,
                trial: plan.trial,
            },
        })
    }

    pub(super) fn spending(&self) -> Spending {
        self.aws.spending(self.row.memory_mb)
    }

    fn job(&self) -> &Job {
        &self.row.job
    }

    /// What stands before every key of this trial.
    fn scope(&self) -> String {
        self.place.to_string()
    }

    fn specs(&self) -> Result<Vec<Spec>, PlatformError> {
        let scope = &self.aws.scope;
        let mut environment = self.row.sandbox.environment.clone();
        let objects = deployment::objects_bucket(scope);
        environment.insert(
            "EPOCHCOST_OBJECTS".to_owned(),
            format!("s3://{}/{objects}", scope.region),
        );
        environment.insert("EPOCHCOST_SCOPE".to_owned(), self.scope());
        if !self.row.faults.is_empty() {
            let faults = serde_json::to_string(&self.row.faults)
                .map_err(|error| PlatformError::Worker(format!("unwritable faults: {error}")))?;
            environment.insert("EPOCHCOST_FAULTS".to_owned(), faults);
        }
        if self.row.cpu_fallback {
            environment.insert("EPOCHCOST_CPU_FALLBACK".to_owned(), "1".to_owned());
        }
        if self.job().device == Device::Cuda {
            let precision = self.row.precision.name();
            environment.insert("EPOCHCOST_PRECISION".to_owned(), precision.to_owned());
        }
        // On instances there is nothing to invoke.
        let alone = (
            "EPOCHCOST_CONTROL".to_owned(),
            "http://127.0.0.1:9".to_owned(),
        );
        let of_instances: Vec<_> = environment.clone().into_iter().chain([alone]).collect();
        let subnet = deployment::subnet(scope, &self.aws.rows).map_err(unusable)?;
        let instances = workers::of_trial(
            scope,
            &self.training,
            self.place,
            &of_instances,
            subnet.as_deref(),
        )?;
        let package = Package {
            storage_mb: self.row.sandbox.ephemeral_storage_mb,
            environment,
            ..self.aws.package.clone()
        };
        let functions = deployment::of_trial(scope, &self.training, self.place, &package);
        let mut specs = functions.map_err(unusable)?;
        specs.extend(instances);
        Ok(specs)
    }

    /// Puts the dataset into the bucket and makes the functions.
    async fn make(&self, specs: &[Spec], data: &TrialData) -> Result<(), PlatformError> {
        let layout = self.system.data_layout(self.job()).map_err(unusable)?;
        let dataset = dataset_objects(self.job(), layout, &data.train, &data.test);
        let bucket = deployment::objects_bucket(&self.aws.scope);
        for (key, object) in dataset.map_err(unusable)? {
            let key = format!("{}/{DATASET_BUCKET}/{key}", self.scope());
            objects::put(&self.aws.clients, &bucket, &key, object).await?;
        }
        instances::put_tasks(self).await?;
        let mut journal = self.aws.journal.lock().await;
        provision(specs, &self.aws.clients, &mut journal, &self.aws.approval).await?;
        Ok(())
    }

    /// Starts the work and follows it to its end.
    async fn work(&self, progress: &dyn Progress) -> Result<TrialOutcome, PlatformError> {
        if self.system.worker_host() == Host::Instance {
            return instances::work(self, progress).await;
        }
        let began = Timestamp::now();
        let since = Timestamp::from_second(began.as_second() - SKEW_S).unwrap_or(began);
        let mut watch = Watch {
            reader: LogReader::default(),
            groups: self.log_groups()?,
            since,
            deadline_s: self.training.deadline_s().map_err(unusable)?,
            spending: self.spending(),
            began: Instant::now(),
        };
        let launch = self.system.launch(self.job()).map_err(unusable)?;
        let Launch::Workers(first) = launch else {
            return Err(PlatformError::Lacks {
                what: "workflows on AWS".to_owned(),
                remedy: "use --platform local or --platform sim".to_owned(),
            });
        };
        let mut starts: Vec<Start> = Vec::with_capacity(first.len());
        for (function, rank) in first {
            self.invoke(function, rank).await?;
            starts.push((function.to_owned(), rank, 0));
        }
        let standing = watch.follow(self, &starts, progress).await?;
        let (seen, repeated) = watch.complete(self).await?;
        *self.aws.spent() = watch.spending.check(&seen)?;
        progress.steps(steps(&seen));
        let failure = match standing {
            Standing::Ended => None,
            Standing::Failed(reason) => Some(reason),
            Standing::Running => Some(format!(
                "the trial did not end within {} s",
                watch.deadline_s
            )),
        };
        Ok(outcome(&seen, repeated, failure))
    }

    fn log_groups(&self) -> Result<Vec<String>, PlatformError> {
        let calls = self.training.calls().map_err(unusable)?;
        let groups = calls
            .iter()
            .map(|called| deployment::log_group_name(&self.function(called.function)));
        Ok(groups.collect())
    }

    /// The name of a function on Lambda.
    fn function(&self, function: &str) -> String {
        let system = &self.job().system;
        deployment::function_name(&self.aws.scope, system, function, self.place)
    }

    fn task(&self, function: &str, rank: usize) -> Task {
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

    async fn invoke(&self, function: &str, rank: usize) -> Result<(), PlatformError> {
        let event = self.task_bytes(function, rank)?;
        invoke::invoke(&self.aws.clients, &self.function(function), event).await?;
        Ok(())
    }

    /// Removes what was made for this trial; what is still there, in words.
    async fn put_away(&self, specs: &[Spec]) -> Result<Vec<String>, PlatformError> {
        let addresses: BTreeSet<Address> = specs.iter().map(Spec::address).collect();
        let mut journal = self.aws.journal.lock().await;
        let removed = remove(&self.aws.clients, &mut journal, &addresses).await?;
        let left = removed.left.iter();
        Ok(left
            .map(|(found, error)| format!("{} is still there: {error}", found.address))
            .collect())
    }
}

/// The logs of a trial, read over and over.
struct Watch {
    reader: LogReader,
    groups: Vec<String>,
    since: Timestamp,
    deadline_s: u64,
    spending: Spending,
    began: Instant,
}

impl Watch {
    fn is_over(&self) -> bool {
        self.began.elapsed() > Duration::from_secs(self.deadline_s)
    }

    /// Everything that is there.
    async fn look(
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
    async fn follow(
        &mut self,
        trial: &Trial<'_>,
        starts: &[Start],
        progress: &dyn Progress,
    ) -> Result<Standing, AwsError> {
        loop {
            let seen = self.look(trial, progress).await?;
            let standing = standing(starts, &seen);
            if standing != Standing::Running || self.is_over() {
                return Ok(standing);
            }
            sleep(LOOK).await;
        }
    }

    /// Waits for the lines that are still missing of what has begun; every
    /// invocation, and how many lines came more than once.
    async fn complete(&mut self, trial: &Trial<'_>) -> Result<(Vec<Seen>, u64), AwsError> {
        let since = Instant::now();
        let patience = std::env::var(PATIENCE_VARIABLE).ok();
        let patience = patience.and_then(|seconds| seconds.parse().ok());
        let patience = Duration::from_secs(patience.unwrap_or(PATIENCE_S));
        loop {
            let clients = &trial.aws.clients;
            self.reader.read(clients, &self.groups, self.since).await?;
            let seen = read(self.reader.streams());
            let is_whole = seen.iter().all(|seen| seen.report.is_some());
            if is_whole || since.elapsed() > patience {
                return Ok((seen, self.reader.repeated()));
            }
            sleep(LOOK).await;
        }
    }
}

/// What the log makes of a trial.
fn outcome(seen: &[Seen], repeated: u64, mut failure: Option<String>) -> TrialOutcome {
    let (mut outcome, mut requests) = (TrialOutcome::default(), BTreeSet::new());
    let (mut unreported, mut again) = (Vec::new(), Vec::new());
    for one in seen {
        if !requests.insert(one.request_id.as_str()) {
            again.push(one.request_id.as_str());
            // Paid for, but no second source of its records.
            outcome.invocations.extend(one.invocation());
            continue;
        }
        match one.invocation() {
            Some(invocation) => outcome.invocations.push(invocation),
            None => unreported.push(one.request_id.as_str()),
        }
        outcome.records.extend(one.records.iter().cloned());
        if let Some(error) = &one.unreadable {
            failure.get_or_insert_with(|| format!("a record cannot be read: {error}"));
        }
    }
    let found = requests.len() - unreported.len();
    let all = requests.len();
    if found == all {
        outcome.warnings.push(format!(
            "REPORT lines of all {all} invocations were found in CloudWatch Logs"
        ));
    } else {
        failure.get_or_insert_with(|| {
            format!(
                "CloudWatch Logs has REPORT lines of {found} of {all} invocations; not of [{}]",
                unreported.join(", ")
            )
        });
    }
    if !again.is_empty() {
        outcome.warnings.push(format!(
            "Lambda ran again, under the same request: {}",
            again.join(", ")
        ));
    }
    if repeated > 0 {
        outcome.warnings.push(format!(
            "CloudWatch Logs delivered {repeated} lines more than once"
        ));
    }
    outcome
        .invocations
        .sort_by(|a, b| a.ended_s.total_cmp(&b.ended_s));
    let started_s = seen
        .iter()
        .map(|seen| seen.started_s)
        .min_by(f64::total_cmp);
    let ended_s = outcome.invocations.last().map(|last| last.ended_s);
    outcome.started_s = started_s.unwrap_or_default();
    outcome.wall_s = ended_s.unwrap_or_default() - outcome.started_s;
    outcome.wall_s = outcome.wall_s.max(0.0);
    outcome.failure = failure;
    outcome
}
