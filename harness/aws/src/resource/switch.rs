//! The dead man's switch: a state machine in the account that ends what a run pays for, whether or not
//! the harness still runs.
//!
//! An execution of it waits for the end of the run's lease. While the harness lives, it starts another
//! one with a later end, and then stops the one before it.

use aws_sdk_sfn::types::ExecutionStatus;
use epochcost_aws_plan::{LEASE_S, SWITCH_RETRIES as RETRIES, SWITCH_ROUNDS as ROUNDS};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

use super::state_machine::{self, StateMachineSpec};
use super::{Found, Kind, call};
use crate::error::{Cause, if_there, unless};
use crate::names::SWITCH;
use crate::run::RUN_TAG;
use crate::{AwsError, Clients, Scope};

/// Time between two looks, s: what is started while the first looks, and an endpoint that needs
/// minutes to disappear.
const BETWEEN_S: u64 = 300;

/// Specification of the switch.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchSpec {
    /// Name.
    pub name: String,
    /// Name of its role.
    pub role: String,
}

/// What the switch ends by name; instances and endpoints it finds by the run's tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ends {
    /// Names of functions, which are removed, so that nothing starts them again.
    pub functions: Vec<String>,
    /// ARNs of state machines whose executions are stopped.
    pub machines: Vec<String>,
}

/// Creates the switch if there is none of its name, and starts an execution that waits for the first
/// lease; returns the execution's ARN.
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
    let until = lease(Timestamp::now());
    arm(clients, scope, until, &Ends::default(), 0).await
}

