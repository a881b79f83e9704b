//! Lambda's HTTP operations.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use bytes::Bytes;
use epochcost_systems::Task;
use serde_json::{Value, json};
use uuid::Uuid;

use super::FunctionStore;
use crate::api::{Refusal, header, region};

type Answer = Result<Response, Refusal>;

/// Returns Lambda's routes over a store.
pub(crate) fn routes(store: Arc<FunctionStore>) -> Router {
    Router::new()
        .route("/2015-03-31/functions", post(create).get(list))
        .route("/2015-03-31/functions/", post(create).get(list))
        .route("/2015-03-31/functions/{name}", delete(remove))
        .route(
            "/2015-03-31/functions/{name}/configuration",
            get(configuration),
        )
        .route("/2015-03-31/functions/{name}/invocations", post(invoke))
        .route(
            "/2019-09-25/functions/{name}/event-invoke-config",
            put(event_config),
        )
        .route("/2017-03-31/tags/{arn}", get(tags))
        .with_state(store)
}

fn answered(status: StatusCode, body: Value) -> Response {
    (
        status,
        [("content-type", "application/json")],
        body.to_string(),
    )
        .into_response()
}

async fn create(
    State(store): State<Arc<FunctionStore>>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let request = serde_json::from_slice(&body)
        .map_err(|error| Refusal::new("InvalidParameterValueException", error.to_string()))?;
    let created = store.create(request, &region(&headers)).await?;
    Ok(answered(StatusCode::CREATED, created))
}

async fn list(State(store): State<Arc<FunctionStore>>, headers: HeaderMap) -> Response {
    let in_region = format!(":{}:", region(&headers));
    let functions: Vec<Value> = (store.locked().iter())
        .filter(|(_, function)| function.arn.contains(&in_region))
        .map(|(name, function)| function.configuration(name))
        .collect();
    answered(StatusCode::OK, json!({ "Functions": functions }))
}

async fn configuration(
    State(store): State<Arc<FunctionStore>>,
    Path(name): Path<String>,
) -> Answer {
    Ok(answered(
        StatusCode::OK,
        store.find(&name)?.configuration(&name),
    ))
}

async fn remove(State(store): State<Arc<FunctionStore>>, Path(name): Path<String>) -> Answer {
    store.remove(&name)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn tags(State(store): State<Arc<FunctionStore>>, Path(arn): Path<String>) -> Answer {
    let function = store.find(&arn)?;
    Ok(answered(StatusCode::OK, json!({ "Tags": function.tags })))
}

/// Answers that failed events are never repeated, which holds for all functions here.
async fn event_config(State(store): State<Arc<FunctionStore>>, Path(name): Path<String>) -> Answer {
    let function = store.find(&name)?;
    let answer = json!({ "FunctionArn": function.arn, "MaximumRetryAttempts": 0 });
    Ok(answered(StatusCode::OK, answer))
}

/// Returns how often Lambda's queue delivers an event: once, or as often as a test
/// asks for.
fn deliveries(headers: &HeaderMap) -> usize {
    let asked = header(headers, "x-emulator-deliveries");
    asked.and_then(|count| count.parse().ok()).unwrap_or(1)
}

async fn invoke(
    State(store): State<Arc<FunctionStore>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let function = store.find(&name)?;
    let task: Task = serde_json::from_slice(&body).map_err(|error| {
        let reason = format!("Could not parse request body: {error}");
        Refusal::new("InvalidRequestContentException", reason)
    })?;
    let request_id = Uuid::new_v4();
    let id = [("x-amzn-requestid", request_id.to_string())];
    match header(&headers, "x-amz-invocation-type") {
        Some("Event") => {
            for _ in 0..deliveries(&headers) {
                let (function, task) = (function.clone(), task.clone());
                tokio::spawn(async move { function.run(&task, request_id).await });
            }
            Ok((StatusCode::ACCEPTED, id).into_response())
        }
        _ => Ok(match function.run(&task, request_id).await {
            Ok(outcome) => (id, json!(outcome).to_string()).into_response(),
            Err(reason) => (
                id,
                [("x-amz-function-error", "Unhandled")],
                json!({ "errorMessage": reason }).to_string(),
            )
                .into_response(),
        }),
    }
}
