//! EC2 instances: Redis and queue hosts, and workers with a GPU. Each ends
//! itself at the run's expiry, whether or not the harness is still there.

use std::time::Duration;

use aws_sdk_ec2::types::{
    Filter, HttpTokensState, IamInstanceProfileSpecification, Instance,
    InstanceMetadataOptionsRequest, InstanceStateName, InstanceType, ResourceType,
    ShutdownBehavior,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::time::{Instant, sleep};

use super::ec2::{found_by_tags, named, pages, tag_specification, tagged};
use super::retry::once_known;
use super::security_group::required;
use super::{Found, Holding, Kind, call, subnet};
use crate::error::if_there;
use crate::{AwsError, Clients, Scope};

/// How long a termination may take.
const TIMEOUT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// An instance.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceSpec {
    /// Its name.
    pub name: String,
    /// Its type, such as `g4dn.xlarge`.
    pub instance_type: String,
    /// Its image: an id, or `resolve:ssm:` and a public parameter.
    pub image: String,
    /// The name of its instance profile.
    pub profile: String,
    /// The name of its security group.
    pub security_group: String,
    /// The name of its subnet, where its security group is in a run's own VPC.
    pub subnet: Option<String>,
    /// What it runs when it starts.
    pub user_data: String,
}

pub(super) async fn ensure(
    spec: &InstanceSpec,
    clients: &Clients,
    scope: &Scope,
) -> Result<String, AwsError> {
    let name = spec.name.as_str();
    let doing = format!("start the instance {name}");
    if let Some(id) = running(name, clients).await? {
        return Ok(id);
    }
    let group = required(&spec.security_group, clients, &doing).await?;
    let subnet = match &spec.subnet {
        Some(subnet) => Some(subnet::required(subnet, clients, &doing).await?),
        None => None,
    };
    let profile = IamInstanceProfileSpecification::builder().name(&spec.profile);
    // Credentials of the role only to who can answer a PUT first.
    let metadata = InstanceMetadataOptionsRequest::builder().http_tokens(HttpTokensState::Required);
    let run = clients
        .instances
        .run_instances()
        .min_count(1)
        .max_count(1)
        // A call that is sent again starts no second instance.
        .client_token(name)
        .image_id(&spec.image)
        .instance_type(InstanceType::from(spec.instance_type.as_str()))
        .iam_instance_profile(profile.build())
        .security_group_ids(group)
        .set_subnet_id(subnet)
        .metadata_options(metadata.build())
        .instance_initiated_shutdown_behavior(ShutdownBehavior::Terminate)
        .user_data(STANDARD.encode(&spec.user_data))
        .tag_specifications(tag_specification(ResourceType::Instance, name, scope))
        .tag_specifications(tag_specification(ResourceType::Volume, name, scope));
    // A profile that was just made is unknown for some seconds.
    let started = once_known(|| async { call!(&doing, run.clone()) }).await?;
    let started = started.instances.unwrap_or_default();
    let instance = started.into_iter().next();
    let state = instance
        .as_ref()
        .and_then(|instance| instance.state()?.name());
    if let Some(InstanceStateName::ShuttingDown | InstanceStateName::Terminated) = state {
        // The name is the token of the call: EC2 answers with what it started then.
        return Err(AwsError::Unusable {
            problem: format!("the instance {name} has ended"),
            remedy: "a run cannot go on without it: start a new one".to_owned(),
        });
    }
    (instance.and_then(|instance| instance.instance_id)).ok_or(AwsError::Incomplete {
        doing,
        what: "the instance's id",
    })
}

/// Whether there is an instance of that name that is not on its way out.
///
/// # Errors
/// When EC2 cannot be asked.
pub async fn is_alive(clients: &Clients, name: &str) -> Result<bool, AwsError> {
    Ok(running(name, clients).await?.is_some())
}

/// When an instance was launched, from which on it is charged for: seconds since
/// the Unix epoch. Nothing of one that is on its way out.
///
/// # Errors
/// When EC2 cannot be asked.
pub async fn launched_s(clients: &Clients, name: &str) -> Result<Option<f64>, AwsError> {
    let found = all(clients, named(name)).await?;
    let launched = found.iter().find_map(Instance::launch_time);
    Ok(launched.map(aws_smithy_types::DateTime::as_secs_f64))
}

/// The id of the instance of that name, if it is not on its way out.
async fn running(name: &str, clients: &Clients) -> Result<Option<String>, AwsError> {
    let found = all(clients, named(name)).await?;
    Ok(found.into_iter().find_map(|instance| instance.instance_id))
}

/// Instances that are charged for or may be again.
async fn all(clients: &Clients, filter: Filter) -> Result<Vec<Instance>, AwsError> {
    let alive = Filter::builder()
        .name("instance-state-name")
        .values(InstanceStateName::Pending.as_str())
        .values(InstanceStateName::Running.as_str())
        .values(InstanceStateName::Stopping.as_str())
        .values(InstanceStateName::Stopped.as_str())
        .build();
    let listing = clients
        .instances
        .describe_instances()
        .filters(filter)
        .filters(alive);
    let reservations = pages!(listing, "list instances", reservations);
    let instances = reservations.into_iter().filter_map(|one| one.instances);
    Ok(instances.flatten().collect())
}

pub(super) async fn list(clients: &Clients) -> Result<Vec<Found>, AwsError> {
    let instances = all(clients, tagged()).await?;
    let ours = instances.iter().filter_map(|instance| {
        let kind = instance
            .instance_type()
            .map_or("unknown", InstanceType::as_str);
        let id = instance.instance_id();
        let found = found_by_tags(Kind::Instance, id, instance.tags(), clients)?;
        Some(found.holding(Holding::Instance(kind.to_owned())))
    });
    Ok(ours.collect())
}

pub(super) async fn remove(found: &Found, clients: &Clients) -> Result<(), AwsError> {
    let id = found.id.as_str();
    let doing = format!("terminate the instance {id}");
    let terminate = clients.instances.terminate_instances().instance_ids(id);
    if if_there(call!(&doing, terminate))?.is_none() {
        return Ok(());
    }
    // Its security group cannot go before it has.
    let since = Instant::now();
    while !is_gone(id, clients).await? {
        if since.elapsed() > TIMEOUT {
            return Err(AwsError::Deadline {
                what: format!("the end of the instance {id}"),
                seconds: TIMEOUT.as_secs(),
                remedy: "`epochcost clean` again later: its termination was accepted".to_owned(),
            });
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

async fn is_gone(id: &str, clients: &Clients) -> Result<bool, AwsError> {
    let describe = clients.instances.describe_instances().instance_ids(id);
    let Some(found) = if_there(call!(format!("describe the instance {id}"), describe))? else {
        return Ok(true);
    };
    let mut instances = found
        .reservations()
        .iter()
        .flat_map(|found| found.instances());
    let state = instances
        .next()
        .and_then(|instance| instance.state()?.name().cloned());
    Ok(state.is_none_or(|state| state == InstanceStateName::Terminated))
}
