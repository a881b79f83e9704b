//! One trial on AWS: its data, its services, its functions, its work, and their
//! removal.

use std::collections::BTreeSet;

use epochcost_aws::deployment::{self, Package};
use epochcost_aws::invoke;
use epochcost_aws::resource::{Address, Kind, Spec};
use epochcost_aws::{AwsError, Cause, objects, provision, remove, workers};
use epochcost_aws_plan::AROUND_TRIAL_S;
use epochcost_environment::worker as variable;
use epochcost_spec::metering::TrialOutcome;
use epochcost_spec::rows::{Precision, TrialPlan};
use epochcost_systems::{DATASET_BUCKET, Host, Launch, dataset_objects};
use jiff::Timestamp;

use super::context::Trial;
use super::progress::{Start, WorkerProgress};
use super::services::{self, Services, store_settings};
use super::{Aws, executions, instances, machine, metrics, unusable};
use crate::{PlatformError, Progress, TrialData, locked};

/// Runs one trial; removes what was made for it, even after an error.
pub(super) async fn run(
    aws: &Aws,
    plan: &TrialPlan,
    data: &TrialData,
    progress: &dyn Progress,
) -> Result<TrialOutcome, PlatformError> {
    let trial = Trial::of(aws, plan)?;
    let at_most = &aws.budget.at_most.trials[trial.place.row];
    let at_most_usd = at_most.values().sum();
    aws.budget.limit.admits(*aws.spent(), at_most_usd)?;
    (aws.journal.lock().await).reserves(&trial.scope(), at_most_usd)?;
    let (began, mut made) = (Timestamp::now(), BTreeSet::new());
    let work = async {
        trial.make(data, &mut made, progress).await?;
        trial.work(progress).await
    };
    let outcome = tokio::select! {
        outcome = work => outcome,
        ended = aws.lease.ended() => Err(ended.into()),
    };
    let outcome = match outcome {
        Err(PlatformError::Cloud(error))
            if (error.downcast_ref::<AwsError>()).is_some_and(AwsError::is_the_trials) =>
        {
            Ok(TrialOutcome {
                failure: Some(error.to_string()),
                ..TrialOutcome::default()
            })
        }
        outcome => outcome,
    };
    let left = trial.tear_down(&made).await;
    if trial.spending()?.rented(0, began).is_some() {
        progress.rented(match &left {
            Ok(left) if left.is_empty() => "its instances are gone",
            _ => "not everything that it rented is gone: `epochcost aws clean --dry-run` lists it",
        });
    }
    let usd = match (&outcome, &left) {
        (Ok(outcome), Ok(left)) if outcome.failure.is_none() && left.is_empty() => {
            let usd = trial.spending()?.settled_usd(at_most, outcome);
            (aws.journal.lock().await).spent(&trial.scope(), usd)?;
            usd
        }
        // What a trial that failed still costs is not known.
        _ => at_most_usd,
    };
    *aws.spent() += usd;
    let mut outcome = outcome?;
    // Metrics outlive their resources, so the resources, which cost, are removed first.
    metrics::cross_check(&trial, began, &mut outcome).await?;
    outcome.warnings.extend(left?);
    Ok(outcome)
}

/// Returns whether an availability zone has no instance of the type.
fn is_capacity(error: &PlatformError) -> bool {
    let PlatformError::Cloud(error) = error else {
        return false;
    };
    let error = error.downcast_ref::<AwsError>();
    error.and_then(AwsError::cause) == Some(Cause::Capacity)
}

