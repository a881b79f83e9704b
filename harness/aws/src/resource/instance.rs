//! EC2 instances: hosts of Redis and the queue, and workers with a GPU. Each instance ends
//! itself at the run's expiry, whether or not the harness still runs.

use std::time::Duration;

use aws_sdk_ec2::types::{
    Filter, HttpTokensState, IamInstanceProfileSpecification, Instance,
    InstanceMetadataOptionsRequest, InstanceStateName, InstanceType, ResourceType,
    ShutdownBehavior,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::ec2::{found_by_tags, named, pages, tag_specification, tagged};
use super::retry::once_known;
use super::security_group::required;
use super::{Found, Holding, Kind, call, subnet};
use crate::error::if_there;
use crate::{AwsError, Clients, Scope};

/// Time limit of a termination.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Specification of an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceSpec {
    /// Name.
    pub name: String,
    /// Type, such as `g4dn.xlarge`.
    pub instance_type: String,
    /// Image: an id, or `resolve:ssm:` and a public parameter.
    pub image: String,
    /// Name of its instance profile.
    pub profile: String,
    /// Name of its security group.
    pub security_group: String,
    /// Name of its subnet, where its security group is in a run's own VPC.
    pub subnet: Option<String>,
    /// Number of zones that had no capacity for it.
    pub zones_tried: usize,
    /// Start script.
    pub user_data: String,
    /// Time at which the start script ends the instance: its trial's end, not the run's.
    pub expires: Timestamp,
}

/// Creates the instance if there is none of its name, and completes it; returns its id.
pub(super) async fn ensure(
    spec: &InstanceSpec,
    clients: &Clients,
    scope: &Scope,
) -> Result<String, AwsError> {
    let name = spec.name.as_str();
    let doing = format!("start the instance {name}");
    let scope = &Scope {
        expires: spec.expires,
        ..scope.clone()
    };
    if let Some(id) = running(name, clients).await? {
        return Ok(id);
    }
    let group = required(&spec.security_group, clients, &doing).await?;
    let subnet = match &spec.subnet {
        Some(subnet) => Some(subnet::required(subnet, clients, &doing).await?),
        None => None,
    };
    let profile = IamInstanceProfileSpecification::builder().name(&spec.profile);
    // IMDSv2: credentials of the role require a PUT first, which other sites' requests
    // cannot send.
    // One hop: no container of the instance gets them.
    let metadata = InstanceMetadataOptionsRequest::builder()
        .http_tokens(HttpTokensState::Required)
        .http_put_response_hop_limit(1);
    let run = clients
        .instances
        .run_instances()
        .min_count(1)
        .max_count(1)
        // A repeated call starts no second instance. In another zone it is another call.
        .client_token(match spec.zones_tried {
            0 => name.to_owned(),
            tried => format!("{tried}{name}"),
        })
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
    // A new profile is unknown to EC2 for some seconds.
    let started = once_known(|| async { call!(&doing, run.clone()) }).await?;
    let started = started.instances.unwrap_or_default();
    let instance = started.into_iter().next();
    if let Some(over) = instance.as_ref().filter(|instance| is_over(instance)) {
        // The name is the call's token: EC2 answers with the instance of the first call.
        return Err(AwsError::Unusable {
            problem: format!("the instance {name} has ended: {}", end_reason(over)),
            remedy: "a run cannot go on without it: start a new one".to_owned(),
        });
    }
    (instance.and_then(|instance| instance.instance_id)).ok_or(AwsError::Incomplete {
        doing,
        what: "the instance's id",
    })
}

/// Returns the reason why the instance of that name has ended or is ending, as EC2 states it; `None`
/// while it has not. One that is in no list may not be there yet: EC2's lists are behind by seconds.
///
/// # Errors
/// When EC2 refuses or cannot be reached.
pub async fn ended_by(clients: &Clients, name: &str) -> Result<Option<String>, AwsError> {
    let instances = every(clients, &[named(name)]).await?;
    let is_over = instances.iter().all(is_over);
    Ok(instances.last().filter(|_| is_over).map(end_reason))
}

fn is_over(instance: &Instance) -> bool {
    matches!(
        instance.state().and_then(|state| state.name()),
        Some(InstanceStateName::ShuttingDown | InstanceStateName::Terminated)
    )
}

