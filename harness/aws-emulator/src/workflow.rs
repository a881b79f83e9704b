//! The part of Amazon States Language that this project's state machines use: tasks
//! that invoke functions or call services, with what follows an error, maps over one processor,
//! parallel branches, waits, choices by presence, and the order of states.

use std::collections::BTreeMap;
use std::sync::Arc;

use epochcost_systems::Task;
use futures_util::future::{BoxFuture, try_join_all};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::backend::Backend;
use crate::clock::Clock;
use crate::functions::FunctionStore;
use crate::machines::Executions;

/// Definition of a state machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Machine {
    start_at: String,
    states: BTreeMap<String, State>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "Type")]
enum State {
    #[serde(rename_all = "PascalCase")]
    Task {
        resource: String,
        parameters: Map<String, Value>,
        result_selector: Option<Map<String, Value>>,
        /// Path of the result in what the next state receives; none discards it.
        result_path: Option<String>,
        #[serde(default)]
        catch: Vec<Catch>,
        next: Option<String>,
    },
    #[serde(rename_all = "PascalCase")]
    Wait {
        timestamp_path: Option<String>,
        seconds: Option<f64>,
        next: Option<String>,
    },
    #[serde(rename_all = "PascalCase")]
    Choice {
        choices: Vec<Presence>,
        default: String,
    },
    Succeed {},
    #[serde(rename_all = "PascalCase")]
    Map {
        items_path: String,
        item_selector: Map<String, Value>,
        item_processor: Machine,
        next: Option<String>,
    },
    #[serde(rename_all = "PascalCase")]
    Parallel {
        branches: Vec<Machine>,
        next: Option<String>,
    },
}

/// What follows any error; its result is discarded.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Catch {
    next: String,
}

/// Choice of a state where something is present at a path.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Presence {
    variable: String,
    is_present: bool,
    next: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Parameters {
    function_name: String,
    payload: Map<String, Value>,
}

/// Observer of every state that is entered: receives the type of its event in the history.
pub(crate) type OnState<'a> = &'a (dyn Fn(&'static str) + Send + Sync);

/// What executions reach.
pub(crate) struct Surroundings {
    pub(crate) functions: Arc<FunctionStore>,
    pub(crate) executions: Executions,
    pub(crate) backend: Backend,
    pub(crate) clock: Arc<Clock>,
}

/// Runs a machine, whose states have its input and what earlier results add to it.
pub(crate) fn run<'a>(
    machine: &'a Machine,
    input: &'a Value,
    cloud: &'a Surroundings,
    on_state: OnState<'a>,
) -> BoxFuture<'a, Result<(), String>> {
    Box::pin(async move {
        let mut input = input.clone();
        let mut at = Some(&machine.start_at);
        while let Some(name) = at {
            let state = machine.states.get(name);
            let state = state.ok_or_else(|| format!("there is no state {name:?}"))?;
            at = match state {
                State::Task {
                    resource,
                    parameters,
                    result_selector,
                    result_path,
                    catch,
                    next,
                } => {
                    on_state("TaskStateEntered");
                    let parameters = filled(parameters, &input, None)?;
                    let result = match (
                        task(resource, parameters, &input, cloud).await,
                        catch.first(),
                    ) {
                        (Ok(result), _) => result,
                        (Err(_), Some(caught)) => {
                            at = Some(&caught.next);
                            continue;
                        }
                        (Err(reason), None) => return Err(format!("{name}: {reason}")),
                    };
                    let result = match result_selector {
                        Some(selector) => Value::Object(filled(selector, &result, None)?),
                        None => result,
                    };
                    if let Some(path) = result_path {
                        let field = path.strip_prefix("$.").ok_or("no path of a result")?;
                        input[field] = result;
                    }
                    next.as_ref()
                }
                State::Wait {
                    timestamp_path,
                    seconds,
                    next,
                } => {
                    on_state("WaitStateEntered");
                    let at_s = match timestamp_path {
                        Some(path) => {
                            let at = at_path(&input, path)?;
                            let at = (at.as_str().unwrap_or_default().parse::<Timestamp>())
                                .map_err(|error| format!("{name}: {error}"))?;
                            at.as_second() as f64
                        }
                        None => cloud.clock.now_s() + seconds.unwrap_or_default(),
                    };
                    cloud.clock.until(at_s).await;
                    next.as_ref()
                }
                State::Choice { choices, default } => {
                    on_state("ChoiceStateEntered");
                    let is_chosen = |choice: &&Presence| {
                        at_path(&input, &choice.variable).is_ok() == choice.is_present
                    };
                    Some(
                        choices
                            .iter()
                            .find(is_chosen)
                            .map_or(default, |chosen| &chosen.next),
                    )
                }
                State::Succeed {} => {
                    on_state("SucceedStateEntered");
                    None
                }
                State::Map {
                    items_path,
                    item_selector,
                    item_processor,
                    next,
                } => {
                    on_state("MapStateEntered");
                    // One branch per item, all at once.
                    let items = at_path(&input, items_path)?;
                    let items = items
                        .as_array()
                        .ok_or("the items of a map must be an array")?;
                    let inputs: Vec<Value> = (items.iter())
                        .map(|item| filled(item_selector, &input, Some(item)).map(Value::Object))
                        .collect::<Result<_, _>>()?;
                    // The first failure ends the map.
                    let branches = inputs.iter();
                    try_join_all(branches.map(|input| run(item_processor, input, cloud, on_state)))
                        .await?;
                    next.as_ref()
                }
                State::Parallel { branches, next } => {
                    on_state("ParallelStateEntered");
                    // The first failure ends all branches.
                    let running = branches
                        .iter()
                        .map(|branch| run(branch, &input, cloud, on_state));
                    try_join_all(running).await?;
                    next.as_ref()
                }
            };
        }
        Ok(())
    })
}

