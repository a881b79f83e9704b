//! Lambda and Step Functions of AWS on this machine, by their own HTTP APIs:
//! what an AWS SDK deploys here runs in the local platform's sandboxes, and has
//! metrics in CloudWatch.
//!
//! Packages come from an emulated S3, REPORT lines go to an emulated CloudWatch
//! Logs, and the instances of an emulated EC2 run as processes, Redis and
//! RabbitMQ on them, so that a whole run on AWS can be made without an account.
//! Signatures are not checked; nothing but the loopback interface is served.

mod backend;
mod functions;
mod instances;
mod machines;
mod metrics;
mod objects;
mod workflow;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use self::backend::Backend;
use self::functions::FunctionStore;
use self::instances::Surroundings;
use self::machines::MachineStore;
use self::metrics::MetricStore;
use super::http::{self, Server};

/// The account that everything is in: the one that moto uses.
const ACCOUNT: &str = "123456789012";

/// A running emulator; what it serves stops when it is dropped.
pub struct Emulator {
    server: Server,
    objects: Server,
    _instances: AbortOnDropHandle<()>,
}

/// Where an emulated cloud is.
#[derive(Clone, Debug)]
struct Endpoints {
    /// The emulator behind, for everything else.
    backend: String,
    /// S3.
    objects: String,
    /// Lambda and Step Functions.
    own: String,
}

impl Endpoints {
    /// The SDK's own variables, for functions and instances.
    fn variables(&self) -> [(&'static str, &str); 4] {
        [
            ("AWS_ENDPOINT_URL", &self.backend),
            ("AWS_ENDPOINT_URL_S3", &self.objects),
            ("AWS_ENDPOINT_URL_LAMBDA", &self.own),
            ("AWS_ENDPOINT_URL_SFN", &self.own),
        ]
    }
}

impl Emulator {
    /// Starts it on free ports of the loopback interface. `backend` is the
    /// endpoint of an emulator of S3, CloudWatch Logs and EC2, such as moto,
    /// whose instances of `region` run here.
    ///
    /// # Errors
    /// When there is no port to be had.
    pub async fn start(backend: &str, region: &str) -> std::io::Result<Self> {
        let behind = || Backend::new(backend);
        let objects = http::serve(objects::routes(behind())).await?;
        let functions = Arc::new(FunctionStore::new(behind()));
        let metrics = functions.metrics();
        let own = Own {
            metrics,
            machines: Arc::new(MachineStore::new(functions.clone())),
            functions: functions.clone(),
        };
        let server = http::serve(routes(own)).await?;
        let endpoints = Endpoints {
            backend: behind().endpoint().to_owned(),
            objects: objects.endpoint(),
            own: server.endpoint(),
        };
        functions.set_endpoints(endpoints.clone());
        let cloud = Surroundings {
            backend: behind(),
            endpoints,
            region: region.to_owned(),
        };
        Ok(Self {
            server,
            objects,
            _instances: instances::follow(cloud),
        })
    }

    /// `http://HOST:PORT`: the value of `AWS_ENDPOINT_URL_LAMBDA`,
    /// `AWS_ENDPOINT_URL_SFN` and `AWS_ENDPOINT_URL_CLOUDWATCH`.
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    /// The value of `AWS_ENDPOINT_URL_S3`.
    pub fn objects_endpoint(&self) -> String {
        self.objects.endpoint()
    }
}

/// What is deployed.
#[derive(Clone)]
struct Own {
    functions: Arc<FunctionStore>,
    machines: Arc<MachineStore>,
    metrics: Arc<MetricStore>,
}

fn routes(own: Own) -> Router {
    let functions = Router::new()
        .route(
            "/2015-03-31/functions",
            post(functions::create).get(functions::list),
        )
        .route(
            "/2015-03-31/functions/",
            post(functions::create).get(functions::list),
        )
        .route("/2015-03-31/functions/{name}", delete(functions::remove))
        .route(
            "/2015-03-31/functions/{name}/configuration",
            get(functions::configuration),
        )
        .route(
            "/2015-03-31/functions/{name}/invocations",
            post(functions::invoke),
        )
        .route(
            "/2019-09-25/functions/{name}/event-invoke-config",
            put(functions::event_config),
        )
        .route("/2017-03-31/tags/{arn}", get(functions::tags))
        .with_state(own.functions.clone());
    let metrics = Router::new()
        .route(metrics::PATH, post(metrics::get))
        .with_state(own.metrics);
    Router::new()
        .route("/", post(step_functions))
        .with_state(own.machines)
        .merge(functions)
        .merge(metrics)
        .layer(DefaultBodyLimit::disable())
}

/// Step Functions' API: one path, and the operation in a header.
async fn step_functions(
    State(machines): State<Arc<MachineStore>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let target = header(&headers, "x-amz-target").unwrap_or_default();
    let region = region(&headers);
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let answer = match target.strip_prefix("AWSStepFunctions.") {
        Some("CreateStateMachine") => machines.create(&request, &region),
        Some("DescribeStateMachine") => machines.describe(&request),
        Some("ListStateMachines") => Ok(machines.list(&region)),
        Some("ListTagsForResource") => machines.tags(&request),
        Some("DeleteStateMachine") => Ok(machines.remove(&request)),
        Some("StartExecution") => machines.start(&request),
        Some("DescribeExecution") => machines.describe_execution(&request),
        Some("GetExecutionHistory") => machines.history(&request),
        _ => Err(Refusal::new(
            "UnknownOperationException",
            format!("{target:?} is not served here"),
        )),
    };
    match answer {
        Ok(answer) => (
            [("content-type", "application/x-amz-json-1.0")],
            answer.to_string(),
        )
            .into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

/// An error as AWS' services answer it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    code: &'static str,
    message: String,
}

impl Refusal {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self.code {
            "ResourceNotFoundException" => StatusCode::NOT_FOUND,
            "ResourceConflictException" => StatusCode::CONFLICT,
            "ServiceException" => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        };
        let body = json!({ "__type": self.code, "message": self.message, "Message": self.message });
        (status, [("x-amzn-errortype", self.code)], body.to_string()).into_response()
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The region that a request was signed for.
fn region(headers: &HeaderMap) -> String {
    let signed = header(headers, "authorization").and_then(|authorization| {
        let scope = authorization.split_once("Credential=")?.1;
        scope.split('/').nth(2)
    });
    signed.unwrap_or("us-east-1").to_owned()
}
