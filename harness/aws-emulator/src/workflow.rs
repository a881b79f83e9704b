//! The part of Amazon States Language that this project's state machines use: tasks
//! that invoke functions, maps over one processor, parallel branches, and the order of
//! states.

use std::collections::BTreeMap;

use epochcost_systems::Task;
use futures_util::future::{BoxFuture, try_join_all};
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::functions::FunctionStore;

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
        parameters: Parameters,
        next: Option<String>,
    },
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

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Parameters {
    function_name: String,
    payload: Map<String, Value>,
}

/// Observer of every state that is entered: receives the type of its event in the history.
pub(crate) type OnState<'a> = &'a (dyn Fn(&'static str) + Send + Sync);

/// Runs a machine. Every state has the machine's input, since results are discarded.
pub(crate) fn run<'a>(
    machine: &'a Machine,
    input: &'a Value,
    functions: &'a FunctionStore,
    on_state: OnState<'a>,
) -> BoxFuture<'a, Result<(), String>> {
    Box::pin(async move {
        let mut at = Some(&machine.start_at);
        while let Some(name) = at {
            let state = machine.states.get(name);
            let state = state.ok_or_else(|| format!("there is no state {name:?}"))?;
            at = match state {
                State::Task { parameters, next } => {
                    on_state("TaskStateEntered");
                    invoke(parameters, input, functions)
                        .await
                        .map_err(|reason| format!("{name}: {reason}"))?;
                    next.as_ref()
                }
                State::Map {
                    items_path,
                    item_selector,
                    item_processor,
                    next,
                } => {
                    on_state("MapStateEntered");
                    // One branch per item, all at once.
                    let items = at_path(input, items_path)?;
                    let items = items
                        .as_array()
                        .ok_or("the items of a map must be an array")?;
                    let inputs: Vec<Value> = (items.iter())
                        .map(|item| filled(item_selector, input, Some(item)).map(Value::Object))
                        .collect::<Result<_, _>>()?;
                    // The first failure ends the map.
                    let branches = inputs.iter();
                    try_join_all(
                        branches.map(|input| run(item_processor, input, functions, on_state)),
                    )
                    .await?;
                    next.as_ref()
                }
                State::Parallel { branches, next } => {
                    on_state("ParallelStateEntered");
                    // The first failure ends all branches.
                    let running = branches
                        .iter()
                        .map(|branch| run(branch, input, functions, on_state));
                    try_join_all(running).await?;
                    next.as_ref()
                }
            };
        }
        Ok(())
    })
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
                let value = match (path.as_str(), item) {
                    ("$$.Map.Item.Value", Some(item)) => item,
                    (path, _) => at_path(input, path)?,
                };
                filled.insert(name.to_owned(), value.clone());
            }
            (Some(name), _) => return Err(format!("{name}.$ must be a path")),
            (None, value) => {
                filled.insert(name.clone(), value.clone());
            }
        }
    }
    Ok(filled)
}

/// Returns the value at `$.NAME`, or at `$.NAME[NUMBER]`, of an input.
fn at_path<'a>(input: &'a Value, path: &str) -> Result<&'a Value, String> {
    let field = path.strip_prefix("$.").unwrap_or_default();
    let found = match field
        .strip_suffix(']')
        .and_then(|field| field.split_once('['))
    {
        None => input.get(field),
        Some((name, number)) => {
            let list = input.get(name);
            let number: Option<usize> = number.parse().ok();
            list.zip(number).and_then(|(list, number)| list.get(number))
        }
    };
    found.ok_or_else(|| format!("there is nothing at {path:?} of the input"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_name_a_field_or_one_of_its_items() {
        let input = json!({"epoch": 2, "batches": [5, 6]});
        assert_eq!(at_path(&input, "$.epoch").unwrap(), 2);
        assert_eq!(at_path(&input, "$.batches[1]").unwrap(), 6);
        for path in [
            "$.batches[2]",
            "$.batches[x]",
            "$.none[0]",
            "$.none",
            "epoch",
            "$.",
        ] {
            assert!(at_path(&input, path).is_err(), "{path}");
        }
    }
}
