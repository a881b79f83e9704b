//! IAM instance profiles, which give an instance its role.

use super::retry::once_known;
use super::{Found, Kind, call, role};
use crate::error::{Cause, if_there, unless};
use crate::run::IAM_PATH;
use crate::{AwsError, Clients, Scope};

/// Specification of an instance profile.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceProfileSpec {
    /// Name.
    pub name: String,
    /// Name of its role.
    pub role: String,
}

/// Creates the instance profile if there is none of its name, and completes it; returns its id.
pub(super) async fn ensure(
    spec: &InstanceProfileSpec,
    clients: &Clients,
    scope: &Scope,
) -> Result<String, AwsError> {
    let name = spec.name.as_str();
    let doing = format!("create the instance profile {name}");
    let iam = &clients.roles;
    let create = iam
        .create_instance_profile()
        .instance_profile_name(name)
        .path(IAM_PATH)
        .set_tags(Some(role::tags(scope)?));
    unless(call!(&doing, create).map(drop), Cause::Exists)?;
    let get = iam.get_instance_profile().instance_profile_name(name);
    let profile = once_known(|| async { call!(&doing, get.clone()) }).await?;
    let Some(profile) = profile.instance_profile else {
        return Err(AwsError::Incomplete {
            doing,
            what: "the instance profile",
        });
    };
    // A profile has one role, and refuses a second one even if it is the same.
    if !profile
        .roles()
        .iter()
        .any(|role| role.role_name() == spec.role)
    {
        let add = iam
            .add_role_to_instance_profile()
            .instance_profile_name(name)
            .role_name(&spec.role);
        once_known(|| async { call!(&doing, add.clone()) }).await?;
    }
    Ok(profile.arn)
}

/// Lists our instance profiles in the clients' region.
pub(super) async fn list(clients: &Clients) -> Result<Vec<Found>, AwsError> {
    let mut found = Vec::new();
    let listing = clients.roles.list_instance_profiles().path_prefix(IAM_PATH);
    let mut pages = listing.into_paginator().send();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| AwsError::of("list instance profiles", error))?;
        for profile in page.instance_profiles {
            let name = profile.instance_profile_name();
            let whole = call!(
                format!("describe the instance profile {name}"),
                clients
                    .roles
                    .get_instance_profile()
                    .instance_profile_name(name)
            );
            let whole = if_there(whole)?.and_then(|whole| whole.instance_profile);
            let owner_tags = role::owner_tags(whole.as_ref().map_or(&[], |whole| whole.tags()));
            let region = clients.region();
            found.extend(Found::of(
                Kind::InstanceProfile,
                name,
                profile.arn(),
                region,
                owner_tags,
            ));
        }
    }
    Ok(found)
}

/// Removes the instance profile, and waits until it is gone where others depend on that.
pub(super) async fn remove(found: &Found, clients: &Clients) -> Result<(), AwsError> {
    let name = found.address.name.as_str();
    let doing = format!("remove the instance profile {name}");
    let iam = &clients.roles;
    let whole = call!(
        &doing,
        iam.get_instance_profile().instance_profile_name(name)
    );
    let Some(whole) = if_there(whole)? else {
        return Ok(());
    };
    let roles = whole
        .instance_profile
        .map(|profile| profile.roles)
        .unwrap_or_default();
    for role in roles {
        let take = iam
            .remove_role_from_instance_profile()
            .instance_profile_name(name)
            .role_name(role.role_name());
        unless(call!(&doing, take).map(drop), Cause::NotFound)?;
    }
    let delete = iam.delete_instance_profile().instance_profile_name(name);
    unless(call!(&doing, delete).map(drop), Cause::NotFound)
}
