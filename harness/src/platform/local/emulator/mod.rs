//! AWS' Lambda on this machine, by its own HTTP API: what an AWS SDK deploys here
//! runs in the local platform's sandboxes.
//!
//! Packages come from an emulated S3, REPORT lines go to an emulated CloudWatch
//! Logs, and the instances of an emulated EC2 run as processes, so that a whole
//! run on AWS can be made without an account.
//! Signatures are not checked; nothing but the loopback interface is served.

mod backend;
mod functions;
mod instances;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use self::backend::Backend;
use self::functions::FunctionStore;
use super::http::{self, Server};

/// The account that everything is in: the one that moto uses.
const ACCOUNT: &str = "123456789012";

/// A running emulator; what it serves stops when it is dropped.
pub struct Emulator {
    server: Server,
    _instances: AbortOnDropHandle<()>,
}

impl Emulator {
    /// Starts it on a free port of the loopback interface. `backend` is the
    /// endpoint of an emulator of S3, CloudWatch Logs and EC2, such as moto,
    /// whose instances of `region` run here.
    ///
    /// # Errors
    /// When there is no port to be had.
    pub async fn start(backend: &str, region: &str) -> std::io::Result<Self> {
        let instances = instances::follow(Backend::new(backend), region.to_owned());
        let functions = Arc::new(FunctionStore::new(Backend::new(backend)));
        let served = functions.clone();
        let server = http::serve_with(|endpoint| {
            functions.set_endpoint(endpoint);
            routes(served)
        });
        Ok(Self {
            server: server.await?,
            _instances: instances,
        })
    }

    /// `http://HOST:PORT`: the value of `AWS_ENDPOINT_URL_LAMBDA`.
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }
}

fn routes(functions: Arc<FunctionStore>) -> Router {
    Router::new()
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
        .with_state(functions)
        .layer(DefaultBodyLimit::disable())
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