impl Trial<'_> {
    /// Returns the functions and instances, which use `services`.
    fn specs(&self, services: &Services) -> Result<Vec<Spec>, PlatformError> {
        let scope = &self.aws.scope;
        let mut environment = self.row.sandbox.environment.clone();
        let objects = deployment::objects_bucket(scope);
        environment.insert(
            variable::OBJECTS.to_owned(),
            format!("s3://{}/{objects}", scope.region),
        );
        environment.insert(variable::SCOPE.to_owned(), self.scope());
        environment.extend(services.environment());
        if !self.row.faults.is_empty() {
            let faults = serde_json::to_string(&self.row.faults);
            let faults = faults.map_err(PlatformError::unwritable("faults"))?;
            environment.insert(variable::FAULTS.to_owned(), faults);
        }
        if self.row.cpu_fallback {
            environment.insert(variable::CPU_FALLBACK.to_owned(), "1".to_owned());
        }
        if self.row.precision != Precision::default() {
            let precision = self.row.precision.name();
            environment.insert(variable::PRECISION.to_owned(), precision.to_owned());
        }
        // `deployment::of_trial` sets this variable of the functions.
        let names = deployment::names(scope, &self.training, self.place).map_err(unusable)?;
        let names = (variable::DEPLOYMENT.to_owned(), names);
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
        progress: &dyn Progress,
    ) -> Result<(), PlatformError> {
        let ends = deployment::ends(&self.aws.scope, &self.training, self.place);
        self.aws.lease.begins(ends.map_err(unusable)?).await?;
        let scope = &self.aws.scope;
        let end = scope.ends_by(&self.training, AROUND_TRIAL_S, Timestamp::now());
        let end = end.map_err(unusable)?;
        if let Some(rented) = self.spending()?.rented(self.aws.endpoints, end) {
            progress.rented(&rented);
        }
        if self.training.one_machine {
            machine::put(self, data).await?;
        } else {
            self.put_dataset(data).await?;
        }
        let settings = store_settings(self.row);
        let hosts =
            epochcost_aws::services::of_trial(scope, &self.training, self.place, &settings)?;
        let services = if hosts.is_empty() {
            Services::default()
        } else {
            self.provision(&hosts, made).await?;
            services::wait(self).await?
        };
        if !self.training.one_machine {
            instances::put_tasks(self).await?;
        }
        self.provision_somewhere(self.specs(&services)?, made).await
    }

    /// Puts the dataset where the workers fetch it.
    async fn put_dataset(&self, data: &TrialData) -> Result<(), PlatformError> {
        let bound = self.system.bind(self.job()).map_err(unusable)?;
        let dataset = dataset_objects(self.job(), bound.data_layout(), &data.train, &data.test);
        let bucket = deployment::objects_bucket(&self.aws.scope);
        for (key, object) in dataset.map_err(unusable)? {
            let key = format!("{}/{DATASET_BUCKET}/{key}", self.scope());
            objects::put(&self.aws.clients, &bucket, &key, object).await?;
        }
        Ok(())
    }

    /// Makes `specs`, with its instances in another availability zone where one has no capacity
    /// for them.
    async fn provision_somewhere(
        &self,
        mut specs: Vec<Spec>,
        made: &mut BTreeSet<Address>,
    ) -> Result<(), PlatformError> {
        let mut refused = match self.provision(&specs, made).await {
            Err(error) if is_capacity(&error) => error,
            other => return other,
        };
        let scope = &self.aws.scope;
        if deployment::subnet(scope, &self.aws.rows)
            .map_err(unusable)?
            .is_none()
        {
            // In the default network EC2 chooses the zone itself.
            return Err(refused);
        }
        for tried in 1..deployment::ZONES {
            let further = deployment::further_subnet(scope, &self.training, tried);
            let Some(further) = further.map_err(unusable)? else {
                break;
            };
            let name = further.name.clone();
            // The subnet is the run's, for later trials, too.
            let (subnet, mut of_run) = ([Spec::Subnet(further)], BTreeSet::new());
            if self.provision(&subnet, &mut of_run).await.is_err() {
                break;
            }
            for spec in &mut specs {
                if let Spec::Instance(instance) = spec {
                    instance.subnet = Some(name.clone());
                    instance.zones_tried = tried;
                }
            }
            refused = match self.provision(&specs, made).await {
                Err(error) if is_capacity(&error) => error,
                other => return other,
            };
        }
        Err(refused)
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
        locked(&self.instances).extend(instances.map(|(made, id)| (made.name, id)));
        Ok(())
    }

    /// Starts the work and follows it to its end.
    async fn work(&self, progress: &dyn Progress) -> Result<TrialOutcome, PlatformError> {
        if self.training.one_machine {
            return machine::work(self, progress).await;
        }
        if self.system.deployment().worker_host() == Host::Instance {
            return instances::work(self, progress).await;
        }
        let mut tail = self.log_tail()?;
        let launch = self.system.bind(self.job()).map_err(unusable)?.launch();
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
        tail.known = starts.len();
        let mut reached = tail.follow(self, &starts, progress).await?;
        let mut transitions = 0;
        if is_workflow && reached == WorkerProgress::Ended {
            (reached, transitions) = executions::follow(self, &mut tail, progress).await?;
        }
        let failure = match reached {
            WorkerProgress::Ended => None,
            WorkerProgress::Failed(reason) => Some(reason),
            WorkerProgress::Running(who) => Some(format!(
                "the trial did not end within {} s ({who} did not end)",
                tail.deadline_s
            )),
        };
        let mut outcome = tail.complete(self, failure, progress).await?;
        outcome.transitions = transitions;
        Ok(outcome)
    }

    async fn invoke(&self, function: &str, rank: usize) -> Result<(), PlatformError> {
        let event = self.task_bytes(function, rank)?;
        invoke::invoke(&self.aws.clients, &self.function(function), event).await?;
        Ok(())
    }

    /// Removes what was made for this trial; returns a warning for each resource that
    /// is still there.
    async fn tear_down(&self, made: &BTreeSet<Address>) -> Result<Vec<String>, PlatformError> {
        let mut journal = self.aws.journal.lock().await;
        let removed = remove(&self.aws.clients, &mut journal, made).await?;
        let left = removed.leftovers.iter();
        Ok(left
            .map(|(found, error)| format!("{} is still there: {error}", found.address))
            .collect())
    }
}
