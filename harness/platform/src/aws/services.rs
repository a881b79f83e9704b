//! Hosts of a trial's tensor stores and of its queue: started before anything
//! that uses them, and found by the address that each uploads once it answers.

use std::collections::BTreeMap;
use std::time::Duration;

use epochcost_aws::services::{self, Role, StoreSettings};
use epochcost_aws::{AwsError, deployment, objects, resource};
use epochcost_environment::worker;
use epochcost_spec::rows::Row;
use tokio::time::{Instant, sleep};

use super::context::{POLL_INTERVAL, Trial};
use super::unusable;
use crate::PlatformError;

/// Time limit from a host's start until it answers, seconds: booting and installing.
const PATIENCE_S: u64 = 600;
/// Polls of the bucket per check whether the instances are alive.
const POLLS_PER_STATE_CHECK: u32 = 10;
/// Number of lines of a host's log in the reason of a failure.
const TAIL: usize = 5;

/// Addresses of a trial's services, all of which answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Services(BTreeMap<Role, String>);

impl Services {
    /// Returns the environment variables in which workers find them.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let (queue, stores): (Vec<_>, Vec<_>) =
            self.0.iter().partition(|(role, _)| **role == Role::Queue);
        let mut variables = Vec::new();
        if !stores.is_empty() {
            let endpoints: Vec<&str> = stores.iter().map(|(_, at)| at.as_str()).collect();
            variables.push((worker::TENSORS.to_owned(), endpoints.join(",")));
        }
        let queue = queue.into_iter();
        variables.extend(queue.map(|(_, at)| (worker::QUEUE.to_owned(), at.clone())));
        variables
    }
}

/// Returns the row's settings of its tensor stores.
pub(super) fn store_settings(row: &Row) -> StoreSettings {
    let choice = row.tensor_store.unwrap_or_default();
    StoreSettings {
        has_module: row.needs_module(),
        malloc_conf: choice.allocator.malloc_conf().map(str::to_owned),
    }
}

/// Waits until every host has uploaded its address.
///
/// # Errors
/// [`AwsError::Ended`] with a host's log where it could not serve,
/// [`AwsError::Deadline`] where it uploads nothing in time, [`AwsError::Spent`] over
/// the limit.
pub(super) async fn wait(trial: &Trial<'_>) -> Result<Services, PlatformError> {
    let roles = trial.training.roles().map_err(unusable)?;
    let clients = &trial.aws.clients;
    let bucket = deployment::objects_bucket(&trial.aws.scope);
    let scheme = trial.row.tensor_store.unwrap_or_default().kind.scheme();
    let (since, spending) = (Instant::now(), trial.spending()?);
    let mut known = BTreeMap::new();
    for polls in 1.. {
        spending.check(&[])?;
        for role in &roles {
            if known.contains_key(role) {
                continue;
            }
            // In this order: a host leaves its log before it ends.
            let gone = match polls % POLLS_PER_STATE_CHECK {
                0 => resource::ended_by(clients, &name(trial, *role)).await?,
                _ => None,
            };
            let key = services::address_key(trial.place, *role);
            match (objects::get(clients, &bucket, &key).await?, gone) {
                (Some(address), _) => {
                    let address = String::from_utf8_lossy(&address).trim().to_owned();
                    known.insert(*role, services::endpoint(*role, scheme, &address));
                }
                (None, Some(reason)) => {
                    return Err(ended(trial, &bucket, *role, reason).await?.into());
                }
                (None, None) => {}
            }
        }
        if known.len() == roles.len() {
            break;
        }
        if since.elapsed() > Duration::from_secs(PATIENCE_S) {
            let silent = roles.iter().find(|role| !known.contains_key(role));
            let name = silent.map_or(String::new(), |role| name(trial, *role));
            return Err(AwsError::Deadline {
                what: format!("an answer of the service on {name}"),
                seconds: PATIENCE_S,
                remedy: "its console output says what it waits for".to_owned(),
            }
            .into());
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(Services(known))
}

fn name(trial: &Trial<'_>, role: Role) -> String {
    services::instance_name(&trial.aws.scope, &trial.training, trial.place, role)
}

async fn ended(
    trial: &Trial<'_>,
    bucket: &str,
    role: Role,
    reason: String,
) -> Result<AwsError, AwsError> {
    let key = services::log_key(trial.place, role);
    let log = objects::get(&trial.aws.clients, bucket, &key).await?;
    let log = log.map(|log| String::from_utf8_lossy(&log).into_owned());
    let log = log.unwrap_or_else(|| "it left none".to_owned());
    let lines: Vec<&str> = log.lines().filter(|line| !line.is_empty()).collect();
    let tail = &lines[lines.len().saturating_sub(TAIL)..];
    Ok(AwsError::Ended {
        name: name(trial, role),
        what: "its service answered".to_owned(),
        reason,
        log: tail.join(" | "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_in_the_order_of_their_peers_and_what_is_not_there_is_not_named() {
        let at = |role| (role, services::endpoint(role, "redis+plain", "10.0.0.7"));
        // In any order but that of their names: store-10 is after store-2.
        let roles = [Role::TensorStore(10), Role::Queue, Role::TensorStore(2)];
        let environment = Services(roles.map(at).into()).environment();
        let stores = "redis+plain://10.0.0.7:6379,redis+plain://10.0.0.7:6379";
        let queue = "amqp://guest:guest@10.0.0.7:5672/%2f";
        let expected = [(worker::TENSORS, stores), (worker::QUEUE, queue)];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        assert_eq!(environment, expected.map(owned));
        let queue = Services([at(Role::Queue)].into()).environment();
        assert_eq!(queue.len(), 1);
        assert!(Services::default().environment().is_empty());
    }
}
