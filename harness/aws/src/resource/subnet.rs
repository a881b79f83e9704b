//! Subnets: a run has one with all of its hosts and functions, and more in other zones where the
//! first one's has no capacity for workers.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_ec2::types::{AttributeBooleanValue, Filter, LocationType, ResourceType, Subnet};

use super::ec2::{found_by_tags, named, needed, pages, tag_specification, tagged};
use super::retry::{once_known, once_listed, once_unheld};
use super::{EndpointService, Found, Kind, call, vpc};
use crate::error::{Cause, if_there};
use crate::{AwsError, Clients, Scope};

/// Specification of a subnet whose instances get public addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct SubnetSpec {
    /// Name.
    pub name: String,
    /// Name of its VPC.
    pub vpc: String,
    /// Addresses, such as `10.0.0.0/20`.
    pub addresses: String,
    /// Instance types that its availability zone must offer.
    pub instance_types: Vec<String>,
    /// Services whose interface endpoints its availability zone must have.
    pub services: Vec<EndpointService>,
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
    let zone = zone(spec, &vpc, clients).await?;
    let create = || async {
        let create = clients
            .instances
            .create_subnet()
            .vpc_id(&vpc)
            .cidr_block(&spec.addresses)
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

/// Returns the first availability zone that offers all instance types, has the services and no
/// subnet of the VPC.
async fn zone(spec: &SubnetSpec, vpc: &str, clients: &Clients) -> Result<String, AwsError> {
    let instance_types = &spec.instance_types;
    let wanted: BTreeSet<&str> = instance_types.iter().map(String::as_str).collect();
    let taken = taken(vpc, clients).await?;
    let with_services = with_services(&spec.services, clients).await?;
    let types = Filter::builder()
        .name("instance-type")
        .set_values(Some(instance_types.clone()));
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
        .filter(|(zone, _)| !taken.contains(zone))
        .filter(|(zone, _)| with_services.as_ref().is_none_or(|has| has.contains(zone)))
        .find(|(_, kinds)| kinds.len() == wanted.len());
    with_all
        .map(|(zone, _)| zone)
        .ok_or_else(|| AwsError::Unusable {
            problem: format!(
                "no {}availability zone of {} has all of {}",
                if taken.is_empty() { "" } else { "further " },
                clients.region(),
                wanted.into_iter().collect::<Vec<_>>().join(", ")
            ),
            remedy: "use another region, or rows on fewer types of instances".to_owned(),
        })
}

/// Returns the availability zones of a VPC's subnets.
async fn taken(vpc: &str, clients: &Clients) -> Result<BTreeSet<String>, AwsError> {
    let of_vpc = Filter::builder().name("vpc-id").values(vpc).build();
    let listing = clients.instances.describe_subnets().filters(of_vpc);
    let subnets = pages!(listing, "list the network's subnets", subnets);
    let zones = (subnets.into_iter()).filter(|subnet| subnet.vpc_id() == Some(vpc));
    Ok(zones.filter_map(|one| one.availability_zone).collect())
}

/// Returns the availability zones that have all of the services' endpoints; nothing where EC2
/// knows of no limit.
async fn with_services(
    services: &[EndpointService],
    clients: &Clients,
) -> Result<Option<BTreeSet<String>>, AwsError> {
    let interfaces = services.iter().filter(|service| service.is_interface());
    let names: BTreeSet<String> = interfaces
        .map(|service| service.name(clients.region()))
        .collect();
    if names.is_empty() {
        return Ok(None);
    }
    // One page has a thousand services, more than a region has.
    let of_type = Filter::builder().name("service-type").values("Interface");
    let describe = clients
        .instances
        .describe_vpc_endpoint_services()
        .filters(of_type.build());
    let described = call!("list the zones of the network's endpoints", describe)?;
    let mut common: Option<BTreeSet<String>> = None;
    for service in described.service_details.unwrap_or_default() {
        let is_needed = (service.service_name()).is_some_and(|name| names.contains(name));
        let zones = service.availability_zones.unwrap_or_default();
        if !is_needed || zones.is_empty() {
            continue;
        }
        let zones: BTreeSet<String> = zones.into_iter().collect();
        common = Some(match common {
            Some(common) => common.intersection(&zones).cloned().collect(),
            None => zones,
        });
    }
    Ok(common)
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
    let found = once_listed(|| id_of(name, clients)).await?;
    needed(found, doing, "its subnet")
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
    let held = ("subnet-id", found.id.as_str());
    once_unheld(held, clients, delete).await.map(drop)
}
