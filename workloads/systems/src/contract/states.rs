//! State machines in Amazon States Language, exported from the states that the local
//! interpreter runs.

use serde_json::{Map, Value, json};

use crate::{FanOut, State, Task};

/// Returns the definition of a machine that runs `states` in order, for one peer and one
/// round of an epoch of `batches` mini-batches in `rounds` rounds. Its input is that of
/// [`input`]. Every function receives the task with its own name, and with the batch's
/// number if it works on a mini-batch.
///
/// `arn_of` returns a function's ARN. With `retries`, invocations that Lambda throttled
/// are repeated; those that may have run are not.
pub fn definition(
    states: &[State],
    batches: usize,
    rounds: usize,
    arn_of: impl Fn(&str) -> String,
    retries: bool,
) -> String {
    let (states, batches) = of_round(states, batches, rounds);
    let names: Vec<String> = (states.iter().enumerate())
        .map(|(index, state)| format!("{} {}", index + 1, state.function()))
        .collect();
    let mut machine = Map::new();
    for (index, state) in states.iter().enumerate() {
        let arn = arn_of(state.function());
        let mut value = match state {
            State::Task { function } => task(&arn, function, "$.batch", retries),
            State::Batches { function, fan_out } => match fan_out {
                FanOut::Parallel => parallel(&arn, function, batches, retries),
                FanOut::Map => map(&arn, function, retries),
            },
        };
        match names.get(index + 1) {
            Some(next) => value["Next"] = json!(next),
            None => value["End"] = json!(true),
        }
        machine.insert(names[index].clone(), value);
    }
    json!({
        "Comment": "One round of one peer: by default, an epoch; exported by epochcost",
        "StartAt": names.first(),
        "States": machine,
    })
    .to_string()
}

/// Returns the states of one round as they are deployed, and the number of its mini-batches at
/// most. Branches are counted when the machine is created: where rounds differ in their number of
/// mini-batches, an inline map takes their place.
fn of_round(states: &[State], batches: usize, rounds: usize) -> (Vec<State>, usize) {
    let rounds = rounds.max(1);
    let deployed = |state: &State| match state {
        State::Batches { function, .. } if !batches.is_multiple_of(rounds) => State::Batches {
            function,
            fan_out: FanOut::Map,
        },
        state => state.clone(),
    };
    (
        states.iter().map(deployed).collect(),
        batches.div_ceil(rounds),
    )
}

/// Hard limit of Step Functions on one state machine or execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineLimit {
    /// Size of the definition.
    Definition,
    /// Events in the history of an execution.
    History,
}

/// Largest definition, bytes ("CreateStateMachine", length constraints of `definition`).
pub const DEFINITION_BYTES_LIMIT: f64 = 1_048_576.0;
/// Most events of a standard workflow's execution ("Step Functions service quotas").
pub const HISTORY_EVENTS_LIMIT: f64 = 25_000.0;

/// Returns the limit that a machine of [`definition`] exceeds, and by how much; `None` as a limit
/// stands for a platform without it. Needs no definition written, which may be long.
pub fn exceeded(
    states: &[State],
    batches: usize,
    rounds: usize,
    arn_of: impl Fn(&str) -> String,
    (bytes_limit, events_limit): (Option<f64>, Option<f64>),
) -> Option<(MachineLimit, String)> {
    if states.is_empty() {
        return None;
    }
    let (states, batches) = of_round(states, batches, rounds);
    let over = |limit, is: f64, most: Option<f64>, what, remedy| {
        let most = most.filter(|most| is > *most)?;
        let reason = format!(
            "an execution over {batches} mini-batches has {is:.0} {what}, and Step Functions takes \
             {most:.0}; larger batches, more rounds per epoch{remedy} make it smaller"
        );
        Some((limit, reason))
    };
    // The execution itself starts and ends.
    let events = 2 + states
        .iter()
        .map(|state| state.events(batches))
        .sum::<u64>();
    let (history, what) = (MachineLimit::History, "events in its history");
    over(history, events as f64, events_limit, what, "").or_else(|| {
        let bytes = definition_bytes(&states, batches, arn_of);
        let (definition, what) = (MachineLimit::Definition, "bytes of definition");
        over(definition, bytes, bytes_limit, what, " or `fan_out: map`")
    })
}

