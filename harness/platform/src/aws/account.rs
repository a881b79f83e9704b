//! The account: what it allows, what runs left there, what rows would cost at
//! most, and today's prices.

use async_trait::async_trait;
use epochcost_aws::deployment::Training;
use epochcost_aws::doctor::{Needs, check};
use epochcost_aws::package;
use epochcost_aws::planned::planned;
use epochcost_aws::pricing::{PriceError, fetch_as_configured, queries};
use epochcost_aws::resource::Found;
use epochcost_aws::{
    Clients, RunFilter, RunId, Scope, caller_policy, monthly_usd, remove_all, survey,
};
use epochcost_spec::chain::chain;
use epochcost_spec::cost::{Price, PriceBook};
use epochcost_spec::ui::Output;
use epochcost_systems::Device;
use jiff::Timestamp;

use super::prices::Book;
use super::unusable;
use crate::aws_plan::{bound, training};
use crate::local::worker::{self, Description, Worker};
use crate::{
    Cloud, Estimates, Finding, Leftover, NoWorstCase, PlannedResource, PlatformError,
    RefreshedPrices, Removal, Resource, RowUsage, Survey, SurveyFilter, WorstCase,
};

/// Requirements of the largest comparison (Barrak et al. 2025, Table 2): four peers
/// with 24 mini-batches each at a time, or four workers with a GPU.
const NEEDS: Needs = Needs {
    concurrency: 96,
    gpu_vcpus: 16,
    standard_vcpus: 10,
};

/// Returns what the account allows, for the rows of `estimates` or else for [`NEEDS`].
///
/// # Errors
/// When no region is configured, or a row's settings are invalid for its system.
pub(super) async fn doctor(estimates: Option<&Estimates>) -> Result<Vec<Finding>, PlatformError> {
    let needs = match estimates {
        None => NEEDS,
        Some(estimates) => {
            let rows: Vec<Training> = estimates.rows.iter().map(training).collect();
            Needs::of(&rows).map_err(unusable)?
        }
    };
    let mut programs = Vec::new();
    if let Some(estimates) = estimates {
        programs = workers(&estimates.rows).await;
    }
    let clients = Clients::load(None).await?;
    let checks = check(&clients, needs).await;
    let findings = checks.into_iter().map(|check| match check.found {
        Ok(found) => Finding::there(check.what, found),
        Err(found) => Finding::lacking(check.what, found, check.remedy),
    });
    Ok(findings.chain(programs).collect())
}

/// Returns whether the workers that rows need are there and fit: one for functions and CPUs, and where a
/// row computes on GPUs, one with CUDA.
async fn workers(rows: &[RowUsage]) -> Vec<Finding> {
    let needs_gpus = rows.iter().any(|row| row.row.job.device == Device::Cuda);
    let own = worker::find_and_describe().await.map(Some);
    let mut findings = vec![of_worker("worker", &own)];
    if needs_gpus {
        let named = worker::for_rented_gpus().await;
        let for_gpus = match &named {
            Ok(None) => own,
            _ => named,
        };
        let what = "worker for GPUs";
        findings.push(match &for_gpus {
            Ok(Some((_, about))) if !about.built_with_cuda => Finding::lacking(
                what,
                "it was built without CUDA",
                "build one with it (docs/cuda.md), and name it in EPOCHCOST_CUDA_WORKER",
            ),
            found => of_worker(what, found),
        });
    }
    findings
}

/// Returns whether a worker is there, and starts on AWS.
fn of_worker(what: &str, found: &Result<Option<(Worker, Description)>, PlatformError>) -> Finding {
    let remedy = "`just package-aws` builds one that starts on Amazon Linux 2023; name it in EPOCHCOST_WORKER";
    let read = match found {
        Ok(Some((worker, _))) => std::fs::read(worker.program()).map_err(|error| error.to_string()),
        Ok(None) => Err("there is none".to_owned()),
        Err(error) => Err(chain(error)),
    };
    let checked = read.and_then(|binary| {
        let checked = package::check(&binary, true);
        checked.map_err(|error| error.to_string())
    });
    match (checked, found) {
        (Ok(binary), Ok(Some((worker, _)))) => {
            let mb = binary.bytes / 1_000_000;
            Finding::there(what, format!("{}, {mb} MB", worker.path.display()))
        }
        (Ok(_), _) => Finding::lacking(what, "there is none", remedy),
        (Err(problem), _) => Finding::lacking(what, problem, remedy),
    }
}

/// Returns a resource that was found, with what it costs per month.
pub(super) fn resource(found: &Found, prices: Option<&PriceBook>) -> Resource {
    Resource {
        kind: found.address.kind.to_string(),
        name: found.address.name.clone(),
        region: found.region.clone(),
        run: found.run.to_string(),
        expires: found.expires.map(|expires| expires.to_string()),
        usd_per_month: prices.and_then(|prices| monthly_usd(&found.holding, &Book(prices)).ok()),
    }
}

