//! An experiment on AWS, from consent to the removal of all that it created.

use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal, stdin};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use epochcost_aws::deployment::{SERVICE_INSTANCE, Training};
use epochcost_aws::{Consent, SpendingLimit};
use epochcost_aws_plan::Prices;
use epochcost_spec::metering::TrialOutcome;
use epochcost_spec::rows::{Row, TrialPlan};
use epochcost_spec::ui::{Output, eprint_line};
use epochcost_systems::Device;

use super::account::{self, AwsCloud};
use super::prices::Book;
use super::{Aws, Budget, ConsentedRun, Programs, RunningPrices, tear_down_runs};
use crate::aws_plan::{NAME, bounds, training};
use crate::local;
use crate::local::worker::{self, Worker};
use crate::{
    Cloud, Estimates, Factory, Finding, Leftover, Platform, PlatformError, PlatformOptions,
    Prepared, Progress, Site, SpendingConsent, TrialData,
};

/// AWS.
#[derive(Clone, Copy, Debug)]
pub struct AwsFactory;

impl Factory for AwsFactory {
    fn name(&self) -> &'static str {
        NAME
    }

    fn site(&self) -> Site {
        Site::Cloud("AWS")
    }

    fn cloud(&self) -> Result<Option<&dyn Cloud>, PlatformError> {
        Ok(Some(&AwsCloud))
    }

    fn open(&self, options: PlatformOptions) -> Result<Box<dyn Platform>, PlatformError> {
        Ok(Box::new(OnAws {
            options,
            worker: None,
            stage: Stage::Open,
        }))
    }
}

/// AWS, for one experiment.
struct OnAws {
    options: PlatformOptions,
    /// Kept, so that the path that it was read by stays that of the file that was checked.
    worker: Option<Worker>,
    stage: Stage,
}

/// Stage of an experiment's life cycle.
enum Stage {
    /// The user was not asked yet.
    Open,
    /// The user agreed; nothing exists yet.
    Consented(Box<ConsentedRun>),
    /// The resources that all trials share exist.
    Begun(Box<Aws>),
}

impl OnAws {
    fn lacks(&self, what: &str, remedy: &str) -> PlatformError {
        PlatformError::lacking(format!("{}: {what}", self.options.file.display()), remedy)
    }

    fn estimates(&self) -> Result<&Estimates, PlatformError> {
        (self.options.estimates.as_ref()).ok_or(PlatformError::NotPrepared(NAME))
    }

    /// Asks for consent.
    async fn agree(
        &self,
        plans: &[TrialPlan],
        workers: (&Path, Option<&Path>),
        consent: &SpendingConsent,
        output: Output,
    ) -> Result<ConsentedRun, PlatformError> {
        let Estimates { rows, prices } = self.estimates()?;
        let trainings: Vec<Training> = rows.iter().map(training).collect();
        let at_most =
            bounds(rows, prices).map_err(|error| self.lacks(&error.to_string(), OTHER_PRICES))?;
        let mode = match (consent.yes, stdin().is_terminal()) {
            (true, _) => Consent::Given,
            (false, true) => Consent::Ask,
            (false, false) => Consent::Impossible,
        };
        let module = self.needed_module(plans, &trainings, output)?;
        let budget = Budget {
            limit: SpendingLimit(consent.max_usd),
            spent_in: consent.spent_in.clone(),
            at_most,
            consent: mode,
            prices: self.running_prices(&trainings)?,
            region: prices.region().to_owned(),
        };
        let answer = || {
            eprint_line(format_args!("run on AWS and pay for it? Type yes:"));
            let mut answer = String::new();
            stdin().lock().read_line(&mut answer).ok().map(|_| answer)
        };
        let programs = Programs::read(&trainings, workers, module.as_deref()).await?;
        ConsentedRun::ask(trainings, programs, &budget, answer).await
    }

    /// Returns the prices from which spending is computed. Instance types without a
    /// price are left out.
    fn running_prices(&self, trainings: &[Training]) -> Result<RunningPrices, PlatformError> {
        let book = Book(&self.estimates()?.prices);
        let price = |dimension: &str| {
            let price = book.price(dimension).map(|(usd, _)| usd);
            price.map_err(|error| self.lacks(&error, "use another price book"))
        };
        let mut hours = BTreeMap::new();
        let kinds = trainings.iter().map(|row| row.instance_type.as_str());
        for kind in kinds.chain([SERVICE_INSTANCE]) {
            if let Ok(usd) = price(&format!("ec2/{kind}")) {
                hours.insert(kind.to_owned(), usd);
            }
        }
        Ok(RunningPrices {
            gb_second_usd: price("lambda_gb_second")?,
            request_usd: price("lambda_request")?,
            object_usd: BTreeMap::from([
                ("s3_list".to_owned(), price("s3_list")?),
                ("s3_get".to_owned(), price("s3_get")?),
            ]),
            instance_hour_usd: hours,
        })
    }

