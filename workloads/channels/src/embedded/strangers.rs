//! Connections of clients that have shown no credential yet: they are few, and end soon, so that
//! other users of the machine hold nothing. Those that have shown one may be idle for any time.

use std::collections::VecDeque;
use std::error::Error;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::http::Extensions;
use axum::serve::Listener;
use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Time within which a client has to show a credential.
const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 30_000 });
/// Most strangers: beyond them, the oldest that had [`GRACE`] leave.
const MOST: usize = if cfg!(test) { 2 } else { 256 };
/// Time that a stranger has at least.
const GRACE: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 1_000 });

/// The strangers of one server.
#[derive(Default)]
pub struct Strangers(VecDeque<(Instant, Weak<State>)>);

impl Strangers {
    /// Counts a new connection among them, for which others may have to leave.
    pub fn enter(&mut self) -> Trust {
        let is_stranger = |state: &Arc<State>| !state.is_admitted.load(Ordering::Relaxed);
        self.0
            .retain(|(_, state)| state.upgrade().is_some_and(|state| is_stranger(&state)));
        while self.0.len() >= MOST
            && let Some((_, oldest)) = self.0.pop_front_if(|(since, _)| since.elapsed() > GRACE)
        {
            if let Some(oldest) = oldest.upgrade() {
                oldest.leaves.cancel();
            }
        }
        let trust = Trust::default();
        self.0.push_back((Instant::now(), Arc::downgrade(&trust.0)));
        trust
    }
}

#[derive(Default)]
struct State {
    is_admitted: AtomicBool,
    leaves: CancellationToken,
}

/// Whether the client of a connection has shown a credential. Clones are of one connection.
#[derive(Clone, Default)]
pub struct Trust(Arc<State>);

impl Trust {
    /// Returns the trust of the connection of a request, by the request's extensions.
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    /// Notes that the client has shown a credential.
    pub fn admit(&self) {
        self.0.is_admitted.store(true, Ordering::Relaxed);
    }

    /// Waits until the connection has to end, since its client has shown nothing: for ever once it has.
    pub async fn over(self) {
        tokio::select! {
            () = sleep(PATIENCE) => {}
            () = self.0.leaves.cancelled() => {}
        }
        if self.0.is_admitted.load(Ordering::Relaxed) {
            std::future::pending().await
        }
    }
}

/// Serves `routes` until `stopped`; requests in progress are completed then. Connections whose requests
/// do not find [`Trust::admit`] called are those of strangers.
pub async fn serve(mut listener: TcpListener, routes: Router, stopped: CancellationToken) {
    let mut strangers = Strangers::default();
    let mut accept = async || Listener::accept(&mut listener).await.0;
    while let Some(stream) = stopped.run_until_cancelled(accept()).await {
        let (routes, stopped, trust) = (routes.clone(), stopped.clone(), strangers.enter());
        tokio::spawn(async move {
            tokio::select! {
                served = serve_client(stream, routes, &trust, &stopped) => if let Err(error) = served {
                    tracing::debug!("a connection failed: {error}");
                },
                () = trust.clone().over() => {}
            }
        });
    }
}

/// Answers one client's requests until it leaves, or `stopped`.
async fn serve_client(
    stream: TcpStream,
    routes: Router,
    trust: &Trust,
    stopped: &CancellationToken,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    // Small answers must not wait for Nagle's algorithm.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(routes.layer(Extension(trust.clone())));
    let builder = auto::Builder::new(TokioExecutor::new());
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        served = connection.as_mut() => return served,
        () = stopped.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::SocketAddr;

    use axum::extract::Request;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A server whose path `/known` is a credential.
    async fn server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let known = get(async |request: Request| {
            Trust::of(request.extensions()).unwrap().admit();
        });
        let routes = Router::new().route("/known", known);
        tokio::spawn(serve(listener, routes, CancellationToken::new()));
        address
    }

    async fn answered(stream: &mut TcpStream, path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[tokio::test]
    async fn whatever_a_stranger_sends_its_connection_ends() {
        let address = server().await;
        for sent in [
            "",
            "\r\n",
            "GET /known HTTP/1.1\r\n",
            "GET / HTTP/1.1\r\n\r\nGET",
        ] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(sent.as_bytes()).await.unwrap();
            let mut rest = Vec::new();
            // To its end, or its reset.
            let _ = stream.read_to_end(&mut rest).await;
        }
    }

    #[tokio::test]
    async fn who_has_shown_a_credential_may_pause() {
        let mut stream = TcpStream::connect(server().await).await.unwrap();
        assert_eq!(answered(&mut stream, "/known").await, "HTTP/1.1 200");
        sleep(2 * PATIENCE).await;
        let mut rest = vec![0; 1 << 10];
        let _ = stream.read(&mut rest).await.unwrap();
        assert_eq!(answered(&mut stream, "/known").await, "HTTP/1.1 200");
    }

    #[tokio::test]
    async fn the_oldest_stranger_makes_room_and_known_clients_do_not() {
        let mut strangers = Strangers::default();
        let known = strangers.enter();
        known.admit();
        let [first, second, third] = [(); 3].map(|()| strangers.enter());
        let leaves = |trust: &Trust| trust.0.leaves.is_cancelled();
        assert!(!leaves(&known) && leaves(&first) && !leaves(&second) && !leaves(&third));
        first.over().await;
        drop((second, third));
        let fourth = strangers.enter();
        assert_eq!(strangers.0.len(), 1);
        assert!(!leaves(&fourth));
    }
}
