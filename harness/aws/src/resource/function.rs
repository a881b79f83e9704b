//! Lambda functions on `provided.al2023`.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_lambda::types as lambda;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::retry::{once_known, once_unused};
use super::{Found, Kind, call, security_group, subnet};
use crate::error::{Cause, if_there, unless};
use crate::run::{OwnerTags, RunId};
use crate::{AwsError, Clients, Scope};

/// Time limit until a function without a VPC is unpacked.
const UNPACK_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit until a function in a VPC has its network interface.
const INTERFACE_TIMEOUT: Duration = Duration::from_secs(600);
/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Seconds within which an asynchronous invocation starts, or never does.
const EVENT_AGE_S: i32 = 300;

/// Processor architecture of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// x86-64.
    X86_64,
    /// arm64.
    Arm64,
}

/// Network of a function in a VPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionNetwork {
    /// Name of its subnet.
    pub subnet: String,
    /// Name of its security group.
    pub security_group: String,
}

/// Specification of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionSpec {
    /// Name.
    pub name: String,
    /// Name of its role.
    pub role: String,
    /// Memory size, MB.
    pub memory_mb: u32,
    /// Time limit of an invocation, seconds; at most 900.
    pub timeout_s: u32,
    /// Size of `/tmp`, MB; from 512 to 10,240.
    pub storage_mb: u32,
    /// Processor architecture.
    pub architecture: Architecture,
    /// Bucket of the package.
    pub code_bucket: String,
    /// Key of the package.
    pub code_key: String,
    /// Environment variables; never secrets, since every user who may read the
    /// configuration sees them.
    pub environment: BTreeMap<String, String>,
    /// The run's own network; `None` for Lambda's default, which reaches the internet and
    /// no instance.
    pub network: Option<FunctionNetwork>,
}

/// Creates the function if there is none of its name, and completes it; returns its id.
pub(super) async fn ensure(
    spec: &FunctionSpec,
    clients: &Clients,
    scope: &Scope,
) -> Result<String, AwsError> {
    let name = spec.name.as_str();
    let doing = format!("create the function {name}");
    let network = match &spec.network {
        Some(network) => Some(placed(network, clients, &doing).await?),
        None => None,
    };
    let create = create(spec, clients, scope).set_vpc_config(network);
    unless(call!(&doing, create).map(drop), Cause::Exists)?;
    let timeout = match spec.network {
        Some(_) => INTERFACE_TIMEOUT,
        None => UNPACK_TIMEOUT,
    };
    active(name, clients, timeout).await?;
    // By default, Lambda would repeat a failed asynchronous invocation twice, and start a
    // throttled one up to six hours later.
    let once = clients
        .functions
        .put_function_event_invoke_config()
        .function_name(name)
        .maximum_retry_attempts(0)
        .maximum_event_age_in_seconds(EVENT_AGE_S);
    let doing = format!("keep Lambda from repeating {name}");
    once_known(|| async { call!(&doing, once.clone()) }).await?;
    Ok(scope.arn("lambda", &format!("function:{name}")))
}

/// Returns the network in Lambda's form.
async fn placed(
    network: &FunctionNetwork,
    clients: &Clients,
    doing: &str,
) -> Result<lambda::VpcConfig, AwsError> {
    let subnet = subnet::required(&network.subnet, clients, doing).await?;
    let group = security_group::required(&network.security_group, clients, doing).await?;
    Ok(lambda::VpcConfig::builder()
        .subnet_ids(subnet)
        .security_group_ids(group)
        .build())
}