/// The account that the environment names.
pub(super) struct AwsCloud;

#[async_trait]
impl Cloud for AwsCloud {
    fn worst_case(&self, rows: &[RowUsage], prices: &PriceBook) -> Result<WorstCase, NoWorstCase> {
        let trainings: Vec<Training> = rows.iter().map(training).collect();
        // No account is needed: names are shown with a run's digits all 0.
        let scope = Scope {
            run: RunId::new(0),
            partition: "aws".to_owned(),
            account: "000000000000".to_owned(),
            region: prices.region().to_owned(),
            expires: Timestamp::UNIX_EPOCH,
        };
        let resources =
            planned(&scope, &trainings).map_err(|error| NoWorstCase(error.to_string()))?;
        let resources = resources.into_iter().map(|planned| PlannedResource {
            kind: wire_name(&planned.kind),
            title: planned.kind.to_string(),
            name: planned.name,
            count: planned.count,
            detail: planned.detail,
            row: planned.row,
        });
        Ok(WorstCase {
            region: scope.region,
            resources: resources.collect(),
            lines: bound(rows, prices)?,
        })
    }

    fn caller_policy(&self) -> serde_json::Value {
        caller_policy("aws")
    }

    async fn survey(
        &self,
        filter: &SurveyFilter,
        prices: &PriceBook,
        output: Output,
    ) -> Result<Box<dyn Survey>, PlatformError> {
        let whose = whose(filter)?;
        let clients = Clients::load(filter.regions.first().map(String::as_str)).await?;
        let regions = match filter.regions.as_slice() {
            [] => clients.regions().await?,
            named => named.to_vec(),
        };
        let account = clients.identity().await?.account;
        output.message(format_args!(
            "looking for resources of epochcost in account {account}, {} regions",
            regions.len()
        ));
        let found = survey(&clients, &regions, &whose).await?;
        Ok(Box::new(InAccount {
            resources: (found.iter())
                .map(|found| resource(found, Some(prices)))
                .collect(),
            found,
            clients,
            prices: prices.clone(),
        }))
    }

    async fn prices(
        &self,
        region: &str,
        known: &PriceBook,
    ) -> Result<RefreshedPrices, PlatformError> {
        let instance_types: Vec<&str> = (known.prices().iter())
            .filter_map(|price| price.dimension.strip_prefix("ec2/"))
            .collect();
        let queries = queries(&instance_types);
        let answers = fetch_as_configured(region, &queries).await?;
        let mut refreshed = RefreshedPrices::default();
        for (query, answer) in queries.into_iter().zip(answers) {
            match answer {
                Ok(price) => refreshed.prices.push(Price {
                    dimension: price.dimension,
                    unit: price.unit,
                    usd: price.usd,
                    about: price.about,
                    source: price.source,
                }),
                Err(error @ PriceError::NotOffered { .. }) => {
                    refreshed.missing.push(error.to_string());
                }
                Err(error) => {
                    let uncertain = (query.dimension, error.to_string());
                    refreshed.uncertain.push(uncertain);
                }
            }
        }
        Ok(refreshed)
    }
}

/// Returns a kind of resource as machines read it.
fn wire_name(kind: &epochcost_aws::resource::Kind) -> String {
    match serde_json::to_value(kind) {
        Ok(serde_json::Value::String(name)) => name,
        _ => kind.to_string(),
    }
}

fn whose(filter: &SurveyFilter) -> Result<RunFilter, PlatformError> {
    match &filter.run {
        Some(run) => run.parse().map(RunFilter::Run).map_err(|problem: String| {
            PlatformError::usage(
                problem,
                "`epochcost aws clean --dry-run` lists the runs that left something",
            )
        }),
        None if filter.expired => Ok(RunFilter::ExpiredAt(Timestamp::now())),
        None => Ok(RunFilter::AllRuns),
    }
}

/// Resources of the account.
struct InAccount {
    clients: Clients,
    prices: PriceBook,
    found: Vec<Found>,
    resources: Vec<Resource>,
}

#[async_trait]
impl Survey for InAccount {
    fn resources(&self) -> &[Resource] {
        &self.resources
    }

    async fn remove(self: Box<Self>) -> Removal {
        let Self {
            clients,
            prices,
            found,
            ..
        } = *self;
        let removed = remove_all(found, &clients).await;
        let resource = |found: &Found| resource(found, Some(&prices));
        Removal {
            removed: removed.removed.iter().map(resource).collect(),
            leftovers: (removed.leftovers.iter())
                .map(|(found, error)| Leftover {
                    resource: resource(found),
                    refusal: Some(error.to_string()),
                })
                .collect(),
        }
    }
}
