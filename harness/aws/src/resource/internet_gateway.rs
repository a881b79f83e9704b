//! Internet gateways, through which instances in a run's network install packages.
//! Functions in the network have no public address and cannot use them.

use std::time::Duration;

use aws_sdk_ec2::types::{InternetGateway, ResourceType};

use super::ec2::{found_by_tags, named, pages, tag_specification, tagged};
use super::retry::{once_known, once_unused};
use super::{Found, Kind, call, vpc};
use crate::error::{Cause, if_there, unless};
use crate::{AwsError, Clients, Scope};

/// Destination of the route: all addresses.
const ANYWHERE: &str = "0.0.0.0/0";
/// Time limit of the removal: public addresses of terminated instances block it for a
/// while.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Specification of an internet gateway with the route to it.
#[derive(Clone, Debug, PartialEq)]
pub struct InternetGatewaySpec {
    /// Name.
    pub name: String,
    /// Name of its VPC.
    pub vpc: String,
}

/// Creates the internet gateway if there is none of its name, and completes it; returns its id.
pub(super) async fn ensure(
    spec: &InternetGatewaySpec,
    clients: &Clients,
    scope: &Scope,
) -> Result<String, AwsError> {
    let name = spec.name.as_str();
    let doing = format!("create the internet gateway {name}");
    let ec2 = &clients.instances;
    let vpc = vpc::required(&spec.vpc, clients, &doing).await?;
    // The gateway, attached to the VPC.
    let gateway = match find(name, clients).await? {
        Some(gateway) => gateway,
        None => {
            let create = ec2
                .create_internet_gateway()
                .tag_specifications(tag_specification(
                    ResourceType::InternetGateway,
                    name,
                    scope,
                ));
            let created = call!(&doing, create)?.internet_gateway;
            created.ok_or_else(|| incomplete(&doing))?
        }
    };
    let id = gateway.internet_gateway_id().map(str::to_owned);
    let id = id.ok_or_else(|| incomplete(&doing))?;
    let is_attached = (gateway.attachments().iter()).any(|to| to.vpc_id() == Some(&vpc));
    if !is_attached {
        let attach = || async {
            let attach = ec2.attach_internet_gateway().internet_gateway_id(&id);
            call!(&doing, attach.vpc_id(&vpc)).map(drop)
        };
        unless(once_known(attach).await, Cause::Exists)?;
    }
    // The route to it.
    let table = vpc::main_route_table(&vpc, clients, &doing).await?;
    let route = || async {
        let route = ec2.create_route().route_table_id(&table);
        let route = route.destination_cidr_block(ANYWHERE).gateway_id(&id);
        call!(&doing, route).map(drop)
    };
    unless(once_known(route).await, Cause::Exists)?;
    Ok(id)
}

fn incomplete(doing: &str) -> AwsError {
    AwsError::Incomplete {
        doing: doing.to_owned(),
        what: "the gateway's id",
    }
}

async fn find(name: &str, clients: &Clients) -> Result<Option<InternetGateway>, AwsError> {
    let listing = clients
        .instances
        .describe_internet_gateways()
        .filters(named(name));
    let listed = call!(format!("find the internet gateway {name}"), listing)?;
    Ok(listed
        .internet_gateways
        .unwrap_or_default()
        .into_iter()
        .next())
}

/// Lists our internet gateways in the clients' region.
pub(super) async fn list(clients: &Clients) -> Result<Vec<Found>, AwsError> {
    let listing = clients
        .instances
        .describe_internet_gateways()
        .filters(tagged());
    let gateways = pages!(listing, "list internet gateways", internet_gateways);
    let ours = |gateway: &InternetGateway| {
        let id = gateway.internet_gateway_id();
        found_by_tags(Kind::InternetGateway, id, gateway.tags(), clients)
    };
    Ok(gateways.iter().filter_map(ours).collect())
}

/// Removes the internet gateway, and waits until it is gone where others depend on that.
pub(super) async fn remove(found: &Found, clients: &Clients) -> Result<(), AwsError> {
    let id = found.id.as_str();
    let doing = format!("remove the internet gateway {}", found.address.name);
    let ec2 = &clients.instances;
    let describe = ec2.describe_internet_gateways().internet_gateway_ids(id);
    let Some(gateways) = if_there(call!(&doing, describe))? else {
        return Ok(());
    };
    let gateways = gateways.internet_gateways.unwrap_or_default();
    let attachments = gateways.iter().flat_map(InternetGateway::attachments);
    for vpc in attachments.filter_map(|to| to.vpc_id()) {
        let detach = || async {
            let detach = ec2.detach_internet_gateway().internet_gateway_id(id);
            if_there(call!(&doing, detach.vpc_id(vpc)))
        };
        once_unused(TIMEOUT, detach).await?;
    }
    let delete = || async {
        let delete = ec2.delete_internet_gateway().internet_gateway_id(id);
        if_there(call!(&doing, delete))
    };
    once_unused(TIMEOUT, delete).await.map(drop)
}
