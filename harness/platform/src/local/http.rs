//! HTTP servers on the loopback interface.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::extract::Request;
use axum::middleware::map_request;
use epochcost_channels::embedded::strangers::{self, Trust};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// A running server; stops when dropped.
pub struct Server {
    address: SocketAddr,
    _task: AbortOnDropHandle<()>,
}

impl Server {
    /// Returns the endpoint, `http://HOST:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Serves `routes` on a free port of 127.0.0.1, to everyone.
///
/// # Errors
/// When there is no free port.
pub async fn serve(routes: Router) -> io::Result<Server> {
    serve_private(routes.layer(map_request(admitted))).await
}

/// Serves `routes` on a free port of 127.0.0.1, which admit the clients that show a credential.
pub(super) async fn serve_private(routes: Router) -> io::Result<Server> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    // Serving ends only with the task.
    let task = tokio::spawn(strangers::serve(listener, routes, CancellationToken::new()));
    Ok(Server {
        address,
        _task: AbortOnDropHandle::new(task),
    })
}

/// Admits the client of a request, as one that has shown a credential.
pub(super) async fn admitted(request: Request) -> Request {
    if let Some(trust) = Trust::of(request.extensions()) {
        trust.admit();
    }
    request
}
