//! VPCs: the network of a run. The account's default VPC is never used: an endpoint would
//! change routes of everything else in it.

use std::time::Duration;

use aws_sdk_ec2::types::{AttributeBooleanValue, Filter, ResourceType, Vpc, VpcState};

use super::ec2::{found_by_tags, named, needed, pages, tag_specification, tagged};
use super::retry::{once_known, once_listed, once_unused, until};
use super::{Found, Kind, call};
use crate::error::if_there;
use crate::{AwsError, Clients, Scope};

/// Addresses of a run's network (RFC 1918).
const ADDRESSES: &str = "10.0.0.0/16";
/// Time limit for creation and removal: a VPC exists within seconds, and can be removed
/// once its resources are gone.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Specification of a VPC.
#[derive(Clone, Debug, PartialEq)]
pub struct VpcSpec {
    /// Name.
    pub name: String,
}

/// Creates the VPC if there is none of its name, and completes it; returns its id.
pub(super) async fn ensure(
    spec: &VpcSpec,
    clients: &Clients,
    scope: &Scope,
) -> Result<String, AwsError> {
    let name = spec.name.as_str();
    let doing = format!("create the VPC {name}");
    let id = match id_of(name, clients).await? {
        Some(id) => id,
        None => {
            let create = clients
                .instances
                .create_vpc()
                .cidr_block(ADDRESSES)
                .tag_specifications(tag_specification(ResourceType::Vpc, name, scope));
            let created = call!(&doing, create)?.vpc;
            created
                .and_then(|vpc| vpc.vpc_id)
                .ok_or_else(|| AwsError::Incomplete {
                    doing: doing.clone(),
                    what: "the VPC's id",
                })?
        }
    };
    let what = format!("the VPC {name}");
    until(&what, TIMEOUT, || is_available(name, clients)).await?;
    // Names of endpoints resolve to them only with both attributes; a call takes one.
    let on = || AttributeBooleanValue::builder().value(true).build();
    let modify = || clients.instances.modify_vpc_attribute().vpc_id(&id);
    once_known(|| async { call!(&doing, modify().enable_dns_support(on())) }).await?;
    once_known(|| async { call!(&doing, modify().enable_dns_hostnames(on())) }).await?;
    Ok(id)
}

async fn find(name: &str, clients: &Clients) -> Result<Option<Vpc>, AwsError> {
    let listing = clients.instances.describe_vpcs().filters(named(name));
    let listed = call!(format!("find the VPC {name}"), listing)?;
    Ok(listed.vpcs.unwrap_or_default().into_iter().next())
}

async fn is_available(name: &str, clients: &Clients) -> Result<bool, AwsError> {
    let found = find(name, clients).await?;
    Ok(found.is_some_and(|vpc| vpc.state == Some(VpcState::Available)))
}

/// Returns the id of the VPC of that name, if there is one.
async fn id_of(name: &str, clients: &Clients) -> Result<Option<String>, AwsError> {
    Ok(find(name, clients).await?.and_then(|vpc| vpc.vpc_id))
}

/// Returns the id of the VPC of that name, which must exist.
pub(super) async fn required(
    name: &str,
    clients: &Clients,
    doing: &str,
) -> Result<String, AwsError> {
    let found = once_listed(|| id_of(name, clients)).await?;
    needed(found, doing, "its VPC")
}

/// Returns the number of all VPCs in the region.
pub(crate) async fn count(clients: &Clients) -> Result<usize, AwsError> {
    let mut pages = clients.instances.describe_vpcs().into_paginator().send();
    let mut count = 0;
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| AwsError::of("list VPCs", error))?;
        count += page.vpcs().len();
    }
    Ok(count)
}

/// Returns the id of a VPC's main route table: that of subnets without their own.
pub(super) async fn main_route_table(
    vpc: &str,
    clients: &Clients,
    doing: &str,
) -> Result<String, AwsError> {
    let filter = |name: &str, value: &str| Filter::builder().name(name).values(value).build();
    let listing = clients
        .instances
        .describe_route_tables()
        .filters(filter("vpc-id", vpc))
        .filters(filter("association.main", "true"));
    let listed = call!(doing, listing)?.route_tables.unwrap_or_default();
    let table = listed.into_iter().next();
    (table.and_then(|table| table.route_table_id)).ok_or_else(|| AwsError::Incomplete {
        doing: doing.to_owned(),
        what: "the VPC's main route table",
    })
}

/// Lists our VPCs in the clients' region.
pub(super) async fn list(clients: &Clients) -> Result<Vec<Found>, AwsError> {
    let listing = clients.instances.describe_vpcs().filters(tagged());
    let vpcs = pages!(listing, "list VPCs", vpcs);
    let ours = |vpc: &Vpc| found_by_tags(Kind::Vpc, vpc.vpc_id(), vpc.tags(), clients);
    Ok(vpcs.iter().filter_map(ours).collect())
}

/// Removes the VPC with its main route table and its default security group.
pub(super) async fn remove(found: &Found, clients: &Clients) -> Result<(), AwsError> {
    let doing = format!("remove the VPC {}", found.address.name);
    let delete = || async {
        let delete = clients.instances.delete_vpc().vpc_id(&found.id);
        if_there(call!(&doing, delete))
    };
    once_unused(TIMEOUT, delete).await.map(drop)
}
