//! Emulator of AWS' Lambda, Step Functions and CloudWatch on this machine, by their
//! own HTTP APIs: functions that an AWS SDK deploys run in the local platform's
//! sandboxes and have metrics in CloudWatch.
//!
//! Packages come from an emulated S3, REPORT lines go to an emulated CloudWatch
//! Logs, and the instances of an emulated EC2 run as processes, Redis and RabbitMQ
//! among them, so that a whole run on AWS can be tested without an account.
//! Signatures are not checked, and only the loopback interface is served.

mod api;
mod backend;
mod clock;
mod control;
mod endpoints;
mod functions;
mod instances;
mod machines;
mod meter;
mod metrics;
mod objects;
mod workflow;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use epochcost_platform::local::http::{self, Server};
use serde_json::Value;
use tokio_util::task::AbortOnDropHandle;

use self::api::{Refusal, header, region};
use self::backend::Backend;
use self::clock::Clock;
use self::control::Control;
use self::endpoints::Endpoints;
use self::functions::FunctionStore;
use self::instances::Surroundings;
use self::machines::{Executions, MachineStore};
use self::meter::Meter;
use self::metrics::MetricStore;
use self::objects::Objects;

/// Running emulator; all that it serves stops on drop.
pub struct Emulator {
    server: Server,
    objects: Server,
    _instances: AbortOnDropHandle<()>,
}

impl Emulator {
    /// Starts the emulator on free ports of the loopback interface. `backend` is the
    /// endpoint of an emulator of S3, CloudWatch Logs and EC2, such as moto,
    /// whose instances of `region` run here.
    ///
    /// # Errors
    /// When there is no free port, or no HTTP client can be made.
    pub async fn start(backend: &str, region: &str) -> std::io::Result<Self> {
        let behind = Backend::new(backend, region).map_err(std::io::Error::other)?;
        let (clock, meter) = (Arc::<Clock>::default(), Arc::<Meter>::default());
        let store = Arc::new(Objects::new(behind.clone(), meter.clone()));
        let objects = http::serve(objects::routes(store.clone())).await?;
        let functions = Arc::new(FunctionStore::new(behind.clone(), meter.clone()));
        let metrics = functions.metrics();
        let executions = workflow::Surroundings {
            functions: functions.clone(),
            executions: Executions::default(),
            backend: behind.clone(),
            clock: clock.clone(),
        };
        let machines = MachineStore::new(Arc::new(executions), meter.clone());
        let machines = Arc::new(machines);
        let own = Own {
            metrics,
            meter: meter.clone(),
            machines: machines.clone(),
            functions: functions.clone(),
        };
        let control = Control {
            clock: clock.clone(),
            meter: meter.clone(),
            machines,
            objects: store,
        };
        let server = http::serve(routes(own).merge(control::routes(control))).await?;
        let endpoints = Endpoints {
            backend: behind.endpoint().to_owned(),
            objects: objects.endpoint(),
            own: server.endpoint(),
        };
        functions.set_endpoints(endpoints.clone());
        let cloud = Surroundings {
            backend: behind,
            endpoints,
            region: region.to_owned(),
            clock,
            meter,
        };
        Ok(Self {
            server,
            objects,
            _instances: instances::follow(cloud),
        })
    }

    /// Returns `http://HOST:PORT`, the value of `AWS_ENDPOINT_URL_LAMBDA`,
    /// `AWS_ENDPOINT_URL_SFN` and `AWS_ENDPOINT_URL_CLOUDWATCH`.
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    /// Returns the value of `AWS_ENDPOINT_URL_S3`.
    pub fn objects_endpoint(&self) -> String {
        self.objects.endpoint()
    }
}

/// State behind the emulator's own APIs.
#[derive(Clone)]
struct Own {
    functions: Arc<FunctionStore>,
    machines: Arc<MachineStore>,
    metrics: Arc<MetricStore>,
    meter: Arc<Meter>,
}

fn routes(own: Own) -> Router {
    let metrics = Router::new()
        .route(metrics::PATH, post(metrics::get))
        .with_state((own.metrics, own.meter));
    Router::new()
        .route("/", post(step_functions))
        .with_state(own.machines)
        .merge(functions::routes(own.functions))
        .merge(metrics)
        .layer(DefaultBodyLimit::disable())
}

/// Answers Step Functions' API, which has one path and names the operation in a header.
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
        Some("StopExecution") => machines.stop(&request),
        Some("ListExecutions") => machines.executions(&request),
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
