//! Proxy of S3 in front of a backend that does not support concurrent clients: moto
//! answers reads with nothing, and writes with errors, while another client writes.
//! The proxy forwards one write at a time, and no read during it. It counts what S3
//! charges for, and can refuse the logs of instances.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use tokio::sync::RwLock;

use crate::backend::Backend;
use crate::meter::Meter;

/// Last part of the keys of instances' logs.
const LOG: &str = "/log.txt";

/// Backend and the lock that orders requests to it.
pub(crate) struct Objects {
    backend: Backend,
    meter: Arc<Meter>,
    /// Whether logs of instances are refused.
    pub(crate) refuses_logs: AtomicBool,
    lock: RwLock<()>,
}

impl Objects {
    pub(crate) fn new(backend: Backend, meter: Arc<Meter>) -> Self {
        Self {
            backend,
            meter,
            refuses_logs: AtomicBool::new(false),
            lock: RwLock::default(),
        }
    }
}

/// Returns a route for every request of S3.
pub(crate) fn routes(objects: Arc<Objects>) -> Router {
    Router::new()
        .fallback(pass)
        .with_state(objects)
        .layer(DefaultBodyLimit::disable())
}

/// Returns the dimension of a request; none where S3 charges nothing.
fn dimension(method: &Method, uri: &Uri) -> Option<&'static str> {
    let is_bucket = !uri.path().trim_matches('/').contains('/');
    let query = uri.query().unwrap_or_default();
    match *method {
        Method::PUT | Method::POST if query == "delete" || query.starts_with("delete=") => None,
        Method::PUT | Method::POST => Some("s3_put"),
        Method::GET if is_bucket && (query.is_empty() || query.contains("list-type")) => {
            Some("s3_list")
        }
        Method::GET | Method::HEAD => Some("s3_get"),
        _ => None,
    }
}

async fn pass(
    State(objects): State<Arc<Objects>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if let Some(dimension) = dimension(&method, &uri) {
        objects.meter.charge(dimension, 1.0);
    }
    let is_log = method == Method::PUT && uri.path().ends_with(LOG);
    if is_log && objects.refuses_logs.load(Ordering::SeqCst) {
        return (StatusCode::SERVICE_UNAVAILABLE, "planned").into_response();
    }
    let (_reading, _writing);
    match method {
        Method::GET | Method::HEAD => _reading = objects.lock.read().await,
        _ => _writing = objects.lock.write().await,
    }
    match objects.backend.pass(method, &uri, headers, body).await {
        Ok((status, headers, body)) => (status, headers, body).into_response(),
        Err(reason) => (StatusCode::BAD_GATEWAY, reason).into_response(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn requests_are_charged_by_what_they_ask() {
        for (method, uri, expected) in [
            (Method::PUT, "/bucket/key", Some("s3_put")),
            (Method::GET, "/bucket/a/key", Some("s3_get")),
            (Method::HEAD, "/bucket/key", Some("s3_get")),
            (Method::GET, "/bucket?list-type=2&prefix=a", Some("s3_list")),
            (Method::GET, "/bucket/?list-type=2", Some("s3_list")),
            (Method::POST, "/bucket?delete", None),
            (Method::DELETE, "/bucket/key", None),
        ] {
            let found = dimension(&method, &uri.parse().unwrap());
            assert_eq!(found, expected, "{method} {uri}");
        }
    }
}
