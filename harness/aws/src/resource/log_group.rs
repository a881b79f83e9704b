//! CloudWatch log groups. They are created before their functions, with a retention; the
//! functions' role may not create them.

use super::retry::once_known;
use super::{Found, Holding, Kind, call};
use crate::error::{Cause, if_there, unless};
use crate::run::OwnerTags;
use crate::{AwsError, Clients, RunId, Scope};

/// Prefix of a function's log group, before the function's name.
pub const LAMBDA: &str = "/aws/lambda/";
/// Prefix of our functions' names.
const PREFIX: &str = "/aws/lambda/epochcost-";

/// Specification of a log group.
#[derive(Clone, Debug, PartialEq)]
pub struct LogGroupSpec {
    /// Name.
    pub name: String,
    /// Retention of its lines, days; one of CloudWatch's values.
    pub retention_days: i32,
}

/// Creates the log group if there is none of its name, and completes it; returns its id.
pub(super) async fn ensure(
    spec: &LogGroupSpec,
    clients: &Clients,
    scope: &Scope,
) -> Result<String, AwsError> {
    let name = spec.name.as_str();
    let doing = format!("create the log group {name}");
    let create = clients
        .logs
        .create_log_group()
        .log_group_name(name)
        .set_tags(Some(scope.tags().into_iter().collect()));
    unless(call!(&doing, create).map(drop), Cause::Exists)?;
    let keep = clients
        .logs
        .put_retention_policy()
        .log_group_name(name)
        .retention_in_days(spec.retention_days);
    once_known(|| async { call!(&doing, keep.clone()) }).await?;
    Ok(scope.arn("logs", &format!("log-group:{name}")))
}

/// Lists our log groups in the clients' region.
pub(super) async fn list(clients: &Clients) -> Result<Vec<Found>, AwsError> {
    let listing = clients
        .logs
        .describe_log_groups()
        .log_group_name_prefix(PREFIX);
    let mut pages = listing.into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| AwsError::of("list log groups", error))?;
        for group in page.log_groups.unwrap_or_default() {
            let (Some(name), Some(arn)) = (group.log_group_name(), group.arn()) else {
                continue;
            };
            // The listed ARN ends in ":*"; tags belong to the ARN without it.
            let arn = arn.strip_suffix(":*").unwrap_or(arn);
            let doing = format!("read the tags of the log group {name}");
            let tags = call!(
                &doing,
                clients.logs.list_tags_for_resource().resource_arn(arn)
            );
            let tags = if_there(tags)?
                .and_then(|tags| tags.tags)
                .unwrap_or_default();
            let mut owner_tags = OwnerTags::of(tags.iter().map(|(k, v)| (k.as_str(), v.as_str())));
            if owner_tags.project.is_none() {
                owner_tags.run = name.strip_prefix(LAMBDA).and_then(RunId::of_name);
                owner_tags.project = owner_tags.run.as_ref().map(|_| "epochcost".to_owned());
            }
            let bytes = u64::try_from(group.stored_bytes().unwrap_or(0)).unwrap_or(0);
            let ours = Found::of(Kind::LogGroup, name, arn, clients.region(), owner_tags);
            found.extend(ours.map(|ours| ours.holding(Holding::LogBytes(bytes))));
        }
    }
    Ok(found)
}

/// Removes the log group, and waits until it is gone where others depend on that.
pub(super) async fn remove(found: &Found, clients: &Clients) -> Result<(), AwsError> {
    let name = found.address.name.as_str();
    let delete = clients.logs.delete_log_group().log_group_name(name);
    let removed = call!(format!("remove the log group {name}"), delete).map(drop);
    unless(removed, Cause::NotFound)
}
