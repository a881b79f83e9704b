//! Trials on AWS: everything made for a run or a trial is in the journal
//! before it is made, and removed when the run or the trial is over.

mod account;
mod context;
mod executions;
mod instances;
mod lease;
mod life_cycle;
mod log;
mod machine;
mod metrics;
mod outcome;
mod prices;
mod progress;
mod services;
mod spending;
mod teardown;
mod trial;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use epochcost_aws::deployment::{self, Package, Training};
use epochcost_aws::resource::{Architecture, Kind, ObjectSpec};
use epochcost_aws::services::MODULE_KEY;
use epochcost_aws::{
    Approval, AwsError, Cause, Clients, Consent, Journal, RunId, Scope, SpendingLimit, package,
    provision, workers,
};
use epochcost_spec::exit::Exit;
use epochcost_systems::{Device, SystemError};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use self::lease::Lease;
use self::spending::{Rented, Spending};
use super::{CloudError, PlatformError, locked};
use crate::aws_plan::{Share, Shares};

pub use life_cycle::AwsFactory;
use spending::RunningPrices;
use teardown::{AwsLeftover, spent_usd, tear_down_runs};

/// Prefix of the names of a run directory's journals; the run's id follows.
const JOURNAL_PREFIX: &str = "aws-journal-";

/// Spending limit of a run, the way to ask for consent, and prices.
#[derive(Clone, Debug)]
struct Budget {
    /// Spending limit (`--max-usd`).
    limit: SpendingLimit,
    /// Directory of the runs that the limit is for; the run's own, if none.
    spent_in: Option<PathBuf>,
    /// The worst case of what all trials share, and of one trial of each row.
    at_most: Shares,
    /// Whether and how to ask.
    consent: Consent,
    /// Prices of what runs.
    prices: RunningPrices,
    /// Region that the prices are of.
    region: String,
}

impl Budget {
    /// Returns the most that the least which can be started costs, US dollars: what all trials
    /// share, and the cheapest of them.
    fn least_usd(&self) -> f64 {
        let usd = |share: &Share| share.values().sum::<f64>();
        let trials = self.at_most.trials.iter().map(usd);
        usd(&self.at_most.run) + trials.min_by(f64::total_cmp).unwrap_or_default()
    }
}

/// A run that the user agreed to, of which nothing exists yet.
struct ConsentedRun {
    clients: Clients,
    scope: Scope,
    approval: Approval,
    rows: Vec<Training>,
    programs: Programs,
    budget: Budget,
}

/// Programs that are uploaded, as they were checked: a file that is replaced meanwhile changes
/// nothing.
struct Programs {
    /// The worker.
    worker: Vec<u8>,
    /// The worker for GPUs, where it is another one.
    cuda_worker: Option<Vec<u8>>,
    /// The processor that it was built for.
    architecture: Architecture,
    /// The tensor store's Redis module, where a row needs it.
    module: Option<Vec<u8>>,
    /// This program, where an instance runs the local platform.
    own: Option<Vec<u8>>,
}

impl Programs {
    /// Reads `worker` and `module`, and refuses what would not start on AWS, before anyone is
    /// asked for money.
    ///
    /// # Errors
    /// [`PlatformError::Worker`] with the remedy; [`PlatformError::Io`].
    async fn read(
        rows: &[Training],
        (worker, cuda_worker): (&Path, Option<&Path>),
        module: Option<&Path>,
    ) -> Result<Self, PlatformError> {
        let worker = read("the worker", worker).await?;
        let checked = package::check(&worker, has_instances(rows)?).map_err(unfit)?;
        let cuda_worker = match cuda_worker {
            Some(path) if rows.iter().any(on_gpus) => {
                let worker = read("the worker for GPUs", path).await?;
                package::check(&worker, true).map_err(unfit)?;
                Some(worker)
            }
            _ => None,
        };
        let module = match module {
            None => None,
            Some(module) => Some(read("the Redis module", module).await?),
        };
        if let Some(module) = &module {
            package::check_library(module).map_err(unfit)?;
        }
        let mut own = None;
        if rows.iter().any(|row| row.one_machine) {
            let program = own_program()?;
            let program = read("this program", &program).await?;
            package::check_library(&program).map_err(unfit)?;
            own = Some(program);
        }
        Ok(Self {
            worker,
            cuda_worker,
            architecture: checked.architecture,
            module,
            own,
        })
    }
}

