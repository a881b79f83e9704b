//! Step Functions state machines.

use aws_sdk_sfn::types::{StateMachineType, Tag};

use super::{Found, Kind, call};
use crate::error::{Cause, if_there, unless};
use crate::run::{OwnerTags, RunId};
use crate::{AwsError, Clients, Scope};

/// A standard state machine.
#[derive(Clone, Debug, PartialEq)]
pub struct StateMachineSpec {
    /// Its name.
    pub name: String,
    /// The name of the role that it runs under.
    pub role: String,
    /// Its definition in Amazon States Language.
    pub definition: String,
}

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

pub(super) async fn list(clients: &Clients) -> Result<Vec<Found>, AwsError> {
    let mut pages = clients.states.list_state_machines().into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| AwsError::of("list state machines", error))?;
        for machine in page.state_machines {
            let (name, arn) = (machine.name(), machine.state_machine_arn());
            // Others' tags are not ours to read: the call may not be allowed.
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

pub(super) async fn remove(found: &Found, clients: &Clients) -> Result<(), AwsError> {
    let delete = clients
        .states
        .delete_state_machine()
        .state_machine_arn(&found.id);
    let doing = format!("remove the state machine {}", found.address.name);
    unless(call!(doing, delete).map(drop), Cause::NotFound)
}
