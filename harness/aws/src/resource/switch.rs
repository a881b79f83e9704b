//! The dead man's switch: a state machine in the account that waits and then removes the
//! run's VPC endpoints, which are paid by the hour, whether or not the harness still runs.
//!
//! An execution of it waits whenever an endpoint exists. Each trial starts one that waits
//! until that trial's end, and then stops the one before it.

use aws_sdk_sfn::types::ExecutionStatus;
use epochcost_aws_plan::{SWITCH_RETRIES as RETRIES, SWITCH_ROUNDS as ROUNDS};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::state_machine::{self, StateMachineSpec};
use super::{Found, Kind, call};
use crate::error::{Cause, if_there, unless};
use crate::names::SWITCH;
use crate::run::RUN_TAG;
use crate::{AwsError, Clients, Scope};

/// Time between two looks, s: an endpoint needs minutes to disappear.
const BETWEEN_S: u64 = 300;

/// Specification of the switch.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchSpec {
    /// Name.
    pub name: String,
    /// Name of its role.
    pub role: String,
    /// Time until it removes the run's endpoints where no trial begins, seconds.
    pub hold_s: u64,
}

/// Creates the switch if there is none of its name, and starts an execution that waits;
/// returns the execution's ARN.
pub(super) async fn ensure(
    spec: &SwitchSpec,
    clients: &Clients,
    scope: &Scope,
) -> Result<String, AwsError> {
    let machine = StateMachineSpec {
        name: spec.name.clone(),
        role: spec.role.clone(),
        definition: definition(scope).to_string(),
    };
    state_machine::ensure(&machine, clients, scope).await?;
    let hold = SignedDuration::from_secs(i64::try_from(spec.hold_s).unwrap_or(i64::MAX));
    let until = Timestamp::now().checked_add(hold);
    arm(clients, scope, until.unwrap_or(scope.expires)).await
}

/// Returns the ARN of a run's switch.
fn arn(scope: &Scope) -> String {
    let name = scope.run.name(SWITCH);
    scope.arn("states", &format!("stateMachine:{name}"))
}

