//! Security groups that admit their own members only.

use aws_sdk_ec2::types::{Filter, IpPermission, ResourceType, SecurityGroup, UserIdGroupPair};

use super::ec2::{found_by_tags, needed, pages, tag_specification, tagged};
use super::retry::{once_known, once_listed, once_unheld};
use super::{Found, Kind, call, vpc};
use crate::error::{Cause, if_there, unless};
use crate::{AwsError, Clients, Scope};

/// Specification of a security group.
#[derive(Clone, Debug, PartialEq)]
pub struct SecurityGroupSpec {
    /// Name.
    pub name: String,
    /// Name of its VPC; `None` for the account's default VPC.
    pub vpc: Option<String>,
}

/// Creates the security group if there is none of its name, and completes it; returns its id.
pub(super) async fn ensure(
    spec: &SecurityGroupSpec,
    clients: &Clients,
    scope: &Scope,
) -> Result<String, AwsError> {
    let name = spec.name.as_str();
    let doing = format!("create the security group {name}");
    let id = match id_of(name, clients).await? {
        Some(id) => id,
        None => {
            // Without a VPC, the account's default one.
            let vpc = match &spec.vpc {
                Some(vpc) => Some(vpc::required(vpc, clients, &doing).await?),
                None => None,
            };
            let create = clients
                .instances
                .create_security_group()
                .group_name(name)
                .set_vpc_id(vpc)
                .description("Members of one run of epochcost, and nobody else")
                .tag_specifications(tag_specification(ResourceType::SecurityGroup, name, scope));
            let created = once_known(|| async { call!(&doing, create.clone()) }).await?;
            created.group_id.ok_or(AwsError::Incomplete {
                doing: doing.clone(),
                what: "the group's id",
            })?
        }
    };
    // Members reach each other on every port.
    let members = IpPermission::builder()
        .ip_protocol("-1")
        .user_id_group_pairs(UserIdGroupPair::builder().group_id(&id).build())
        .build();
    let doing = format!("let members of {name} reach each other");
    let admit = clients
        .instances
        .authorize_security_group_ingress()
        .group_id(&id)
        .ip_permissions(members);
    let admit = || async { call!(&doing, admit.clone()).map(drop) };
    unless(once_known(admit).await, Cause::Exists)?;
    Ok(id)
}

/// Returns the id of the group of that name, if there is one.
pub(super) async fn id_of(name: &str, clients: &Clients) -> Result<Option<String>, AwsError> {
    let by_name = Filter::builder().name("group-name").values(name).build();
    let listing = clients
        .instances
        .describe_security_groups()
        .filters(by_name);
    let listed = call!(format!("find the security group {name}"), listing)?;
    let group = listed
        .security_groups
        .unwrap_or_default()
        .into_iter()
        .next();
    Ok(group.and_then(|group| group.group_id))
}

/// Returns the id of the group of that name, which must exist.
pub(super) async fn required(
    name: &str,
    clients: &Clients,
    doing: &str,
) -> Result<String, AwsError> {
    let found = once_listed(|| id_of(name, clients)).await?;
    needed(found, doing, "its security group")
}

/// Lists our security groups in the clients' region.
pub(super) async fn list(clients: &Clients) -> Result<Vec<Found>, AwsError> {
    let listing = clients
        .instances
        .describe_security_groups()
        .filters(tagged());
    let groups = pages!(listing, "list security groups", security_groups);
    let ours = |group: &SecurityGroup| {
        found_by_tags(Kind::SecurityGroup, group.group_id(), group.tags(), clients)
    };
    Ok(groups.iter().filter_map(ours).collect())
}

/// Removes the security group, and waits until it is gone where others depend on that.
pub(super) async fn remove(found: &Found, clients: &Clients) -> Result<(), AwsError> {
    let doing = format!("remove the security group {}", found.address.name);
    let delete = || async {
        let delete = clients
            .instances
            .delete_security_group()
            .group_id(&found.id);
        if_there(call!(&doing, delete))
    };
    let held = ("group-id", found.id.as_str());
    once_unheld(held, clients, delete).await.map(drop)
}