    /// Returns the Redis module, found or built, where a row computes in its
    /// tensor stores.
    fn needed_module(
        &self,
        plans: &[TrialPlan],
        trainings: &[Training],
        output: Output,
    ) -> Result<Option<PathBuf>, PlatformError> {
        let mut rows = trainings.iter().zip(plans);
        if !rows.any(|(training, plan)| training.uses_tensor_store && plan.row.needs_module()) {
            return Ok(None);
        }
        output.message(format_args!(
            "looking for the Redis module; building it takes a minute"
        ));
        Ok(Some(local::redis_module()?))
    }
}

/// Remedy where something has no price.
const OTHER_PRICES: &str = "the price book lacks it; `epochcost aws prices refresh` writes another";

/// Returns why a row does not run: it would rent GPUs and compute on their hosts' CPUs, at the
/// price of GPUs.
fn without_cuda(row: &Row, has_cuda: bool) -> Option<String> {
    (row.job.device == Device::Cuda && !has_cuda).then(|| {
        "its device is a GPU, and the worker was built without CUDA: build one with it (docs/cuda.md) \
         and name it in EPOCHCOST_CUDA_WORKER, or compute on CPUs with `--set 'device={kind: cpu}'`"
            .to_owned()
    })
}

#[async_trait]
impl Platform for OnAws {
    fn refuse(&self, rows: &[Row]) -> Result<(), PlatformError> {
        if self.estimates()?.rows.len() < rows.len() {
            return Err(self.lacks(
                "some of its rows are impossible on Lambda",
                "`epochcost plan` names them and their limits",
            ));
        }
        for row in rows {
            if row.sandbox.network.is_some() {
                let what = format!("{} shapes the network, and AWS has its own", row.id);
                return Err(self.lacks(&what, "leave `network` out"));
            }
        }
        Ok(())
    }

    async fn prepare(
        &mut self,
        plans: &[TrialPlan],
        consent: &SpendingConsent,
        output: Output,
    ) -> Result<Prepared, PlatformError> {
        let (worker, description) = worker::find_and_describe().await?;
        let for_gpus = worker::for_rented_gpus().await?;
        let has_cuda = for_gpus
            .as_ref()
            .map_or(description.built_with_cuda, |(_, on_gpus)| {
                on_gpus.built_with_cuda
            });
        let for_gpus = for_gpus.as_ref().map(|(worker, _)| worker.program());
        let workers = (worker.program(), for_gpus);
        let consented = self.agree(plans, workers, consent, output).await?;
        let program = worker.program().to_owned();
        let rehearsed = consented.clients.is_rehearsal();
        self.worker = Some(worker);
        self.stage = Stage::Consented(Box::new(consented));
        Ok(Prepared {
            worker: Some(program),
            rehearsed,
            infeasible: (plans.iter())
                .map(|plan| without_cuda(&plan.row, has_cuda))
                .collect(),
            ..Prepared::default()
        })
    }

    async fn begin(&mut self, directory: &Path) -> Result<(), PlatformError> {
        let Stage::Consented(consented) = std::mem::replace(&mut self.stage, Stage::Open) else {
            return Err(PlatformError::NotPrepared(NAME));
        };
        self.stage = Stage::Begun(Box::new(consented.begin(directory).await?));
        Ok(())
    }

    async fn run_trial(
        &self,
        plan: &TrialPlan,
        data: &TrialData,
        progress: &dyn Progress,
    ) -> Result<TrialOutcome, PlatformError> {
        let Stage::Begun(aws) = &self.stage else {
            return Err(PlatformError::NotPrepared(NAME));
        };
        super::trial::run(aws, plan, data, progress).await
    }

    async fn tear_down(
        &self,
        directory: &Path,
        output: Output,
    ) -> Result<Vec<Leftover>, PlatformError> {
        let report = |text: &str| output.message(format_args!("{text}"));
        let leftovers = tear_down_runs(directory, &report).await?;
        let prices = self.options.estimates.as_ref().map(|known| &known.prices);
        let leftover = |left: super::AwsLeftover| Leftover {
            resource: account::resource(&left.found, prices),
            refusal: left.refusal.map(|error| error.to_string()),
        };
        Ok(leftovers.into_iter().map(leftover).collect())
    }

    async fn doctor(&self) -> Result<Vec<Finding>, PlatformError> {
        account::doctor(self.options.estimates.as_ref()).await
    }
}