/// Returns EC2's code and message of an instance's end.
fn end_reason(instance: &Instance) -> String {
    let reason = instance.state_reason();
    let parts = [
        reason.and_then(|reason| reason.code()),
        reason.and_then(|reason| reason.message()),
    ];
    let known: Vec<&str> = parts.into_iter().flatten().collect();
    match known.as_slice() {
        [] => "EC2 states no reason".to_owned(),
        // Messages begin with the code.
        [code, message] if message.starts_with(code) => (*message).to_owned(),
        known => known.join(": "),
    }
}

/// Returns the launch time of an instance, from which it is charged, in seconds since the
/// Unix epoch; `None` if no list has it. Ended instances are listed for an hour.
///
/// # Errors
/// When EC2 refuses or cannot be reached.
pub async fn launched_s(clients: &Clients, name: &str) -> Result<Option<f64>, AwsError> {
    let found = every(clients, &[named(name)]).await?;
    let launched = found.iter().find_map(Instance::launch_time);
    Ok(launched.map(aws_smithy_types::DateTime::as_secs_f64))
}

/// Returns the id of the instance of that name, unless it is being terminated.
async fn running(name: &str, clients: &Clients) -> Result<Option<String>, AwsError> {
    let found = all(clients, named(name)).await?;
    Ok(found.into_iter().find_map(|instance| instance.instance_id))
}

/// Returns instances that are charged, or may be charged again.
async fn all(clients: &Clients, filter: Filter) -> Result<Vec<Instance>, AwsError> {
    let alive = Filter::builder()
        .name("instance-state-name")
        .values(InstanceStateName::Pending.as_str())
        .values(InstanceStateName::Running.as_str())
        .values(InstanceStateName::Stopping.as_str())
        .values(InstanceStateName::Stopped.as_str())
        .build();
    every(clients, &[filter, alive]).await
}

/// Returns instances in any state.
async fn every(clients: &Clients, filters: &[Filter]) -> Result<Vec<Instance>, AwsError> {
    let listing = clients
        .instances
        .describe_instances()
        .set_filters(Some(filters.to_vec()));
    let reservations = pages!(listing, "list instances", reservations);
    let instances = reservations.into_iter().filter_map(|one| one.instances);
    Ok(instances.flatten().collect())
}

/// Lists our instances in the clients' region.
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

/// Asks for the end of instances; what is refused is left to [`remove`].
pub(super) async fn terminate(ids: Vec<String>, clients: &Clients) {
    let terminate = clients.instances.terminate_instances();
    let asked = terminate.set_instance_ids(Some(ids)).send().await;
    drop(asked);
}

/// Removes the instance, and waits until it is gone where others depend on that.
pub(super) async fn remove(found: &Found, clients: &Clients) -> Result<(), AwsError> {
    let id = found.id.as_str();
    let doing = format!("terminate the instance {id}");
    let terminate = clients.instances.terminate_instances().instance_ids(id);
    if if_there(call!(&doing, terminate))?.is_none() {
        return Ok(());
    }
    // Its security group cannot be removed before it is gone.
    let since = Instant::now();
    while !is_gone(id, clients).await? {
        if since.elapsed() > TIMEOUT {
            return Err(AwsError::Deadline {
                what: format!("the end of the instance {id}"),
                seconds: TIMEOUT.as_secs(),
                remedy: "`epochcost aws clean` again later: its termination was accepted"
                    .to_owned(),
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

#[cfg(test)]
mod tests {
    use aws_sdk_ec2::types::StateReason;

    use super::*;

    #[test]
    fn an_instance_ends_for_the_reason_that_ec2_states() {
        let of = |code: &str, message: &str| {
            let said = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let reason = StateReason::builder().set_code(said(code));
            let reason = reason.set_message(said(message)).build();
            end_reason(&Instance::builder().state_reason(reason).build())
        };
        let (code, whole) = ("Client.Limit", "Client.Limit: Volume limit exceeded");
        assert_eq!(of(code, whole), whole);
        assert_eq!(of(code, "too many"), "Client.Limit: too many");
        assert_eq!(of(code, ""), code);
        assert_eq!(of("", ""), "EC2 states no reason");
    }
}
