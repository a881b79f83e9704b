//! HTTP servers on the loopback interface.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
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

/// Serves `routes` on a free port of 127.0.0.1.
///
/// # Errors
/// When there is no free port.
pub async fn serve(routes: Router) -> io::Result<Server> {
    serve_with(|_| routes).await
}

/// Serves routes that know the endpoint at which they are served.
pub(super) async fn serve_with(routes: impl FnOnce(String) -> Router) -> io::Result<Server> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let routes = routes(format!("http://{address}"));
    // Small answers must not wait for Nagle's algorithm.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let task = tokio::spawn(async move {
        // Serving ends only with the task.
        let _ = axum::serve(listener, routes).await;
    });
    Ok(Server {
        address,
        _task: AbortOnDropHandle::new(task),
    })
}
