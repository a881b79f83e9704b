//! One trial on AWS: its data, its services, its functions, its work, and their
//! removal.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use epochcost_aws::deployment::{self, Package, Training, TrialIndex};
use epochcost_aws::invoke;
use epochcost_aws::logs::LogReader;
use epochcost_aws::resource::{Address, Kind, Spec};
use epochcost_aws::{AwsError, objects, provision, remove, workers};
use epochcost_systems::{
    DATASET_BUCKET, Device, Host, Job, Launch, System, Task, dataset_objects, find,
};
use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::log::{Seen, read};
use super::outcome::outcome;
use super::services::{Services, store_settings};
use super::spending::{Rented, Spending};
use super::watch::{Standing, Start, standing, steps};
use super::{Aws, executions, instances, is_the_trials, metrics, services, unusable};
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
    let (began, mut made) = (Timestamp::now(), BTreeSet::new());
    let outcome = match trial.make(data, &mut made).await {
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
    let left = trial.put_away(&made).await;
    let mut outcome = outcome?;
    // Metrics outlive what they are of, which is paid for no longer.
    metrics::cross_check(&trial, began, &mut outcome).await?;
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
    pub(super) row: &'a Row,
    pub(super) system: &'static dyn System,
    pub(super) training: Training,
    pub(super) place: TrialIndex,
    /// When anything of it may have begun to cost.
    since: std::time::Instant,
    /// Names and ids of its instances, as they were made.
    instances: Mutex<Vec<(String, String)>>,
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
    fn scope(&self) -> String {
        self.place.to_string()
    }

    /// What uses the services that there are.
    fn specs(&self, services: &Services) -> Result<Vec<Spec>, PlatformError> {
        let scope = &self.aws.scope;
        let mut environment = self.row.sandbox.environment.clone();
        let objects = deployment::objects_bucket(scope);
        environment.insert(
            "EPOCHCOST_OBJECTS".to_owned(),
            format!("s3://{}/{objects}", scope.region),
        );
        environment.insert("EPOCHCOST_SCOPE".to_owned(), self.scope());
        environment.extend(services.environment());
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
        // Functions are told where they are made.
        let names = deployment::names(scope, &self.training, self.place).map_err(unusable)?;
        let names = ("EPOCHCOST_DEPLOYMENT".to_owned(), names);
        let of_instances: Vec<_> = environment.clone().into_iter().chain([names]).collect();
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

    /// Puts the dataset into the bucket, starts the services, and makes what uses
    /// them. Whatever may exist afterwards is in `made`.
    async fn make(
        &self,
        data: &TrialData,
        made: &mut BTreeSet<Address>,
    ) -> Result<(), PlatformError> {
        let layout = self.system.data_layout(self.job()).map_err(unusable)?;
        let dataset = dataset_objects(self.job(), layout, &data.train, &data.test);
        let bucket = deployment::objects_bucket(&self.aws.scope);
        for (key, object) in dataset.map_err(unusable)? {
            let key = format!("{}/{DATASET_BUCKET}/{key}", self.scope());
            objects::put(&self.aws.clients, &bucket, &key, object).await?;
        }
        let (scope, settings) = (&self.aws.scope, store_settings(self.row));
        let hosts =
            epochcost_aws::services::of_trial(scope, &self.training, self.place, &settings)?;
        let services = match hosts.is_empty() {
            true => Services::default(),
            false => {
                self.provision(&hosts, made).await?;
                services::wait(self).await?
            }
        };
        instances::put_tasks(self).await?;
        self.provision(&self.specs(&services)?, made).await
    }

    async fn provision(
        &self,
        specs: &[Spec],
        made: &mut BTreeSet<Address>,
    ) -> Result<(), PlatformError> {
        made.extend(specs.iter().map(Spec::address));
        let mut journal = self.aws.journal.lock().await;
        let made = provision(specs, &self.aws.clients, &mut journal, &self.aws.approval).await?;
        let instances = made
            .into_iter()
            .filter(|(made, _)| made.kind == Kind::Instance);
        let mut known = self
            .instances
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        known.extend(instances.map(|(made, id)| (made.name, id)));
        Ok(())
    }

    /// Starts the work and follows it to its end.
    async fn work(&self, progress: &dyn Progress) -> Result<TrialOutcome, PlatformError> {
        if self.system.worker_host() == Host::Instance {
            return instances::work(self, progress).await;
        }
        let mut watch = self.watch()?;
        let launch = self.system.launch(self.job()).map_err(unusable)?;
        let (first, is_workflow) = match launch {
            Launch::Workers(workers) => (workers, false),
            Launch::Workflow { bootstrap } => {
                let peers = (0..self.job().workers).map(|rank| (bootstrap, rank));
                (peers.collect(), true)
            }
        };
        let mut starts: Vec<Start> = Vec::with_capacity(first.len());
        for (function, rank) in first {
            self.invoke(function, rank).await?;
            starts.push((function.to_owned(), rank, 0));
        }
        watch.known = starts.len();
        let mut standing = watch.follow(self, &starts, progress).await?;
        let mut transitions = 0;
        if is_workflow && standing == Standing::Ended {
            (standing, transitions) = executions::follow(self, &mut watch, progress).await?;
        }
        let failure = match standing {
            Standing::Ended => None,
            Standing::Failed(reason) => Some(reason),
            Standing::Running => Some(format!(
                "the trial did not end within {} s",
                watch.deadline_s
            )),
        };
        let mut outcome = watch.complete(self, failure, progress).await?;
        outcome.transitions = transitions;
        Ok(outcome)
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

    async fn invoke(&self, function: &str, rank: usize) -> Result<(), PlatformError> {
        let event = self.task_bytes(function, rank)?;
        invoke::invoke(&self.aws.clients, &self.function(function), event).await?;
        Ok(())
    }

    /// Removes what was made for this trial; what is still there, in words.
    async fn put_away(&self, made: &BTreeSet<Address>) -> Result<Vec<String>, PlatformError> {
        let mut journal = self.aws.journal.lock().await;
        let removed = remove(&self.aws.clients, &mut journal, made).await?;
        let left = removed.leftovers.iter();
        Ok(left
            .map(|(found, error)| format!("{} is still there: {error}", found.address))
            .collect())
    }
}

/// The logs of a trial, read over and over.
pub(super) struct Watch {
    reader: LogReader,
    groups: Vec<String>,
    since: Timestamp,
    deadline_s: u64,
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
    pub(super) async fn look(
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
            sleep(LOOK).await;
        };
        *trial.aws.spent() = self.spending.check(&seen)?;
        progress.steps(steps(&seen));
        Ok(outcome(&seen, self.known, self.reader.repeated(), failure))
    }
}
