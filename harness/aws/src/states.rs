//! State machines in Amazon States Language, exported from the states that the local
//! interpreter runs.

use epochcost_systems::State;
use serde_json::{Map, Value, json};

/// Returns the definition of a machine that runs `states` in order, for one peer and one
/// epoch. Its input is a task. Every function receives the task with its own name, and
/// with the batch's number if it works on a mini-batch.
///
/// `arn_of` returns a function's ARN. With `retries`, invocations that Lambda throttled
/// are repeated; those that may have run are not.
pub fn definition(states: &[State], arn_of: impl Fn(&str) -> String, retries: bool) -> String {
    let mut machine = Map::new();
    let names: Vec<String> = (states.iter().enumerate())
        .map(|(index, state)| format!("{} {}", index + 1, state.function()))
        .collect();
    for (index, state) in states.iter().enumerate() {
        let mut value = match state {
            State::Task { function } => task(&arn_of(function), function, "$.batch", retries),
            State::MapBatches { function } => map(&arn_of(function), function, retries),
        };
        match names.get(index + 1) {
            Some(next) => value.insert("Next".to_owned(), json!(next)),
            None => value.insert("End".to_owned(), json!(true)),
        };
        machine.insert(names[index].clone(), Value::Object(value));
    }
    json!({
        "Comment": "One epoch of one peer; exported by epochcost",
        "StartAt": names.first(),
        "States": machine,
    })
    .to_string()
}

/// Returns a state that invokes a function with the machine's input, and passes that input
/// on unchanged: the function's answer is discarded.
fn task(arn: &str, function: &str, batch: &str, retries: bool) -> Map<String, Value> {
    let mut payload = payload(function, batch);
    payload.insert("job.$".to_owned(), json!("$.job"));
    let mut task = object(json!({
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": { "FunctionName": arn, "Payload": payload },
        "ResultPath": Value::Null,
    }));
    if retries {
        // Intervals that AWS recommends ("Handle transient Lambda service exceptions").
        let throttled = json!({
            "ErrorEquals": ["Lambda.TooManyRequestsException"],
            "IntervalSeconds": 2,
            "BackoffRate": 2,
            "MaxAttempts": 6,
        });
        task.insert("Retry".to_owned(), json!([throttled]));
    }
    task
}

/// Returns a state that invokes a function for each of the job's mini-batches at once; Step
/// Functions runs at most 40 branches of an inline map at a time.
fn map(arn: &str, function: &str, retries: bool) -> Map<String, Value> {
    let mut each = task(arn, function, "$.batch", retries);
    each.insert("End".to_owned(), json!(true));
    object(json!({
        "Type": "Map",
        "ItemsPath": "$.batches",
        "ItemSelector": {
            "job.$": "$.job",
            "rank.$": "$.rank",
            "epoch.$": "$.epoch",
            "batch.$": "$$.Map.Item.Value",
        },
        // 0 means no limit.
        "MaxConcurrency": 0,
        "ItemProcessor": {
            "ProcessorConfig": { "Mode": "INLINE" },
            "StartAt": "Batch",
            "States": { "Batch": each },
        },
        "ResultPath": Value::Null,
    }))
}

fn payload(function: &str, batch: &str) -> Map<String, Value> {
    object(json!({
        "function": function,
        "rank.$": "$.rank",
        "epoch.$": "$.epoch",
        "batch.$": batch,
    }))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Returns the input of an execution: the task with the numbers of its mini-batches, which
/// a definition cannot count itself.
pub fn input(task: &epochcost_systems::Task) -> Value {
    json!({
        "job": task.job,
        "rank": task.rank,
        "epoch": task.epoch,
        "batch": Value::Null,
        "batches": (0..task.job.batches_per_worker).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use epochcost_systems::{Fidelity, Job, find, testing};

    use super::*;

    /// Four workers, three mini-batches each.
    fn job() -> Job {
        testing::job("spirt", Fidelity::Paper, 4, &Map::new()).unwrap()
    }

    /// Every path through the machine is the interpreter's: the same functions
    /// in the same order, and one branch a mini-batch where it has branches.
    #[test]
    fn a_machine_walks_through_the_workflows_states() {
        let job = job();
        let states = find("spirt").unwrap().bind(&job).unwrap().states();
        assert!(!states.is_empty());
        let text = definition(&states, |function| format!("arn:{function}"), true);
        let machine: Value = serde_json::from_str(&text).unwrap();
        let mut at = machine["StartAt"].as_str().unwrap().to_owned();
        for (index, state) in states.iter().enumerate() {
            let value = &machine["States"][&at];
            let (invoking, is_map) = match state {
                State::Task { .. } => (value, false),
                State::MapBatches { .. } => (&value["ItemProcessor"]["States"]["Batch"], true),
            };
            assert_eq!(value["Type"], if is_map { "Map" } else { "Task" });
            let arn = format!("arn:{}", state.function());
            assert_eq!(invoking["Parameters"]["FunctionName"], arn);
            assert_eq!(
                invoking["Parameters"]["Payload"]["function"],
                state.function()
            );
            assert_eq!(value["ResultPath"], Value::Null);
            // Nothing that may have run is tried again.
            let retried = &invoking["Retry"][0]["ErrorEquals"];
            assert_eq!(*retried, json!(["Lambda.TooManyRequestsException"]));
            if index + 1 < states.len() {
                at = value["Next"].as_str().unwrap().to_owned();
            } else {
                assert_eq!(value["End"], true);
            }
        }
        assert_eq!(machine["States"].as_object().unwrap().len(), states.len());
        let published = definition(&states, str::to_owned, false);
        assert!(!published.contains("Retry"), "{published}");
    }

    /// What a function receives is a task, as the worker reads it.
    #[test]
    fn payloads_are_tasks() {
        let job = job();
        let task = epochcost_systems::Task {
            job,
            function: "ignored".into(),
            rank: 2,
            epoch: 1,
            batch: None,
        };
        let input = input(&task);
        assert_eq!(input["batches"], json!([0, 1, 2]));
        let mut received = Map::new();
        let given = super::task("arn:f", "compute_gradients", "$.batch", false);
        for (key, value) in given["Parameters"]["Payload"].as_object().unwrap() {
            match key.strip_suffix(".$") {
                Some(key) => {
                    let field = value.as_str().unwrap().strip_prefix("$.").unwrap();
                    received.insert(key.to_owned(), input[field].clone());
                }
                None => {
                    received.insert(key.clone(), value.clone());
                }
            }
        }
        let read: epochcost_systems::Task =
            serde_json::from_value(Value::Object(received)).unwrap();
        assert_eq!(read.function, "compute_gradients");
        assert_eq!((read.rank, read.epoch, read.batch), (2, 1, None));
        assert_eq!(read.job, task.job);
    }
}