/// Does a task's work: a call of a service, or the invocation of a function.
async fn task(
    resource: &str,
    parameters: Map<String, Value>,
    input: &Value,
    cloud: &Surroundings,
) -> Result<Value, String> {
    match resource.rsplit_once(":aws-sdk:") {
        Some((_, call)) => service(call, &Value::Object(parameters), cloud).await,
        None => {
            let parameters = serde_json::from_value(Value::Object(parameters));
            let parameters: Parameters = parameters.map_err(|error| error.to_string())?;
            invoke(&parameters, input, &cloud.functions).await?;
            Ok(Value::Null)
        }
    }
}

/// Calls a service as the dead man's switch does.
async fn service(call: &str, parameters: &Value, cloud: &Surroundings) -> Result<Value, String> {
    let (backend, region) = (&cloud.backend, cloud.backend.region());
    let text = |field: &str| -> Result<&str, String> {
        let text = parameters[field].as_str();
        text.ok_or_else(|| format!("{field} of {call} is no string"))
    };
    let texts = |list: &Value| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let listed = |ids: Vec<String>, field: &str| -> Value {
        ids.into_iter().map(|id| json!({ field: id })).collect()
    };
    let filters = || -> Vec<(String, Vec<String>)> {
        let filters = parameters["Filters"].as_array().into_iter().flatten();
        let name = |filter: &Value| filter["Name"].as_str().unwrap_or_default().to_owned();
        filters
            .map(|filter| (name(filter), texts(&filter["Values"])))
            .collect()
    };
    match call {
        "ec2:describeVpcEndpoints" => {
            let ids = backend
                .ids(region, "DescribeVpcEndpoints", &filters(), "vpcEndpointId")
                .await?;
            Ok(json!({ "VpcEndpoints": listed(ids, "VpcEndpointId") }))
        }
        "ec2:describeInstances" => {
            let ids = backend
                .ids(region, "DescribeInstances", &filters(), "instanceId")
                .await?;
            let instances = listed(ids, "InstanceId");
            Ok(json!({ "Reservations": [{ "Instances": instances }] }))
        }
        "ec2:deleteVpcEndpoints" => {
            let ids = texts(&parameters["VpcEndpointIds"]);
            backend.remove_endpoints(region, &ids).await?;
            Ok(json!({ "Unsuccessful": [] }))
        }
        "ec2:terminateInstances" => {
            for id in texts(&parameters["InstanceIds"]) {
                backend.terminate(region, &id).await?;
            }
            Ok(json!({}))
        }
        "lambda:deleteFunction" => {
            let removed = cloud.functions.remove(text("FunctionName")?);
            removed.map_err(|refusal| refusal.message)?;
            Ok(json!({}))
        }
        "sfn:listExecutions" => {
            let running = cloud.executions.running_of(text("StateMachineArn")?);
            Ok(json!({ "Executions": listed(running, "ExecutionArn") }))
        }
        "sfn:stopExecution" => {
            cloud.executions.stop(text("ExecutionArn")?);
            Ok(json!({}))
        }
        other => Err(format!("{other:?} is not served here")),
    }
}