/// Returns the bytes of the definition for one round of `batches` mini-batches: branches differ in
/// the digits of their number alone, which each has three times.
fn definition_bytes(states: &[State], batches: usize, arn_of: impl Fn(&str) -> String) -> f64 {
    let of = |branches| definition(states, branches, 1, &arn_of, true).len() as f64;
    let (first, second) = (of(1), of(2));
    let is_parallel = |state: &&State| match state {
        State::Batches { fan_out, .. } => *fan_out == FanOut::Parallel,
        State::Task { .. } => false,
    };
    let numbers = 3.0 * states.iter().filter(is_parallel).count() as f64;
    let tens = std::iter::successors(Some(10.0), |ten| Some(ten * 10.0));
    let further = tens.map(|ten| batches as f64 - ten);
    let further_digits: f64 = further.take_while(|numbers| *numbers > 0.0).sum();
    first + (batches as f64 - 1.0) * (second - first) + numbers * further_digits
}

/// Returns a state that invokes a function with the machine's input, and passes that input
/// on unchanged: the function's answer is discarded. `batch` is the path of the batch's
/// number in the input.
fn task(arn: &str, function: &str, batch: &str, retries: bool) -> Value {
    let mut task = json!({
        "Type": "Task",
        "Resource": format!("arn:{}:states:::lambda:invoke", partition(arn)),
        "Parameters": {
            "FunctionName": arn,
            "Payload": {
                "job.$": "$.job",
                "function": function,
                "rank.$": "$.rank",
                "epoch.$": "$.epoch",
                "round.$": "$.round",
                "batch.$": batch,
            },
        },
        "ResultPath": Value::Null,
    });
    if retries {
        // Intervals that AWS recommends ("Handle transient Lambda service exceptions").
        task["Retry"] = json!([{
            "ErrorEquals": ["Lambda.TooManyRequestsException"],
            "IntervalSeconds": 2,
            "BackoffRate": 2,
            "MaxAttempts": 6,
        }]);
    }
    task
}

/// Returns a state with a branch for each of `batches` mini-batches, all of which run at the
/// same time. A branch passes nothing on: together, copies of the input could exceed the
/// 256 KiB that a state may return.
fn parallel(arn: &str, function: &str, batches: usize, retries: bool) -> Value {
    let branch = |batch: usize| {
        let name = format!("Batch {batch}");
        let number = format!("$.batches[{batch}]");
        let mut invoking = task(arn, function, &number, retries);
        invoking["OutputPath"] = Value::Null;
        invoking["End"] = json!(true);
        json!({ "StartAt": name, "States": { name: invoking } })
    };
    json!({
        "Type": "Parallel",
        "Branches": (0..batches).map(branch).collect::<Vec<_>>(),
        "ResultPath": Value::Null,
    })
}

