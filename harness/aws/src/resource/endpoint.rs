//! VPC endpoints, through which functions in a run's network reach AWS' services without
//! access to the internet.

use std::time::Duration;

use aws_sdk_ec2::types::{ResourceType, VpcEndpoint, VpcEndpointType};
use epochcost_aws_plan::EndpointService;

use super::ec2::{found_by_tags, named, pages, tag_specification, tagged};
use super::retry::{once_known, until};
use super::{Found, Holding, Kind, call, security_group, subnet, vpc};
use crate::error::{Cause, if_there};
use crate::{AwsError, Clients, Scope};

/// Time limit for the creation and the removal of an interface endpoint, which take
/// minutes.
const TIMEOUT: Duration = Duration::from_secs(900);

/// Specification of a VPC endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointSpec {
    /// Name.
    pub name: String,
    /// Name of its VPC.
    pub vpc: String,
    /// Name of the subnet of an interface endpoint.
    pub subnet: String,
    /// Name of the security group of an interface endpoint.
    pub security_group: String,
    /// Service.
    pub service: EndpointService,
}

/// Creates the VPC endpoint if there is none of its name, and completes it; returns its id.
pub(super) async fn ensure(
    spec: &EndpointSpec,
    clients: &Clients,
    scope: &Scope,
) -> Result<String, AwsError> {
    let name = spec.name.as_str();
    let doing = format!("create the VPC endpoint {name}");
    let id = match find(name, clients).await? {
        Some(endpoint) => endpoint.vpc_endpoint_id,
        None => create(spec, clients, scope, &doing).await?.vpc_endpoint_id,
    };
    let id = id.ok_or_else(|| AwsError::Incomplete {
        doing: doing.clone(),
        what: "the endpoint's id",
    })?;
    // Until it is available, the service's name resolves to public addresses.
    let what = format!("the VPC endpoint {name}");
    until(&what, TIMEOUT, || is_available(name, clients)).await?;
    Ok(id)
}

/// Creates the endpoint.
async fn create(
    spec: &EndpointSpec,
    clients: &Clients,
    scope: &Scope,
    doing: &str,
) -> Result<VpcEndpoint, AwsError> {
    let name = spec.name.as_str();
    let vpc = vpc::required(&spec.vpc, clients, doing).await?;
    let create = clients
        .instances
        .create_vpc_endpoint()
        // A repeated call creates no second endpoint.
        .client_token(name)
        .vpc_id(&vpc)
        .service_name(spec.service.name(&scope.region))
        .tag_specifications(tag_specification(ResourceType::VpcEndpoint, name, scope));
    let create = if spec.service.is_interface() {
        create
            .vpc_endpoint_type(VpcEndpointType::Interface)
            // The service's own name resolves to the endpoint.
            .private_dns_enabled(true)
            .subnet_ids(subnet::required(&spec.subnet, clients, doing).await?)
            .security_group_ids(
                security_group::required(&spec.security_group, clients, doing).await?,
            )
    } else {
        let table = vpc::main_route_table(&vpc, clients, doing).await?;
        create
            .vpc_endpoint_type(VpcEndpointType::Gateway)
            .route_table_ids(table)
    };
    let created = once_known(|| async { call!(doing, create.clone()) }).await?;
    created.vpc_endpoint.ok_or_else(|| AwsError::Incomplete {
        doing: doing.to_owned(),
        what: "the endpoint",
    })
}

/// Returns the state in lower case: EC2's spelling differs from its documentation.
fn state(endpoint: &VpcEndpoint) -> String {
    let state = endpoint.state().map_or("", |state| state.as_str());
    state.to_ascii_lowercase()
}

/// Returns the endpoint of that name that is not being deleted.
async fn find(name: &str, clients: &Clients) -> Result<Option<VpcEndpoint>, AwsError> {
    let listing = clients
        .instances
        .describe_vpc_endpoints()
        .filters(named(name));
    let listed = call!(format!("find the VPC endpoint {name}"), listing)?;
    let listed = listed.vpc_endpoints.unwrap_or_default();
    let mut alive = listed.into_iter();
    Ok(alive.find(|one| !matches!(state(one).as_str(), "deleting" | "deleted")))
}

/// Returns whether the endpoint is available.
///
/// # Errors
/// When it has failed for good.
async fn is_available(name: &str, clients: &Clients) -> Result<bool, AwsError> {
    let Some(endpoint) = find(name, clients).await? else {
        return Ok(false);
    };
    match state(&endpoint).as_str() {
        "available" => Ok(true),
        "failed" | "rejected" | "expired" => Err(AwsError::Unusable {
            problem: format!(
                "the VPC endpoint {name} is {}: {}",
                state(&endpoint),
                (endpoint.last_error())
                    .and_then(|error| error.message())
                    .unwrap_or("EC2 does not say why")
            ),
            remedy: "check whether the region's availability zones have the service".to_owned(),
        }),
        _ => Ok(false),
    }
}

/// Lists our VPC endpoints in the clients' region.
pub(super) async fn list(clients: &Clients) -> Result<Vec<Found>, AwsError> {
    let listing = clients.instances.describe_vpc_endpoints().filters(tagged());
    let endpoints = pages!(listing, "list VPC endpoints", vpc_endpoints);
    // An endpoint that is being deleted still blocks its subnet and its group.
    let there = endpoints.iter().filter(|one| state(one) != "deleted");
    let ours = there.filter_map(|endpoint| {
        let holding = match endpoint.vpc_endpoint_type() {
            Some(VpcEndpointType::Gateway) => Holding::Free,
            _ => Holding::Endpoint,
        };
        let id = endpoint.vpc_endpoint_id();
        let found = found_by_tags(Kind::Endpoint, id, endpoint.tags(), clients)?;
        Some(found.holding(holding))
    });
    Ok(ours.collect())
}

/// Removes the VPC endpoint, and waits until it is gone where others depend on that.
pub(super) async fn remove(found: &Found, clients: &Clients) -> Result<(), AwsError> {
    let id = found.id.as_str();
    let doing = format!("remove the VPC endpoint {}", found.address.name);
    let delete = clients
        .instances
        .delete_vpc_endpoints()
        .vpc_endpoint_ids(id);
    let Some(answer) = if_there(call!(&doing, delete))? else {
        return Ok(());
    };
    // The call succeeds even where an endpoint could not be removed.
    for refused in answer.unsuccessful.unwrap_or_default() {
        let Some(error) = refused.error else { continue };
        let code = error.code.unwrap_or_else(|| "unnamed error".to_owned());
        let message = error.message.unwrap_or_else(|| "no message".to_owned());
        let error = AwsError::refused(&doing, code, message);
        if error.cause() != Some(Cause::NotFound) {
            return Err(error);
        }
    }
    // Its network interface blocks its subnet and its group.
    let what = format!("the end of the VPC endpoint {id}");
    until(&what, TIMEOUT, || is_gone(id, clients)).await
}

/// Returns whether the endpoint is deleted.
async fn is_gone(id: &str, clients: &Clients) -> Result<bool, AwsError> {
    let describe = clients
        .instances
        .describe_vpc_endpoints()
        .vpc_endpoint_ids(id);
    let found = if_there(call!(format!("describe the VPC endpoint {id}"), describe))?;
    let found = found.and_then(|found| found.vpc_endpoints);
    let found = found.unwrap_or_default().into_iter().next();
    Ok(found.is_none_or(|endpoint| state(&endpoint) == "deleted"))
}
