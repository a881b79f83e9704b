//! Step Functions state machines.

use aws_sdk_sfn::types::{StateMachineType, Tag};

use super::{Found, Kind, call};
use crate::error::{Cause, if_there, unless};
use crate::names::SWITCH;
use crate::run::{OwnerTags, RunId};
use crate::{AwsError, Clients, Scope};

/// Specification of a standard state machine.
#[derive(Clone, Debug, PartialEq)]
pub struct StateMachineSpec {
    /// Name.
    pub name: String,
    /// Name of its role.
    pub role: String,
    /// Definition in Amazon States Language.
    pub definition: String,
}

/// Creates the state machine if there is none of its name, and completes it; returns its id.
pub(super) async fn ensure(
    spec: &StateMachineSpec,
    clients: &Clients,
    scope: &Scope,
) -> Result<String, AwsError> {
    let (name, role) = (spec.name.as_str(), scope.role_arn(&spec.role));
    let doing = format!("create the state machine {name}");
    let arn = scope.arn("states", &format!("stateMachine:{name}"));
    let described = clients
        .states
        .describe_state_machine()
        .state_machine_arn(&arn);
    if if_there(call!(&doing, described))?.is_some() {
        return Ok(arn);
    }
    let tags = (scope.tags().into_iter())
        .map(|(key, value)| Tag::builder().key(key).value(value).build())
        .collect();
    let create = clients
        .states
        .create_state_machine()
        .name(name)
        .role_arn(role)
        .r#type(StateMachineType::Standard)
        .definition(&spec.definition)
        .set_tags(Some(tags));
    call!(&doing, create)?;
    Ok(arn)
}

/// Returns whether a state machine is a run's dead man's switch, which is a kind of its own.
pub(super) fn is_switch(found: &Found) -> bool {
    found.address.name == found.run.name(SWITCH)
}

/// Lists our state machines in the clients' region, without dead man's switches.
pub(super) async fn list(clients: &Clients) -> Result<Vec<Found>, AwsError> {
    let mut found = all(clients).await?;
    found.retain(|found| !is_switch(found));
    Ok(found)
}

/// Lists all of our state machines in the clients' region.
pub(super) async fn all(clients: &Clients) -> Result<Vec<Found>, AwsError> {
    let mut pages = clients.states.list_state_machines().into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| AwsError::of("list state machines", error))?;
        for machine in page.state_machines {
            let (name, arn) = (machine.name(), machine.state_machine_arn());
            // Reading tags of other projects' machines may not be allowed.
            if RunId::of_name(name).is_none() {
                continue;
            }
            let doing = format!("read the tags of the state machine {name}");
            let tags = call!(
                &doing,
                clients.states.list_tags_for_resource().resource_arn(arn)
            );
            let tags = if_there(tags)?
                .and_then(|tags| tags.tags)
                .unwrap_or_default();
            let pairs = tags
                .iter()
                .filter_map(|tag| Some((tag.key()?, tag.value()?)));
            let owner_tags = OwnerTags::of(pairs);
            found.extend(Found::of(
                Kind::StateMachine,
                name,
                arn,
                clients.region(),
                owner_tags,
            ));
        }
    }
    Ok(found)
}

/// Removes the state machine, and waits until it is gone where others depend on that.
pub(super) async fn remove(found: &Found, clients: &Clients) -> Result<(), AwsError> {
    let delete = clients
        .states
        .delete_state_machine()
        .state_machine_arn(&found.id);
    let doing = format!("remove the state machine {}", found.address.name);
    unless(call!(&doing, delete).map(drop), Cause::NotFound)
}
