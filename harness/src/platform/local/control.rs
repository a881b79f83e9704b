//! What workers may ask of the platform: asynchronous invocations by Lambda's
//! control API, workflow executions by Step Functions' API.

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use bytes::Bytes;
use epochcost_systems::{FollowUp, Task};
use serde::Deserialize;
use tokio::sync::mpsc::UnboundedSender;

use super::http::{self, Server};

const START_EXECUTION: &str = "AWSStepFunctions.StartExecution";

/// The parts of StartExecution's request that matter here.
#[derive(Deserialize)]
struct StartExecution {
    input: String,
}

/// Serves the control API; every request becomes a follow-up before it is
/// answered.
pub(super) async fn serve(follow_ups: UnboundedSender<FollowUp>) -> std::io::Result<Server> {
    let routes = Router::new()
        .route("/2015-03-31/functions/{name}/invocations", post(invoke))
        .route("/", post(start_execution))
        .layer(DefaultBodyLimit::disable())
        .with_state(follow_ups);
    http::serve(routes).await
}

type Answer = (StatusCode, String);

async fn invoke(
    State(follow_ups): State<UnboundedSender<FollowUp>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let kind = headers
        .get("x-amz-invocation-type")
        .and_then(|value| value.to_str().ok());
    if kind != Some("Event") {
        return refused(format!("only Event invocations are served, not {kind:?}"));
    }
    match serde_json::from_slice::<Task>(&body) {
        Err(error) => refused(format!("the payload is no task: {error}")),
        Ok(task) if task.function != name => refused(format!(
            "the task is for {:?}, not for {name:?}",
            task.function
        )),
        Ok(task) => accepted(
            &follow_ups,
            FollowUp::Invocation(task),
            StatusCode::ACCEPTED,
            "",
        ),
    }
}

async fn start_execution(
    State(follow_ups): State<UnboundedSender<FollowUp>>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let target = headers
        .get("x-amz-target")
        .and_then(|value| value.to_str().ok());
    if target != Some(START_EXECUTION) {
        return refused(format!("only {START_EXECUTION} is served, not {target:?}"));
    }
    let task = serde_json::from_slice::<StartExecution>(&body)
        .and_then(|request| serde_json::from_str::<Task>(&request.input));
    match task {
        Err(error) => refused(format!("the input is no task: {error}")),
        Ok(task) => accepted(&follow_ups, FollowUp::Workflow(task), StatusCode::OK, "{}"),
    }
}

fn accepted(
    follow_ups: &UnboundedSender<FollowUp>,
    follow_up: FollowUp,
    status: StatusCode,
    body: &str,
) -> Answer {
    match follow_ups.send(follow_up) {
        Ok(()) => (status, body.to_owned()),
        Err(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the trial is over".to_owned(),
        ),
    }
}

fn refused(reason: String) -> Answer {
    (StatusCode::BAD_REQUEST, reason)
}
