//! Subnets: a run has one, with all of its hosts and functions.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_ec2::types::{AttributeBooleanValue, Filter, LocationType, ResourceType, Subnet};

use super::ec2::{found_by_tags, named, needed, pages, tag_specification, tagged};
use super::retry::{INTERFACE_TIMEOUT, once_known, once_unused};
use super::{Found, Kind, call, vpc};
use crate::error::{Cause, if_there};
use crate::{AwsError, Clients, Scope};

/// Addresses of the subnet, some 4,000. Functions share network interfaces (one for each
/// pair of subnet and security group, and more for many connections), so that a thousand
/// workers need fewer than a thousand.
const ADDRESSES: &str = "10.0.0.0/20";

/// Specification of a subnet whose instances get public addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct SubnetSpec {
    /// Name.
    pub name: String,
    /// Name of its VPC.
    pub vpc: String,
    /// Instance types that its availability zone must offer.
    pub instance_types: Vec<String>,
}

/// Creates the subnet if there is none of its name, and completes it; returns its id.
pub(super) async fn ensure(
    spec: &SubnetSpec,
    clients: &Clients,
    scope: &Scope,
) -> Result<String, AwsError> {
    let name = spec.name.as_str();
    let doing = format!("create the subnet {name}");
    let id = match id_of(name, clients).await? {
        Some(id) => id,
        None => create(spec, clients, scope, &doing).await?,
    };
    let modify = || async {
        let modify = clients.instances.modify_subnet_attribute().subnet_id(&id);
        let on = AttributeBooleanValue::builder().value(true).build();
        call!(&doing, modify.map_public_ip_on_launch(on))
    };
    once_known(modify).await?;
    Ok(id)
}

async fn create(
    spec: &SubnetSpec,
    clients: &Clients,
    scope: &Scope,
    doing: &str,
) -> Result<String, AwsError> {
    let name = spec.name.as_str();
    let vpc = vpc::required(&spec.vpc, clients, doing).await?;
    let zone = zone(&spec.instance_types, clients).await?;
    let create = || async {
        let create = clients
            .instances
            .create_subnet()
            .vpc_id(&vpc)
            .cidr_block(ADDRESSES)
            .availability_zone(&zone)
            .tag_specifications(tag_specification(ResourceType::Subnet, name, scope));
        call!(doing, create)
    };
    let incomplete = || AwsError::Incomplete {
        doing: doing.to_owned(),
        what: "the subnet's id",
    };
    match once_known(create).await {
        Ok(created) => created.subnet.and_then(|subnet| subnet.subnet_id),
        // A process that died created the subnet; the journal has no id of it.
        Err(error) if error.cause() == Some(Cause::Exists) => id_of(name, clients).await?,
        Err(error) => return Err(error),
    }
    .ok_or_else(incomplete)
}

/// Returns the first availability zone that offers all instance types.
async fn zone(instance_types: &[String], clients: &Clients) -> Result<String, AwsError> {
    let wanted: BTreeSet<&str> = instance_types.iter().map(String::as_str).collect();
    let types = Filter::builder()
        .name("instance-type")
        .set_values(Some(instance_types.to_vec()));
    let listing = clients
        .instances
        .describe_instance_type_offerings()
        .location_type(LocationType::AvailabilityZone)
        .filters(types.build());
    // Instance types that each zone offers.
    let mut pages = listing.into_paginator().send();
    let mut offered: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    while let Some(page) = pages.next().await {
        let doing = "list availability zones with the run's types of instances";
        let page = page.map_err(|error| AwsError::of(doing, error))?;
        for offering in page.instance_type_offerings.unwrap_or_default() {
            let (Some(zone), Some(kind)) = (offering.location, offering.instance_type) else {
                continue;
            };
            if wanted.contains(kind.as_str()) {
                let kinds = offered.entry(zone).or_default();
                kinds.insert(kind.as_str().to_owned());
            }
        }
    }
    // The first zone with all of them.
    let with_all = offered
        .into_iter()
        .find(|(_, kinds)| kinds.len() == wanted.len());
    with_all
        .map(|(zone, _)| zone)
        .ok_or_else(|| AwsError::Unusable {
            problem: format!(
                "no availability zone of {} has all of {}",
                clients.region(),
                wanted.into_iter().collect::<Vec<_>>().join(", ")
            ),
            remedy: "use another region, or rows on fewer types of instances".to_owned(),
        })
}

/// Returns the id of the subnet of that name, if there is one.
pub(super) async fn id_of(name: &str, clients: &Clients) -> Result<Option<String>, AwsError> {
    let listing = clients.instances.describe_subnets().filters(named(name));
    let listed = call!(format!("find the subnet {name}"), listing)?;
    let subnet = listed.subnets.unwrap_or_default().into_iter().next();
    Ok(subnet.and_then(|subnet| subnet.subnet_id))
}

/// Returns the id of the subnet of that name, which must exist.
pub(super) async fn required(
    name: &str,
    clients: &Clients,
    doing: &str,
) -> Result<String, AwsError> {
    needed(id_of(name, clients).await?, doing, "its subnet")
}

/// Lists our subnets in the clients' region.
pub(super) async fn list(clients: &Clients) -> Result<Vec<Found>, AwsError> {
    let listing = clients.instances.describe_subnets().filters(tagged());
    let subnets = pages!(listing, "list subnets", subnets);
    let ours =
        |subnet: &Subnet| found_by_tags(Kind::Subnet, subnet.subnet_id(), subnet.tags(), clients);
    Ok(subnets.iter().filter_map(ours).collect())
}

/// Removes the subnet, and waits until it is gone where others depend on that.
pub(super) async fn remove(found: &Found, clients: &Clients) -> Result<(), AwsError> {
    let doing = format!("remove the subnet {}", found.address.name);
    let delete = || async {
        let delete = clients.instances.delete_subnet().subnet_id(&found.id);
        if_there(call!(&doing, delete))
    };
    once_unused(INTERFACE_TIMEOUT, delete).await.map(drop)
}