/// Returns a state that invokes a function for each of the job's mini-batches, of which Step
/// Functions runs at most 40 at a time.
fn map(arn: &str, function: &str, retries: bool) -> Value {
    let mut each = task(arn, function, "$.batch", retries);
    each["End"] = json!(true);
    json!({
        "Type": "Map",
        "ItemsPath": "$.batches",
        "ItemSelector": {
            "job.$": "$.job",
            "rank.$": "$.rank",
            "epoch.$": "$.epoch",
            "round.$": "$.round",
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
    })
}

/// Returns the partition of an ARN: `aws`, `aws-cn`, `aws-us-gov`.
fn partition(arn: &str) -> &str {
    let parts: Vec<&str> = arn.split(':').collect();
    match parts[..] {
        ["arn", partition, _, _, _, ..] => partition,
        _ => "aws",
    }
}

/// Returns the input of an execution: the task with the numbers of its mini-batches, which
/// a definition cannot count itself, where an epoch has `rounds` executions.
pub fn input(task: &Task, rounds: usize) -> Value {
    json!({
        "job": task.job,
        "rank": task.rank,
        "epoch": task.epoch,
        "round": task.round,
        "batch": Value::Null,
        "batches": task.minibatches(rounds).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Fidelity, Job, testing};

    /// Four workers, three mini-batches each.
    fn job(fan_out: &str) -> Job {
        let mut settings = Map::new();
        settings.insert("fan_out".to_owned(), json!(fan_out));
        testing::job("spirt", Fidelity::Paper, 4, &settings).unwrap()
    }

    /// Every path through the machine is the interpreter's: the same functions
    /// in the same order, and one branch per mini-batch where it has branches.
    #[test]
    fn a_machine_walks_through_the_workflows_states() {
        for (fan_out, kind) in [("parallel", "Parallel"), ("map", "Map")] {
            walk(&job(fan_out), kind);
        }
    }

    fn walk(job: &Job, kind: &str) {
        let states = testing::states(job).unwrap();
        assert!(!states.is_empty());
        let text = definition(&states, 3, 1, |function| format!("arn:{function}"), true);
        let machine: Value = serde_json::from_str(&text).unwrap();
        let mut at = machine["StartAt"].as_str().unwrap().to_owned();
        for (index, state) in states.iter().enumerate() {
            let value = &machine["States"][&at];
            let (invoking, is) = match state {
                State::Task { .. } => (value, "Task"),
                State::Batches { fan_out, .. } => match fan_out {
                    FanOut::Map => (&value["ItemProcessor"]["States"]["Batch"], kind),
                    FanOut::Parallel => {
                        let branches = value["Branches"].as_array().unwrap();
                        assert_eq!(branches.len(), 3);
                        for (batch, branch) in branches.iter().enumerate() {
                            let invoking = &branch["States"][format!("Batch {batch}")];
                            let number = &invoking["Parameters"]["Payload"]["batch.$"];
                            assert_eq!(*number, format!("$.batches[{batch}]"));
                        }
                        (&branches[0]["States"]["Batch 0"], kind)
                    }
                },
            };
            assert_eq!(value["Type"], is);
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
        let published = definition(&states, 3, 1, str::to_owned, false);
        assert!(!published.contains("Retry"), "{published}");
    }

    /// Rounds of equal numbers of mini-batches have a branch for each; others, a map.
    #[test]
    fn branches_are_those_of_one_round() {
        let job = job("parallel");
        let states = testing::states(&job).unwrap();
        let branches = |batches, rounds| {
            let text = definition(&states, batches, rounds, str::to_owned, false);
            text.matches("\"StartAt\":\"Batch ").count()
        };
        assert_eq!((branches(6, 1), branches(6, 3)), (6, 2));
        assert_eq!(branches(7, 3), 0);
    }

    /// The closed form is the definition's length, whatever the digits of its numbers.
    #[test]
    fn a_definitions_bytes_are_known_before_it_is_written() {
        for (fan_out, batches) in [
            ("map", 500),
            ("parallel", 1),
            ("parallel", 10),
            ("parallel", 1234),
        ] {
            let states = testing::states(&job(fan_out)).unwrap();
            let arn = |function: &str| format!("arn:{function}");
            let written = definition(&states, batches, 1, arn, true).len() as f64;
            assert_eq!(
                definition_bytes(&states, batches, arn),
                written,
                "{fan_out} {batches}"
            );
        }
    }

    #[test]
    fn a_machine_invokes_in_its_functions_partition() {
        let states = testing::states(&job("map")).unwrap();
        let arn = |function: &str| format!("arn:aws-cn:lambda:cn-north-1:1:function:{function}");
        let text = definition(&states, 3, 1, arn, true);
        assert!(text.contains("arn:aws-cn:states:::lambda:invoke"), "{text}");
        assert!(!text.contains("arn:aws:"), "{text}");
    }

    /// What a function receives is a task, as the worker reads it.
    #[test]
    fn payloads_are_tasks() {
        let job = job("map");
        let task = Task {
            job,
            function: "ignored".into(),
            rank: 2,
            epoch: 1,
            batch: None,
            round: 0,
        };
        let input = input(&task, 1);
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
        let read: Task = serde_json::from_value(Value::Object(received)).unwrap();
        assert_eq!(read.function, "compute_gradients");
        assert_eq!((read.rank, read.epoch, read.batch), (2, 1, None));
        assert_eq!(read.job, task.job);
    }
}
