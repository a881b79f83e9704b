//! IAM roles under the path `/epochcost/`, each with one inline policy.

use aws_sdk_iam::types::Tag;

use super::retry::once_known;
use super::{Found, Kind, built, call};
use crate::error::{Cause, if_there, unless};
use crate::policy::Policy;
use crate::run::{IAM_PATH, OwnerTags};
use crate::{AwsError, Clients, Scope};

/// Name of a role's inline policy.
const POLICY: &str = "run";

/// Specification of a role.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleSpec {
    /// Name.
    pub name: String,
    /// Service that may assume the role, such as `lambda.amazonaws.com`.
    pub service: &'static str,
    /// Permissions.
    pub policy: Policy,
}

/// Creates the role if there is none of its name, and completes it; returns its id.
pub(super) async fn ensure(
    spec: &RoleSpec,
    clients: &Clients,
    scope: &Scope,
) -> Result<String, AwsError> {
    let name = spec.name.as_str();
    let doing = format!("create the role {name}");
    let create = clients
        .roles
        .create_role()
        .role_name(name)
        .path(IAM_PATH)
        .assume_role_policy_document(Policy::trust(spec.service, &scope.account).to_json())
        .description("A run of epochcost; may be deleted once it is over")
        .set_tags(Some(tags(scope)?));
    unless(call!(&doing, create).map(drop), Cause::Exists)?;
    let put = clients
        .roles
        .put_role_policy()
        .role_name(name)
        .policy_name(POLICY)
        .policy_document(spec.policy.to_json());
    let doing = format!("give the role {name} its policy");
    once_known(|| async { call!(&doing, put.clone()) }).await?;
    Ok(scope.role_arn(name))
}

/// Returns the run's tags in IAM's form.
pub(super) fn tags(scope: &Scope) -> Result<Vec<Tag>, AwsError> {
    let tags: Result<_, _> = (scope.tags().into_iter())
        .map(|(key, value)| Tag::builder().key(key).value(value).build())
        .collect();
    built("write tags", tags)
}

/// Returns our tags among IAM's.
pub(super) fn owner_tags(tags: &[Tag]) -> OwnerTags {
    OwnerTags::of(tags.iter().map(|tag| (tag.key(), tag.value())))
}

/// Lists our roles in the clients' region.
pub(super) async fn list(clients: &Clients) -> Result<Vec<Found>, AwsError> {
    let mut found = Vec::new();
    let mut pages = clients
        .roles
        .list_roles()
        .path_prefix(IAM_PATH)
        .into_paginator()
        .send();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| AwsError::of("list roles", error))?;
        for role in page.roles {
            let name = role.role_name();
            let tags = call!(
                format!("read the tags of the role {name}"),
                clients.roles.list_role_tags().role_name(name)
            );
            let tags = if_there(tags)?.map(|tags| tags.tags).unwrap_or_default();
            let region = clients.region();
            found.extend(Found::of(
                Kind::Role,
                name,
                role.arn(),
                region,
                owner_tags(&tags),
            ));
        }
    }
    Ok(found)
}

/// Removes the role, and waits until it is gone where others depend on that.
pub(super) async fn remove(found: &Found, clients: &Clients) -> Result<(), AwsError> {
    let name = found.address.name.as_str();
    let doing = format!("remove the role {name}");
    let iam = &clients.roles;
    let listed = call!(&doing, iam.list_role_policies().role_name(name));
    let Some(listed) = if_there(listed)? else {
        return Ok(());
    };
    for policy in listed.policy_names {
        let delete = iam.delete_role_policy().role_name(name).policy_name(policy);
        unless(call!(&doing, delete).map(drop), Cause::NotFound)?;
    }
    let removed = call!(&doing, iam.delete_role().role_name(name)).map(drop);
    unless(removed, Cause::NotFound)
}