/// Returns the program that an instance runs the local platform with: this one, or what `EPOCHCOST_PROGRAM`
/// names.
fn own_program() -> Result<PathBuf, PlatformError> {
    if let Some(named) = std::env::var_os(epochcost_environment::user::PROGRAM) {
        return Ok(named.into());
    }
    std::env::current_exe().map_err(PlatformError::io("find this program"))
}

fn unfit(error: package::PackageError) -> PlatformError {
    PlatformError::Worker(error.to_string())
}

impl ConsentedRun {
    /// Asks for consent to `rows`.
    ///
    /// # Errors
    /// Without usable credentials, over the limit, or without consent.
    async fn ask(
        rows: Vec<Training>,
        programs: Programs,
        budget: &Budget,
        answer: impl FnOnce() -> Option<String>,
    ) -> Result<Self, PlatformError> {
        let clients = Clients::load(None).await?;
        if clients.region() != budget.region {
            return Err(PlatformError::usage(
                format!(
                    "the run is in {}, and the prices are those of {}",
                    clients.region(),
                    budget.region
                ),
                "write the region's with `epochcost aws prices refresh --region REGION --out FILE` and give \
                 `--prices FILE`, or set AWS_REGION",
            ));
        }
        let run = RunId::new(Uuid::new_v4().as_u64_pair().1);
        let scope = clients.scope(run, expiry(&rows)?).await?;
        let addresses = deployment::addresses(&scope, &rows).map_err(unusable)?;
        // What was spent before is known where the run is.
        budget.limit.admits(0.0, budget.least_usd())?;
        let approval = Approval::ask(addresses, budget.consent, answer)?;
        Ok(Self {
            clients,
            scope,
            approval,
            rows,
            programs,
            budget: budget.clone(),
        })
    }

    /// Makes what all trials share, with a journal in `directory`.
    ///
    /// # Errors
    /// When something could not be made. What was made is in the journal, for
    /// [`tear_down_runs`].
    async fn begin(self, directory: &Path) -> Result<Aws, PlatformError> {
        let Self {
            clients,
            scope,
            approval,
            rows,
            programs,
            budget,
        } = self;
        let package = package::archive(&programs.worker).map_err(unfit)?;
        let before_usd = spent_usd(budget.spent_in.as_deref().unwrap_or(directory))?;
        budget.limit.admits(before_usd, budget.least_usd())?;
        let path = directory.join(format!("{JOURNAL_PREFIX}{}.jsonl", scope.run));
        let mut journal = Journal::begin(&path, scope.clone())?;
        let shared_usd = budget.at_most.run.values().sum();
        journal.reserves("run", shared_usd)?;
        let mut code = vec![ObjectSpec {
            key: PACKAGE_KEY.to_owned(),
            body: package.into(),
        }];
        if has_instances(&rows)? {
            let worker = Bytes::from(programs.worker);
            if rows.iter().any(on_gpus) {
                let for_gpus = programs.cuda_worker.map(Bytes::from);
                code.push(ObjectSpec {
                    key: workers::CUDA_WORKER_KEY.to_owned(),
                    body: for_gpus.unwrap_or_else(|| worker.clone()),
                });
            }
            code.push(ObjectSpec {
                key: workers::WORKER_KEY.to_owned(),
                body: worker,
            });
        }
        if let Some(own) = programs.own {
            code.push(ObjectSpec {
                key: workers::PROGRAM_KEY.to_owned(),
                body: own.into(),
            });
        }
        if let Some(module) = programs.module {
            code.push(ObjectSpec {
                key: MODULE_KEY.to_owned(),
                body: module.into(),
            });
        }
        let specs = deployment::shared(&scope, &rows, code).map_err(unusable)?;
        let made = provision(&specs, &clients, &mut journal, &approval).await?;
        let endpoints = made.iter().filter(|(made, _)| made.kind == Kind::Endpoint);
        let endpoints = endpoints.count();
        let switches = (made.into_iter()).filter(|(made, _)| made.kind == Kind::Switch);
        let armed = switches.map(|(_, execution)| execution).collect();
        let lease = Arc::new(Lease::new(clients.clone(), scope.clone(), armed));
        Ok(Aws {
            _renewing: AbortOnDropHandle::new(tokio::spawn(lease.clone().keep())),
            lease,
            endpoints,
            clients,
            scope,
            approval,
            rows,
            package: Package {
                architecture: programs.architecture,
                key: PACKAGE_KEY.to_owned(),
                storage_mb: 0,
                environment: Default::default(),
            },
            journal: Mutex::new(journal),
            budget,
            spent_usd: std::sync::Mutex::new(before_usd + shared_usd),
        })
    }
}