/// Returns the end of a lease that begins at `now`.
pub fn lease(now: Timestamp) -> Timestamp {
    let length = SignedDuration::from_secs(LEASE_S as i64);
    now.checked_add(length).unwrap_or(Timestamp::MAX)
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

/// Starts an execution that ends the run at `until`; returns its ARN. `number` tells it from others
/// with that end; with the same may be repeated.
///
/// # Errors
/// When Step Functions refuses or cannot be reached.
pub async fn arm(
    clients: &Clients,
    scope: &Scope,
    until: Timestamp,
    ends: &Ends,
    number: usize,
) -> Result<String, AwsError> {
    let name = format!("until-{}-{number}", until.as_second());
    let input = json!({
        "until": written(until),
        "functions": ends.functions,
        "machines": ends.machines,
    });
    let start = clients
        .states
        .start_execution()
        .state_machine_arn(arn(scope))
        .name(&name)
        .input(input.to_string());
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
    // A run has one, and two while its lease is renewed.
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

/// Returns the definition: it waits until the time in its input, and then several times, since a
/// removal may be refused in an answer that says success, removes the functions and stops the
/// executions that it was given, and ends the instances and endpoints with the run's tag. A call that
/// fails keeps nothing else from its end.
fn definition(scope: &Scope) -> Value {
    let mut states = json!({
        "Wait": { "Type": "Wait", "TimestampPath": "$.until", "Next": "Functions 1" },
        "Done": { "Type": "Succeed" },
    });
    for round in 1..=ROUNDS {
        let at = |state: &str| format!("{state} {round}");
        let last = if round == ROUNDS {
            "Done".to_owned()
        } else {
            at("Pause")
        };
        states[at("Functions")] = each(
            "$.functions",
            "$$.Map.Item.Value",
            call_of(
                scope,
                "lambda:deleteFunction",
                json!({ "FunctionName.$": "$.item" }),
            ),
            &at("Machines"),
        );
        states[at("Machines")] = machines(scope, &at("Find instances"));
        let filters = json!([
            { "Name": format!("tag:{RUN_TAG}"), "Values": [scope.run] },
            { "Name": "instance-state-name", "Values": ["pending", "running"] },
        ]);
        let instances = Ec2 {
            look: "describeInstances",
            parameters: json!({ "Filters": filters }),
            ids: "$.Reservations[*].Instances[*].InstanceId",
            end: "terminateInstances",
            field: "InstanceIds",
        };
        instances.states(
            scope,
            ["Find instances", "Any instances", "End instances"].map(at),
            &at("Find endpoints"),
            &mut states,
        );
        let endpoints = Ec2 {
            look: "describeVpcEndpoints",
            parameters: json!({ "Filters": [filters[0]] }),
            ids: "$.VpcEndpoints[*].VpcEndpointId",
            end: "deleteVpcEndpoints",
            field: "VpcEndpointIds",
        };
        endpoints.states(
            scope,
            ["Find endpoints", "Any endpoints", "Remove endpoints"].map(at),
            &last,
            &mut states,
        );
        if round < ROUNDS {
            states[at("Pause")] = json!({
                "Type": "Wait", "Seconds": BETWEEN_S, "Next": format!("Functions {}", round + 1),
            });
        }
    }
    json!({
        "Comment": "Ends a run where its program has died; exported by epochcost",
        "StartAt": "Wait",
        "States": states,
    })
}

/// Returns a task that calls an API, without its next state.
fn call_of(scope: &Scope, action: &str, parameters: Value) -> Value {
    json!({
        "Type": "Task",
        "Resource": format!("arn:{}:states:::aws-sdk:{action}", scope.partition),
        "Parameters": parameters,
        "ResultPath": Value::Null,
    })
}

/// Has a task go on with `next`, also where its call failed.
fn then(mut task: Value, next: &str) -> Value {
    task["Next"] = next.into();
    task["Catch"] = json!([{
        "ErrorEquals": ["States.ALL"], "ResultPath": Value::Null, "Next": next,
    }]);
    task
}

/// Returns a state that does `task` with each of `items`, `$.item`, at once.
fn each(items: &str, item: &str, task: Value, next: &str) -> Value {
    json!({
        "Type": "Map",
        "ItemsPath": items,
        "ItemSelector": { "item.$": item },
        "ItemProcessor": {
            "StartAt": "Only",
            "States": { "Only": then(task, "Over"), "Over": { "Type": "Succeed" } },
        },
        "ResultPath": Value::Null,
        "Next": next,
    })
}

/// Returns a state that stops the executions of each machine.
fn machines(scope: &Scope, next: &str) -> Value {
    let look = json!({ "StateMachineArn.$": "$.item", "StatusFilter": "RUNNING" });
    let mut look = then(call_of(scope, "sfn:listExecutions", look), "Over");
    look["ResultPath"] = "$.found".into();
    look["Next"] = "Stop".into();
    let stop = json!({ "ExecutionArn.$": "$.item" });
    let stop = call_of(scope, "sfn:stopExecution", stop);
    let mut machines = each("$.machines", "$$.Map.Item.Value", look, next);
    let stop = each(
        "$.found.Executions",
        "$$.Map.Item.Value.ExecutionArn",
        stop,
        "Over",
    );
    machines["ItemProcessor"]["States"]["Stop"] = stop;
    machines
}

/// What EC2 finds by tag, and how it is ended.
struct Ec2 {
    look: &'static str,
    parameters: Value,
    ids: &'static str,
    end: &'static str,
    field: &'static str,
}

impl Ec2 {
    /// Adds the states that look, choose and end.
    fn states(self, scope: &Scope, names: [String; 3], next: &str, states: &mut Value) {
        let again = json!([{
            "ErrorEquals": ["States.ALL"],
            "IntervalSeconds": 10,
            "BackoffRate": 2,
            "MaxAttempts": RETRIES,
        }]);
        let [find, any, end] = names;
        let action = |action: &str| format!("ec2:{action}");
        let mut look = then(call_of(scope, &action(self.look), self.parameters), next);
        look["ResultSelector"] = json!({ "ids.$": self.ids });
        look["ResultPath"] = "$.found".into();
        look["Retry"] = again.clone();
        look["Next"] = any.as_str().into();
        let ids = json!({ format!("{}.$", self.field): "$.found.ids" });
        let mut removal = then(call_of(scope, &action(self.end), ids), next);
        removal["Retry"] = again;
        states[&any] = json!({
            "Type": "Choice",
            "Choices": [{ "Variable": "$.found.ids[0]", "IsPresent": true, "Next": end }],
            "Default": next,
        });
        states[find] = look;
        states[end] = removal;
    }
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
        let (functions, executions) = (3, 5);
        let of_map = |state: &Value| match state["ItemsPath"].as_str() {
            // Of each function a call and its end; of the machine its look, a map and its end.
            Some("$.functions") => 2 * functions,
            Some("$.machines") => 3 + 2 * executions,
            _ => 0,
        };
        let (mut at, mut way) = (definition["StartAt"].as_str().unwrap(), Vec::new());
        loop {
            let state = &states[at];
            way.push(at);
            if state["Type"] == "Succeed" {
                break;
            }
            // A choice that finds something leads to the longer way.
            let next = state["Next"].as_str();
            at = next.or(state["Choices"][0]["Next"].as_str()).unwrap();
        }
        let seen: BTreeSet<&str> = way.iter().copied().collect();
        assert_eq!(seen.len(), states.len());
        let attempts = |name: &&str| states[*name]["Retry"][0]["MaxAttempts"].as_u64();
        let again: u64 = way.iter().filter_map(attempts).sum();
        let within: u64 = way.iter().map(|name| of_map(&states[*name])).sum();
        // The begin of an execution is a transition, too.
        let all = 1 + way.len() as u64 + again + within;
        let bound = epochcost_aws_plan::switch_transitions(functions, 1, executions);
        assert!(all <= bound && all + 2 > bound, "{all} of {bound}");
    }

    /// Whatever fails, the rest is still done: every task but a choice goes on after an error.
    #[test]
    fn a_call_that_fails_keeps_nothing_else_from_its_end() {
        fn tasks<'a>(states: &'a Value, found: &mut Vec<&'a Value>) {
            for state in states.as_object().unwrap().values() {
                if state["Type"] == "Task" {
                    found.push(state);
                }
                if state["ItemProcessor"].is_object() {
                    tasks(&state["ItemProcessor"]["States"], found);
                }
            }
        }
        let (definition, mut found) = (definition(&scope()), Vec::new());
        tasks(&definition["States"], &mut found);
        assert_eq!(found.len(), ROUNDS * 7);
        for task in found {
            let caught = &task["Catch"][0];
            assert_eq!(caught["ErrorEquals"], json!(["States.ALL"]), "{task}");
            assert!(caught["Next"].is_string(), "{task}");
        }
    }

    /// What the switch does is what its role may, and instances and endpoints are those of the run.
    #[test]
    fn the_switch_may_what_it_does_and_nothing_else() {
        let (scope, policy) = (scope(), permissions::switch(&scope()));
        let text = definition(&scope).to_string();
        let calls: BTreeSet<String> = text
            .split("aws-sdk:")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .map(|call| call.replace("sfn:", "states:").to_lowercase())
            .collect();
        let actions: BTreeSet<String> = (policy.statements().iter())
            .flat_map(|statement| statement.actions.iter())
            .map(|action| action.to_lowercase())
            .collect();
        assert_eq!(calls, actions);
        let tagged = format!("\"aws:ResourceTag/{RUN_TAG}\":[\"{}\"]", scope.run);
        assert!(policy.to_json().contains(&tagged));
        assert_eq!(text.matches(&format!("tag:{RUN_TAG}")).count(), 2 * ROUNDS);
        assert!(text.contains(&scope.run.to_string()));
    }

    #[test]
    fn times_are_written_as_a_wait_reads_them() {
        let at: Timestamp = "2026-11-21T13:00:00.75Z".parse().unwrap();
        assert_eq!(written(at), "2026-11-21T13:00:00Z");
    }
}
