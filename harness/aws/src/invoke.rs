//! Invocations of deployed functions and executions of state machines.

use aws_sdk_lambda::operation::RequestId;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use aws_sdk_sfn::types::{ExecutionStatus, HistoryEventType};

use crate::error::Cause;
use crate::resource::call;
use crate::{AwsError, Clients};

/// Puts an event into a function's queue and returns the request's id, which identifies
/// the invocation in the function's log. Does not wait for its end.
///
/// # Errors
/// When Lambda refuses the event.
pub async fn invoke(clients: &Clients, function: &str, event: Vec<u8>) -> Result<String, AwsError> {
    let doing = format!("invoke the function {function}");
    let request = clients
        .functions
        .invoke()
        .function_name(function)
        .invocation_type(InvocationType::Event)
        .payload(Blob::new(event));
    let answer = call!(&doing, request)?;
    let id = answer.request_id().map(ToOwned::to_owned);
    id.ok_or(AwsError::Incomplete {
        doing,
        what: "the request's id",
    })
}

/// Starts an execution of a state machine and returns its ARN. A repeated start with the
/// same name and input returns the same execution.
///
/// # Errors
/// When Step Functions refuses the execution.
pub async fn execute(
    clients: &Clients,
    state_machine: &str,
    name: &str,
    input: &str,
) -> Result<String, AwsError> {
    let request = clients
        .states
        .start_execution()
        .state_machine_arn(state_machine)
        .name(name)
        .input(input);
    let started = call!(format!("start the execution {name}"), request)?;
    Ok(started.execution_arn)
}

/// Progress of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Execution {
    /// The execution does not exist.
    Absent,
    /// States remain.
    Running,
    /// All states succeeded.
    Succeeded,
    /// A state failed; with the cause.
    Failed(String),
}

/// Returns the progress of an execution.
///
/// # Errors
/// When Step Functions refuses or cannot be reached.
pub async fn describe_execution(clients: &Clients, arn: &str) -> Result<Execution, AwsError> {
    let request = clients.states.describe_execution().execution_arn(arn);
    let described = match call!(format!("describe the execution {arn}"), request) {
        Err(error) if error.cause() == Some(Cause::NotFound) => return Ok(Execution::Absent),
        described => described?,
    };
    Ok(match described.status {
        ExecutionStatus::Running | ExecutionStatus::PendingRedrive => Execution::Running,
        ExecutionStatus::Succeeded => Execution::Succeeded,
        other => Execution::Failed(described.cause.unwrap_or_else(|| other.to_string())),
    })
}

/// Returns the number of state transitions in an execution's history: each entered state,
/// and each attempt of a task after its first ("AWS Step Functions pricing").
///
/// # Errors
/// When Step Functions refuses or cannot be reached.
pub async fn transitions(clients: &Clients, arn: &str) -> Result<u64, AwsError> {
    let mut pages = clients
        .states
        .get_execution_history()
        .execution_arn(arn)
        .include_execution_data(false)
        .into_paginator()
        .send();
    let (mut tasks, mut maps, mut attempts) = (0, 0, 0);
    while let Some(page) = pages.next().await {
        let doing = format!("read the history of {arn}");
        let page = page.map_err(|error| AwsError::of(doing, error))?;
        for event in page.events {
            match event.r#type {
                HistoryEventType::TaskStateEntered => tasks += 1,
                HistoryEventType::MapStateEntered | HistoryEventType::ParallelStateEntered => {
                    maps += 1;
                }
                HistoryEventType::TaskScheduled => attempts += 1,
                _ => {}
            }
        }
    }
    Ok(maps + tasks.max(attempts))
}