/// Returns whether workers of a row compute on GPUs.
fn on_gpus(row: &Training) -> bool {
    row.job.device == Device::Cuda
}

/// Returns whether workers of any row run on instances.
fn has_instances(rows: &[Training]) -> Result<bool, PlatformError> {
    let counts: Result<Vec<u64>, SystemError> = rows.iter().map(Training::instances).collect();
    Ok(counts.map_err(unusable)?.iter().any(|count| *count > 0))
}

async fn read(what: &str, path: &Path) -> Result<Vec<u8>, PlatformError> {
    let read = tokio::fs::read(path).await;
    read.map_err(PlatformError::io(format!("read {what} {}", path.display())))
}

/// The package's key in the bucket of programs.
const PACKAGE_KEY: &str = "worker.zip";

/// An account and a region, with what all trials of a run share.
struct Aws {
    clients: Clients,
    scope: Scope,
    approval: Approval,
    rows: Vec<Training>,
    /// Package of the functions, without any trial's settings.
    package: Package,
    journal: Mutex<Journal>,
    budget: Budget,
    lease: Arc<Lease>,
    _renewing: AbortOnDropHandle<()>,
    /// Number of interface endpoints, which all trials share.
    endpoints: usize,
    /// What was spent or reserved but for the trial that runs, under the same limit, US dollars.
    spent_usd: std::sync::Mutex<f64>,
}

impl Aws {
    /// Returns the price of an instance type, US dollars per hour; infinite where it has
    /// none.
    fn instance_hour_usd(&self, instance_type: &str) -> f64 {
        let hour_usd = self.budget.prices.instance_hour_usd.get(instance_type);
        hour_usd.copied().unwrap_or(f64::INFINITY)
    }

    /// Returns the spending monitor of a trial with functions of `memory_mb` and the
    /// instances `rented`.
    fn spending(&self, memory_mb: u32, rented: Vec<Rented>) -> Spending {
        Spending {
            prices: self.budget.prices.clone(),
            limit_usd: self.budget.limit.0,
            memory_mb,
            rented,
            before_usd: *self.spent(),
        }
    }

    fn spent(&self) -> std::sync::MutexGuard<'_, f64> {
        locked(&self.spent_usd)
    }
}

/// Returns when everything of the run expires: after all trials at their deadlines.
fn expiry(rows: &[Training]) -> Result<Timestamp, PlatformError> {
    let seconds = deployment::lasts_s(rows).map_err(unusable)?;
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let expires = Timestamp::now().checked_add(SignedDuration::from_secs(seconds));
    expires.map_err(|error| {
        let reason = format!("its deadline is out of reach: {error}");
        PlatformError::service("the run", reason)
    })
}

fn unusable(error: SystemError) -> PlatformError {
    PlatformError::service("the deployment", error)
}

impl From<AwsError> for PlatformError {
    fn from(error: AwsError) -> Self {
        Self::Cloud(CloudError::new(exit(&error), error))
    }
}

/// Returns the exit code of an error. What the account lacks is the platform's
/// lack; a failing service is not a usage error.
fn exit(error: &AwsError) -> Exit {
    match (error, error.cause()) {
        (AwsError::SpendingLimit { .. } | AwsError::Spent { .. }, _) => Exit::SpendingLimit,
        (AwsError::NotApproved { .. } | AwsError::Unusable { .. }, _)
        | (_, Some(Cause::Settings)) => Exit::Usage,
        (
            _,
            Some(
                Cause::NoCredentials
                | Cause::Expired
                | Cause::Unrecognised
                | Cause::Permission
                | Cause::Quota
                | Cause::Account
                | Cause::Capacity
                | Cause::Unreachable,
            ),
        )
        | (AwsError::LeaseEnded { .. }, _) => Exit::Lacks,
        _ => Exit::Internal,
    }
}
