//! Requests of workers to the platform: invocations by Lambda's control API, workflow
//! executions by Step Functions' API.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::map_request;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use epochcost_systems::{ExecutionStatus, Invoke, Requests, SystemError, Task};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::gate::Gates;
use super::http::{self, Server};

/// The parts of StartExecution's request that matter here.
#[derive(Deserialize)]
struct StartExecution {
    input: String,
}

/// The parts of DescribeExecution's request that matter here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DescribeExecution {
    execution_arn: String,
}

/// The control API's server; stops when dropped.
pub(super) struct ControlApi {
    server: Server,
    /// First part of every path: a random word that only the workers know.
    secret: String,
}

impl ControlApi {
    /// Returns the endpoint, `http://HOST:PORT/SECRET`.
    pub(super) fn endpoint(&self) -> String {
        format!("{}/{}", self.server.endpoint(), self.secret)
    }
}

/// Serves the control API; every request becomes a follow-up before it is
/// answered. Faults of servers are those of `gates`.
pub(super) async fn serve(requests: Requests, gates: Arc<Gates>) -> std::io::Result<ControlApi> {
    let secret = Uuid::new_v4().simple().to_string();
    let invocations = format!("/{secret}/2015-03-31/functions/{{name}}/invocations");
    let faults = post(move |Path(number): Path<usize>| break_server(gates, number));
    let routes = Router::new()
        .route(&invocations, post(invoke))
        .route(&format!("/{secret}/"), post(step_functions))
        .route(&format!("/{secret}/faults/{{number}}"), faults)
        .layer(DefaultBodyLimit::disable())
        // Of a path that is known.
        .route_layer(map_request(http::admitted))
        .with_state(requests);
    Ok(ControlApi {
        server: http::serve_private(routes).await?,
        secret,
    })
}

async fn break_server(gates: Arc<Gates>, number: usize) -> Response {
    if gates.suffer(number).await {
        StatusCode::OK.into_response()
    } else {
        refused(format!("fault {number} is none of a server"))
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

async fn invoke(
    State(requests): State<Requests>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let task = match serde_json::from_slice::<Task>(&body) {
        Err(error) => return refused(format!("the payload is no task: {error}")),
        Ok(task) if task.function != name => {
            let given = task.function;
            return refused(format!("the task is for {given:?}, not for {name:?}"));
        }
        Ok(task) => task,
    };
    match header(&headers, "x-amz-invocation-type") {
        Some("Event") => match requests.forget(task).await {
            Ok(()) => StatusCode::ACCEPTED.into_response(),
            Err(error) => over(&error),
        },
        // Lambda answers 200 for a failed function, too, and reports the failure in a header.
        Some("RequestResponse") => match requests.call(task).await {
            Ok(outcome) => answered(json!(outcome)),
            Err(error) => (
                [("x-amz-function-error", "Unhandled")],
                json!({ "errorMessage": reason(&error) }).to_string(),
            )
                .into_response(),
        },
        kind => refused(format!(
            "Event and RequestResponse invocations are served, not {kind:?}"
        )),
    }
}

async fn step_functions(
    State(requests): State<Requests>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match header(&headers, "x-amz-target") {
        Some("AWSStepFunctions.StartExecution") => start_execution(&requests, &body).await,
        Some("AWSStepFunctions.DescribeExecution") => describe_execution(&requests, &body).await,
        target => refused(format!(
            "StartExecution and DescribeExecution are served, not {target:?}"
        )),
    }
}

async fn start_execution(requests: &Requests, body: &[u8]) -> Response {
    let task = serde_json::from_slice::<StartExecution>(body)
        .and_then(|request| serde_json::from_str::<Task>(&request.input));
    match task {
        Err(error) => refused(format!("the input is no task: {error}")),
        Ok(task) => match requests.start_workflow(task).await {
            Ok(name) => answered(json!({ "executionArn": name })),
            Err(error) => over(&error),
        },
    }
}

async fn describe_execution(requests: &Requests, body: &[u8]) -> Response {
    let name = match serde_json::from_slice::<DescribeExecution>(body) {
        Err(error) => return refused(format!("no execution is named: {error}")),
        Ok(request) => request.execution_arn,
    };
    match requests.status(&name).await {
        Err(error) => refused(reason(&error)),
        Ok(ExecutionStatus::Running) => answered(json!({ "status": "RUNNING" })),
        Ok(ExecutionStatus::Succeeded) => answered(json!({ "status": "SUCCEEDED" })),
        Ok(ExecutionStatus::Failed { reason }) => {
            answered(json!({ "status": "FAILED", "cause": reason }))
        }
    }
}

/// Returns the platform's message, without the caller.
fn reason(error: &SystemError) -> String {
    match error {
        SystemError::Invoke { reason, .. } => reason.clone(),
        other => other.to_string(),
    }
}

fn answered(body: Value) -> Response {
    ([("content-type", "application/json")], body.to_string()).into_response()
}

fn over(error: &SystemError) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, reason(error)).into_response()
}

fn refused(reason: String) -> Response {
    (StatusCode::BAD_REQUEST, reason).into_response()
}
