//! Proxy of S3 in front of a backend that does not support concurrent clients: moto
//! answers reads with nothing, and writes with errors, while another client writes.
//! The proxy forwards one write at a time, and no read during it.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use tokio::sync::RwLock;

use crate::backend::Backend;

/// Backend and the lock that orders requests to it.
struct Objects {
    backend: Backend,
    lock: RwLock<()>,
}

/// Returns a route for every request of S3.
pub(crate) fn routes(backend: Backend) -> Router {
    let objects = Objects {
        backend,
        lock: RwLock::default(),
    };
    Router::new()
        .fallback(pass)
        .with_state(Arc::new(objects))
        .layer(DefaultBodyLimit::disable())
}

async fn pass(
    State(objects): State<Arc<Objects>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
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
