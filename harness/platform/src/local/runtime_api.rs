//! The AWS Lambda Runtime API ("Using the Lambda runtime API for custom
//! runtimes", version 2018-06-01), one path prefix per sandbox.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use axum::routing::{get, post};
use bytes::Bytes;
use epochcost_channels::embedded::strangers::Trust;
use serde::Deserialize;
use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;

use super::clock::TrialClock;
use super::http::{self, Server};
use crate::locked;

/// One event for a sandbox.
pub(super) struct Event {
    /// The invocation.
    pub(super) request_id: Uuid,
    /// The event, JSON.
    pub(super) payload: Bytes,
    /// Time limit of the function.
    pub(super) timeout: Duration,
    /// Clock of its deadline.
    pub(super) clock: TrialClock,
    /// Receives the time at which the sandbox takes the event.
    pub(super) taken: oneshot::Sender<Instant>,
    /// Receives the answer.
    pub(super) answer: oneshot::Sender<Answer>,
}

/// Answer of a sandbox.
#[derive(Debug)]
pub(super) struct Answer {
    /// Time of the answer.
    pub(super) at: Instant,
    /// The function's result, or its error.
    pub(super) result: Result<Bytes, FunctionError>,
}

/// An error in Lambda's form.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FunctionError {
    /// Type of the error.
    pub(super) error_type: String,
    /// Message of the error.
    pub(super) error_message: String,
}

/// One sandbox's side of the API.
pub(super) struct Slot {
    function: String,
    ready: watch::Sender<Option<Instant>>,
    init_error: Mutex<Option<FunctionError>>,
    events: mpsc::UnboundedSender<Event>,
    waiting: tokio::sync::Mutex<mpsc::UnboundedReceiver<Event>>,
    running: Mutex<Option<(Uuid, oneshot::Sender<Answer>)>>,
}

impl Slot {
    /// Waits for the first request for work: the end of init.
    pub(super) async fn ready(&self) -> Instant {
        let mut ready = self.ready.subscribe();
        match ready.wait_for(Option::is_some).await.map(|at| *at) {
            Ok(Some(at)) => at,
            // The sender is in `self`: it cannot be gone.
            _ => Instant::now(),
        }
    }

    /// Returns the error that the runtime reported for a failed init.
    pub(super) fn init_error(&self) -> Option<FunctionError> {
        locked(&self.init_error).clone()
    }

    /// Hands an event to the sandbox.
    pub(super) fn send(&self, event: Event) {
        // The receiver is in `self`: it cannot be gone.
        let _ = self.events.send(event);
    }

    fn answer(&self, request_id: &str, result: Result<Bytes, FunctionError>) -> StatusCode {
        let mut running = locked(&self.running);
        match running.take_if(|(running, _)| running.to_string() == request_id) {
            Some((_, answer)) => {
                // The receiver is gone after a time-out.
                let _ = answer.send(Answer {
                    at: Instant::now(),
                    result,
                });
                StatusCode::ACCEPTED
            }
            None => StatusCode::BAD_REQUEST,
        }
    }
}

type Slots = Arc<Mutex<HashMap<String, Arc<Slot>>>>;

/// The API's server; stops when dropped.
pub(super) struct RuntimeApi {
    server: Server,
    slots: Slots,
}

impl RuntimeApi {
    /// Starts the server on a free port of the loopback interface.
    pub(super) async fn start() -> std::io::Result<Self> {
        let slots = Slots::default();
        let path = |end: &str| format!("/{{sandbox}}/2018-06-01/runtime/{end}");
        let routes = Router::new()
            .route(&path("invocation/next"), get(next))
            .route(&path("invocation/{id}/response"), post(response))
            .route(&path("invocation/{id}/error"), post(error))
            .route(&path("init/error"), post(init_error))
            .layer(DefaultBodyLimit::disable())
            .with_state(slots.clone());
        Ok(Self {
            server: http::serve_private(routes).await?,
            slots,
        })
    }

    /// Returns the value of `AWS_LAMBDA_RUNTIME_API` for a sandbox.
    pub(super) fn endpoint(&self, sandbox: &str) -> String {
        format!("{}/{sandbox}", self.server.endpoint())
    }

    /// Creates the API's slot for a new sandbox.
    pub(super) fn open(&self, sandbox: &str, function: &str) -> Arc<Slot> {
        let (events, waiting) = mpsc::unbounded_channel();
        let slot = Arc::new(Slot {
            function: function.to_owned(),
            ready: watch::Sender::new(None),
            init_error: Mutex::default(),
            events,
            waiting: tokio::sync::Mutex::new(waiting),
            running: Mutex::default(),
        });
        locked(&self.slots).insert(sandbox.to_owned(), slot.clone());
        slot
    }
}