/// Waits until the function can be invoked: Lambda has unpacked its package and attached
/// its network interface.
async fn active(name: &str, clients: &Clients, timeout: Duration) -> Result<(), AwsError> {
    let doing = format!("describe the function {name}");
    let since = Instant::now();
    loop {
        let describe = clients
            .functions
            .get_function_configuration()
            .function_name(name);
        let found = once_known(|| async { call!(&doing, describe.clone()) }).await?;
        match found.state() {
            // Without a reported state there is nothing to wait for.
            None | Some(lambda::State::Active | lambda::State::Inactive) => return Ok(()),
            Some(lambda::State::Failed) => {
                return Err(AwsError::Unusable {
                    problem: format!(
                        "the function {name} cannot be started: {}",
                        found.state_reason().unwrap_or("Lambda does not say why")
                    ),
                    remedy: "check its package and its role".to_owned(),
                });
            }
            Some(_) if since.elapsed() < timeout => sleep(POLL_INTERVAL / 4).await,
            Some(_) => {
                return Err(AwsError::Deadline {
                    what: format!("the unpacking of the function {name}"),
                    seconds: timeout.as_secs(),
                    remedy: "run it again later".to_owned(),
                });
            }
        }
    }
}

/// Returns the request that creates the function.
fn create(
    spec: &FunctionSpec,
    clients: &Clients,
    scope: &Scope,
) -> aws_sdk_lambda::operation::create_function::builders::CreateFunctionFluentBuilder {
    let code = lambda::FunctionCode::builder()
        .s3_bucket(&spec.code_bucket)
        .s3_key(&spec.code_key)
        .build();
    // The smallest size is the default.
    let storage = (spec.storage_mb > 512)
        .then(|| i32::try_from(spec.storage_mb).unwrap_or(i32::MAX))
        .and_then(|mb| lambda::EphemeralStorage::builder().size(mb).build().ok());
    let environment = lambda::Environment::builder()
        .set_variables(Some(spec.environment.clone().into_iter().collect()))
        .build();
    clients
        .functions
        .create_function()
        .function_name(&spec.name)
        .role(scope.role_arn(&spec.role))
        .runtime(lambda::Runtime::Providedal2023)
        .handler("bootstrap")
        .architectures(match spec.architecture {
            Architecture::X86_64 => lambda::Architecture::X8664,
            Architecture::Arm64 => lambda::Architecture::Arm64,
        })
        .memory_size(i32::try_from(spec.memory_mb).unwrap_or(i32::MAX))
        .timeout(i32::try_from(spec.timeout_s).unwrap_or(i32::MAX))
        .code(code)
        .set_ephemeral_storage(storage)
        .environment(environment)
        // The platform's lines are read as text, whatever an account's default is.
        .logging_config(
            lambda::LoggingConfig::builder()
                .log_format(lambda::LogFormat::Text)
                .build(),
        )
        .set_tags(Some(scope.tags().into_iter().collect()))
}

/// Lists our functions in the clients' region.
pub(super) async fn list(clients: &Clients) -> Result<Vec<Found>, AwsError> {
    let mut pages = clients.functions.list_functions().into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| AwsError::of("list functions", error))?;
        for function in page.functions.unwrap_or_default() {
            let (Some(name), Some(arn)) = (function.function_name(), function.function_arn())
            else {
                continue;
            };
            // Reading tags of other projects' functions may not be allowed.
            if RunId::of_name(name).is_none() {
                continue;
            }
            let doing = format!("read the tags of the function {name}");
            let tags = call!(&doing, clients.functions.list_tags().resource(arn));
            let tags = if_there(tags)?
                .and_then(|tags| tags.tags)
                .unwrap_or_default();
            let owner_tags = OwnerTags::of(tags.iter().map(|(k, v)| (k.as_str(), v.as_str())));
            found.extend(Found::of(
                Kind::Function,
                name,
                arn,
                clients.region(),
                owner_tags,
            ));
        }
    }
    Ok(found)
}

/// Removes the function, and waits until it is gone where others depend on that.
pub(super) async fn remove(found: &Found, clients: &Clients) -> Result<(), AwsError> {
    let name = found.address.name.as_str();
    let delete = clients.functions.delete_function().function_name(name);
    let doing = format!("remove the function {name}");
    // While it is created or changed, Lambda does not remove it.
    let delete = || async { call!(&doing, delete.clone()).map(drop) };
    unless(
        once_unused(INTERFACE_TIMEOUT, delete).await,
        Cause::NotFound,
    )
}