/// Returns a time as the switch reads it.
fn written(until: Timestamp) -> String {
    until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Starts an execution that removes the run's endpoints at `until`, or at the run's expiry if
/// that is earlier; returns its ARN. May be repeated.
///
/// # Errors
/// When Step Functions refuses or cannot be reached.
pub async fn arm(clients: &Clients, scope: &Scope, until: Timestamp) -> Result<String, AwsError> {
    let until = until.min(scope.expires);
    let name = format!("until-{}", until.as_second());
    let start = clients
        .states
        .start_execution()
        .state_machine_arn(arn(scope))
        .name(&name)
        .input(json!({ "until": written(until) }).to_string());
    unless(
        call!("start the dead man's switch", start).map(drop),
        Cause::Exists,
    )?;
    let of = format!("execution:{}:{name}", scope.run.name(SWITCH));
    Ok(scope.arn("states", &of))
}

/// Stops an execution of the switch; one that has ended is no error.
///
/// # Errors
/// When Step Functions refuses or cannot be reached.
pub async fn disarm(clients: &Clients, execution: &str) -> Result<(), AwsError> {
    let stop = clients.states.stop_execution().execution_arn(execution);
    let doing = format!("stop the dead man's switch {execution}");
    unless(call!(&doing, stop).map(drop), Cause::NotFound)
}

/// Stops every execution of the switch, and removes it.
pub(super) async fn remove(found: &Found, clients: &Clients) -> Result<(), AwsError> {
    let doing = format!("stop the dead man's switch {}", found.address.name);
    let listing = clients
        .states
        .list_executions()
        .state_machine_arn(&found.id)
        .status_filter(ExecutionStatus::Running);
    // A run has one, and two while a trial begins.
    let running = if_there(call!(&doing, listing))?;
    for execution in running.map(|all| all.executions).unwrap_or_default() {
        disarm(clients, execution.execution_arn()).await?;
    }
    state_machine::remove(found, clients).await
}

/// Lists our switches in the clients' region.
pub(super) async fn list(clients: &Clients) -> Result<Vec<Found>, AwsError> {
    let machines = state_machine::all(clients).await?;
    let switches = machines.into_iter().filter(state_machine::is_switch);
    Ok(switches
        .map(|mut found| {
            found.address.kind = Kind::Switch;
            found
        })
        .collect())
}

/// Returns the definition: it waits until the time in its input, then looks for endpoints with
/// the run's tag and removes them, several times, since a removal may be refused in an answer
/// that says success.
fn definition(scope: &Scope) -> Value {
    let call = |action: &str| format!("arn:{}:states:::aws-sdk:ec2:{action}", scope.partition);
    let again = json!([{
        "ErrorEquals": ["States.ALL"],
        "IntervalSeconds": 10,
        "BackoffRate": 2,
        "MaxAttempts": RETRIES,
    }]);
    let mut states = json!({
        "Wait": { "Type": "Wait", "TimestampPath": "$.until", "Next": "Find 1" },
        "Done": { "Type": "Succeed" },
    });
    for round in 1..=ROUNDS {
        let next = match round {
            ROUNDS => "Done".to_owned(),
            _ => format!("Find {}", round + 1),
        };
        states[format!("Find {round}")] = json!({
            "Type": "Task",
            "Resource": call("describeVpcEndpoints"),
            "Parameters": {
                "Filters": [{ "Name": format!("tag:{RUN_TAG}"), "Values": [scope.run] }],
            },
            "ResultSelector": { "ids.$": "$.VpcEndpoints[*].VpcEndpointId" },
            "ResultPath": "$.found",
            "Retry": again,
            "Next": format!("Any {round}"),
        });
        states[format!("Any {round}")] = json!({
            "Type": "Choice",
            "Choices": [{
                "Variable": "$.found.ids[0]",
                "IsPresent": true,
                "Next": format!("Remove {round}"),
            }],
            "Default": "Done",
        });
        states[format!("Remove {round}")] = json!({
            "Type": "Task",
            "Resource": call("deleteVpcEndpoints"),
            "Parameters": { "VpcEndpointIds.$": "$.found.ids" },
            "ResultPath": Value::Null,
            "Retry": again,
            "Next": format!("Pause {round}"),
        });
        states[format!("Pause {round}")] = json!({
            "Type": "Wait", "Seconds": BETWEEN_S, "Next": next,
        });
    }
    json!({
        "Comment": "Removes a run's VPC endpoints where its program has died; exported by epochcost",
        "StartAt": "Wait",
        "States": states,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;
    use crate::deployment::tests::scope;
    use crate::permissions;

    /// Every state is reached, every `Next` exists, and the bound counts each state of the
    /// longest way, with all attempts.
    #[test]
    fn the_longest_way_through_the_switch_is_its_bound() {
        let definition = definition(&scope());
        let states = definition["States"].as_object().unwrap();
        let (mut at, mut way) = (definition["StartAt"].as_str().unwrap(), Vec::new());
        loop {
            let state = &states[at];
            way.push(at);
            if state["Type"] == "Succeed" {
                break;
            }
            // A choice that finds something leads to the longer way.
            let next = state["Next"]
                .as_str()
                .or(state["Choices"][0]["Next"].as_str());
            at = next.unwrap();
        }
        let seen: BTreeSet<&str> = way.iter().copied().collect();
        assert_eq!(seen.len(), states.len());
        let attempts = |name: &&str| states[*name]["Retry"][0]["MaxAttempts"].as_u64();
        let again: u64 = way.iter().filter_map(attempts).sum();
        // The begin of an execution is a transition, too.
        assert_eq!(
            1 + way.len() as u64 + again,
            epochcost_aws_plan::SWITCH_TRANSITIONS
        );
    }

    /// What the switch does is what its role may, and the endpoints are those of the run alone.
    #[test]
    fn the_switch_may_what_it_does_and_nothing_else() {
        let (scope, policy) = (scope(), permissions::switch(&scope()));
        let text = definition(&scope).to_string();
        let calls: BTreeSet<&str> = text
            .split("aws-sdk:ec2:")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        assert_eq!(
            calls,
            BTreeSet::from(["deleteVpcEndpoints", "describeVpcEndpoints"])
        );
        let actions: Vec<&str> = (policy.statements().iter())
            .flat_map(|statement| statement.actions.iter().copied())
            .collect();
        assert_eq!(
            actions,
            ["ec2:DescribeVpcEndpoints", "ec2:DeleteVpcEndpoints"]
        );
        assert!(policy.to_json().contains(&format!(
            "\"aws:ResourceTag/{RUN_TAG}\":[\"{}\"]",
            scope.run
        )));
        assert!(text.contains(&scope.run.to_string()));
    }

    #[test]
    fn times_are_written_as_a_wait_reads_them() {
        let at: Timestamp = "2026-11-21T13:00:00.75Z".parse().unwrap();
        assert_eq!(written(at), "2026-11-21T13:00:00Z");
    }
}
