//! Security groups that admit their own members and nobody else.

use aws_sdk_ec2::types::{
    Filter, IpPermission, ResourceType, Tag, TagSpecification, UserIdGroupPair,
};

use super::patience::{INTERFACES, once_known, once_unused};
use super::{Found, Kind, call, vpc};
use crate::error::{Cause, if_there, unless};
use crate::run::{Marks, PROJECT_TAG};
use crate::{AwsError, Clients, Scope};

/// A security group.
#[derive(Clone, Debug, PartialEq)]
pub struct SecurityGroupSpec {
    /// Its name.
    pub name: String,
    /// The name of its VPC; nothing is the account's default one.
    pub vpc: Option<String>,
}

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

/// The id of the group of that name.
pub(super) async fn id_of(name: &str, clients: &Clients) -> Result<Option<String>, AwsError> {
    let by_name = Filter::builder().name("group-name").values(name).build();
    let listing = clients
        .instances
        .describe_security_groups()
        .filters(by_name);
    let listed = call!(format!("look for the security group {name}"), listing)?;
    let group = listed
        .security_groups
        .unwrap_or_default()
        .into_iter()
        .next();
    Ok(group.and_then(|group| group.group_id))
}

/// The id of the group of that name, for something that is to be in it.
pub(super) async fn required(
    name: &str,
    clients: &Clients,
    doing: &str,
) -> Result<String, AwsError> {
    id_of(name, clients)
        .await?
        .ok_or_else(|| AwsError::Incomplete {
            doing: doing.to_owned(),
            what: "its security group",
        })
}

/// The run's tags and the name, as EC2 takes them for a new resource.
pub(super) fn tag_specification(kind: ResourceType, name: &str, scope: &Scope) -> TagSpecification {
    let named = ("Name".to_owned(), name.to_owned());
    let tags = (scope.tags().into_iter().chain([named]))
        .map(|(key, value)| Tag::builder().key(key).value(value).build())
        .collect();
    TagSpecification::builder()
        .resource_type(kind)
        .set_tags(Some(tags))
        .build()
}

/// What tags of EC2 say, and the name among them.
pub(super) fn marks(tags: &[Tag]) -> (Marks, Option<&str>) {
    let pairs = || {
        tags.iter()
            .filter_map(|tag| Some((tag.key()?, tag.value()?)))
    };
    let name = pairs()
        .find(|(key, _)| *key == "Name")
        .map(|(_, value)| value);
    (Marks::of(pairs()), name)
}

/// What has that name.
pub(super) fn named(name: &str) -> Filter {
    Filter::builder().name("tag:Name").values(name).build()
}

/// What has this project's tag.
pub(super) fn tagged() -> Filter {
    Filter::builder()
        .name(format!("tag:{}", PROJECT_TAG.0))
        .values(PROJECT_TAG.1)
        .build()
}

pub(super) async fn list(clients: &Clients) -> Result<Vec<Found>, AwsError> {
    let listing = clients
        .instances
        .describe_security_groups()
        .filters(tagged());
    let mut pages = listing.into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| AwsError::of("list security groups", error))?;
        for group in page.security_groups.unwrap_or_default() {
            let (Some(name), Some(id)) = (group.group_name(), group.group_id()) else {
                continue;
            };
            let (marks, _) = marks(group.tags());
            found.extend(Found::of(
                Kind::SecurityGroup,
                name,
                id,
                clients.region(),
                marks,
            ));
        }
    }
    Ok(found)
}

pub(super) async fn remove(found: &Found, clients: &Clients) -> Result<(), AwsError> {
    let doing = format!("remove the security group {}", found.address.name);
    let delete = || async {
        let delete = clients
            .instances
            .delete_security_group()
            .group_id(&found.id);
        if_there(call!(&doing, delete))
    };
    once_unused(INTERFACES, delete).await.map(drop)
}