/// Invokes a task's function and waits for its end.
async fn invoke(
    parameters: &Parameters,
    input: &Value,
    functions: &FunctionStore,
) -> Result<(), String> {
    let payload = filled(&parameters.payload, input, None)?;
    let task: Task = serde_json::from_value(Value::Object(payload))
        .map_err(|error| format!("the payload is no task: {error}"))?;
    let function = functions.find(&parameters.function_name);
    let function = function.map_err(|refusal| refusal.message)?;
    function.run(&task, Uuid::new_v4()).await.map(drop)
}

/// Fills a template: replaces each path, the value of a field whose name ends in `.$`,
/// with the value at it.
fn filled(
    template: &Map<String, Value>,
    input: &Value,
    item: Option<&Value>,
) -> Result<Map<String, Value>, String> {
    let mut filled = Map::new();
    for (name, value) in template {
        match (name.strip_suffix(".$"), value) {
            (Some(name), Value::String(path)) => {
                let value = match (path.strip_prefix("$$.Map.Item.Value"), item) {
                    (Some(""), Some(item)) => item.clone(),
                    (Some(of_item), Some(item)) => at_path(item, &format!("${of_item}"))?,
                    _ => at_path(input, path)?,
                };
                filled.insert(name.to_owned(), value);
            }
            (Some(name), _) => return Err(format!("{name}.$ must be a path")),
            (None, value) => {
                filled.insert(name.clone(), value.clone());
            }
        }
    }
    Ok(filled)
}

/// Returns the value at a path such as `$.NAME`, `$.NAME[NUMBER]` or `$.NAME[*].NAME`.
fn at_path(input: &Value, path: &str) -> Result<Value, String> {
    let nothing = || format!("there is nothing at {path:?} of the input");
    let fields = path.strip_prefix("$.").ok_or_else(nothing)?;
    found(input, fields).ok_or_else(nothing)
}

/// Returns the value at fields, separated by dots, of a value.
fn found(value: &Value, fields: &str) -> Option<Value> {
    let (field, rest) = match fields.split_once('.') {
        Some((field, rest)) => (field, Some(rest)),
        None => (fields, None),
    };
    let of = |value: &Value| match rest {
        Some(rest) => found(value, rest),
        None => Some(value.clone()),
    };
    let Some((name, number)) = field
        .strip_suffix(']')
        .and_then(|field| field.split_once('['))
    else {
        return of(value.get(field)?);
    };
    let list = value.get(name)?.as_array()?;
    match number {
        // What is found below a second one is one list, too.
        "*" if rest.is_some_and(|rest| rest.contains("[*]")) => {
            let found: Option<Vec<Value>> = list.iter().map(of).collect();
            let within = |one: Value| one.as_array().cloned().unwrap_or_default();
            Some(found?.into_iter().flat_map(within).collect())
        }
        "*" => list.iter().map(of).collect(),
        number => of(list.get(number.parse::<usize>().ok()?)?),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn paths_name_a_field_or_one_of_its_items() {
        let input = json!({"epoch": 2, "batches": [5, 6], "found": {"ids": [{"id": "a"}]}});
        let twice = json!({"all": [{"of": [{"id": "a"}, {"id": "b"}]}, {"of": [{"id": "c"}]}]});
        let all = "$.all[*].of[*].id";
        for (input, path, expected) in [
            (&input, "$.epoch", json!(2)),
            (&input, "$.batches[1]", json!(6)),
            (&input, "$.found.ids[0].id", json!("a")),
            (&input, "$.found.ids[*].id", json!(["a"])),
            (&twice, all, json!(["a", "b", "c"])),
            (&json!({"all": []}), all, json!([])),
        ] {
            assert_eq!(at_path(input, path).unwrap(), expected, "{path}");
        }
        let none = "$.found.ids[1] $.batches[2] $.batches[x] $.none[0] $.none epoch $.";
        for path in none.split(' ') {
            assert!(at_path(&input, path).is_err(), "{path}");
        }
    }
}
