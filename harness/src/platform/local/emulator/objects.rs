//! S3 in front of an emulator that does not bear several clients at a time:
//! moto answers a read with nothing, and a write with an error, while another
//! writes. Writes are made one at a time here, and no read meanwhile.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use tokio::sync::RwLock;

use super::backend::Backend;

/// The emulator behind, and whose turn it is.
struct Objects {
    backend: Backend,
    turn: RwLock<()>,
}

/// Every request of S3.
pub(super) fn routes(backend: Backend) -> Router {
    let objects = Objects {
        backend,
        turn: RwLock::default(),
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
        Method::GET | Method::HEAD => _reading = objects.turn.read().await,
        _ => _writing = objects.turn.write().await,
    }
    match objects.backend.pass(method, &uri, headers, body).await {
        Ok((status, headers, body)) => (status, headers, body).into_response(),
        Err(reason) => (StatusCode::BAD_GATEWAY, reason).into_response(),
    }
}
