//! Work that is asked of what was deployed: invocations and executions.

use aws_sdk_lambda::operation::RequestId;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use aws_sdk_sfn::types::{ExecutionStatus, HistoryEventType};

use crate::error::Cause;
use crate::resource::call;
use crate::{AwsError, Clients};

/// Puts an event into a function's queue and returns the request's id, by which
/// the function's log knows the invocation. Nothing waits for its end: what
/// became of it is in the log.
///
/// # Errors
/// When Lambda does not take it.
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

/// Starts an execution of a state machine; its ARN. One that was started
/// before with the same name and input is the same execution.
///
/// # Errors
/// When Step Functions does not take it.
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

/// How far an execution is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Execution {
    /// Nobody has started it.
    Absent,
    /// It goes through its states.
    Running,
    /// It went through all of them.
    Succeeded,
    /// A state failed.
    Failed(String),
}

/// Looks at an execution.
///
/// # Errors
/// When Step Functions cannot be asked.
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

/// State transitions of an execution, by its history: a state entered is one,
/// and so is each task's attempt after its first ("AWS Step Functions pricing").
///
/// # Errors
/// When Step Functions cannot be asked.
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
                HistoryEventType::MapStateEntered => maps += 1,
                HistoryEventType::TaskScheduled => attempts += 1,
                _ => {}
            }
        }
    }
    Ok(maps + tasks.max(attempts))
}