/// The slot that a request's path names. It is found before a body is read: other users of the
/// machine do not know the name of a sandbox.
struct Known(Arc<Slot>);

impl FromRequestParts<Slots> for Known {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, slots: &Slots) -> Result<Self, StatusCode> {
        let sandbox = parts.uri.path().split('/').nth(1).unwrap_or_default();
        let slot = locked(slots).get(sandbox).cloned();
        let slot = slot.ok_or(StatusCode::NOT_FOUND)?;
        if let Some(trust) = Trust::of(&parts.extensions) {
            trust.admit();
        }
        Ok(Self(slot))
    }
}

async fn next(Known(slot): Known) -> Result<Response<Body>, StatusCode> {
    slot.ready.send_if_modified(|ready| match ready {
        Some(_) => false,
        None => ready.replace(Instant::now()).is_none(),
    });
    let event = slot.waiting.lock().await.recv().await;
    let event = event.ok_or(StatusCode::GONE)?;
    let deadline_s = event.clock.unix_s() + event.timeout.as_secs_f64();
    let deadline_ms = (deadline_s * 1e3) as u64;
    let id = event.request_id.to_string();
    let response = Response::builder()
        .header("content-type", "application/json")
        .header("lambda-runtime-aws-request-id", id)
        .header("lambda-runtime-deadline-ms", deadline_ms.to_string())
        .header("lambda-runtime-invoked-function-arn", arn(&slot.function))
        .header("lambda-runtime-trace-id", trace_id(event.request_id))
        .body(Body::from(event.payload))
        .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    *locked(&slot.running) = Some((event.request_id, event.answer));
    // The caller may have gone: then the sandbox goes, too.
    let _ = event.taken.send(Instant::now());
    Ok(response)
}

async fn response(
    Known(slot): Known,
    Path((_, id)): Path<(String, String)>,
    body: Bytes,
) -> StatusCode {
    slot.answer(&id, Ok(body))
}

async fn error(
    Known(slot): Known,
    Path((_, id)): Path<(String, String)>,
    body: Bytes,
) -> StatusCode {
    slot.answer(&id, Err(read_error(&body)))
}

async fn init_error(Known(slot): Known, body: Bytes) -> StatusCode {
    *locked(&slot.init_error) = Some(read_error(&body));
    StatusCode::ACCEPTED
}

fn read_error(body: &[u8]) -> FunctionError {
    serde_json::from_slice(body).unwrap_or_else(|_| FunctionError {
        error_type: "Unhandled".into(),
        error_message: String::from_utf8_lossy(body).into_owned(),
    })
}

/// Returns the function's ARN, in account 0, which does not exist.
fn arn(function: &str) -> String {
    format!("arn:aws:lambda:local:000000000000:function:{function}")
}

/// Returns an X-Ray trace header that samples nothing.
fn trace_id(request_id: Uuid) -> String {
    let id = request_id.simple().to_string();
    format!("Root=1-{}-{};Sampled=0", &id[..8], &id[8..])
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    /// Who does not know a sandbox is refused before the body of the request is read.
    #[tokio::test]
    async fn a_stranger_is_refused_before_a_body_is_read() {
        let api = RuntimeApi::start().await.unwrap();
        let slot = api.open("mine", "f");
        let refused = |path: &'static str| {
            let address = api.server.endpoint().replace("http://", "");
            async move {
                let mut stream = TcpStream::connect(address).await.unwrap();
                let request = format!(
                    "POST /{path}/2018-06-01/runtime/init/error HTTP/1.1\r\nhost: x\r\n\
                     content-length: 17179869184\r\n\r\n"
                );
                stream.write_all(request.as_bytes()).await.unwrap();
                let mut answer = [0; 12];
                let within = std::time::Duration::from_secs(2);
                let read = stream.read_exact(&mut answer);
                let read = tokio::time::timeout(within, read).await;
                read.is_ok()
                    .then(|| String::from_utf8_lossy(&answer).into_owned())
            }
        };
        assert_eq!(refused("deadbeef").await.unwrap(), "HTTP/1.1 404");
        // The body of one who knows it is waited for.
        assert_eq!(refused("mine").await, None);
        assert!(slot.init_error().is_none());
    }
}
