//! `epochcost-s3`: an S3-compatible server whose objects are in memory.
//!
//! The protocol and the check of signatures are those of the crate `s3s`. The
//! keys come from the environment, since every user of a machine can read the
//! arguments of a program. Its first line of output names its port:
//! `listening on 127.0.0.1:PORT`.

mod store;

use std::error::Error;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use std::{env, process};

use epochcost_channels::embedded::access_key;
use epochcost_channels::embedded::strangers::{Strangers, Trust};
use epochcost_environment::s3_server::{ACCESS_KEY, SECRET_KEY};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, HttpError};
use store::Store;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

#[tokio::main]
async fn main() {
    if let Err(error) = serve().await {
        let _ = writeln!(io::stderr(), "epochcost-s3: {error}");
        process::exit(1);
    }
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1);
    match arguments.next() {
        None => {}
        Some(argument) if argument == "--version" => {
            let version = env!("CARGO_PKG_VERSION");
            return Ok(writeln!(
                io::stdout(),
                "epochcost-s3 {version} (s3s 0.14.1)"
            )?);
        }
        Some(_) => {
            return Err(format!(
                "usage: epochcost-s3 [--version], with keys in {ACCESS_KEY} and {SECRET_KEY}"
            )
            .into());
        }
    }
    let (access, secret) = (key(ACCESS_KEY)?, key(SECRET_KEY)?);
    let mut service = S3ServiceBuilder::new(Store::default());
    service.set_auth(SimpleAuth::from_single(access.clone(), secret));
    let service = service.build();
    let known: Arc<str> = access.into();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let mut output = io::stdout();
    writeln!(output, "listening on {}", listener.local_addr()?)?;
    output.flush()?;
    let mut strangers = Strangers::default();
    loop {
        // An accept fails if the client closed the connection first, and where no file handles are left.
        let Ok((stream, _)) = listener.accept().await else {
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        let (service, known, trust) = (service.clone(), known.clone(), strangers.enter());
        tokio::spawn(async move {
            tokio::select! {
                () = serve_client(stream, service, known, trust.clone()) => {}
                () = trust.clone().over() => {}
            }
        });
    }
}

/// Answers one client's requests until it leaves.
async fn serve_client(stream: TcpStream, service: S3Service, known: Arc<str>, trust: Trust) {
    // Replies are sent at once: with Nagle's algorithm a small one would wait for the
    // client's acknowledgement of the previous one.
    let _ = stream.set_nodelay(true);
    let answers =
        service_fn(move |request| answer(service.clone(), known.clone(), trust.clone(), request));
    let connection = auto::Builder::new(TokioExecutor::new());
    let served = connection.serve_connection(TokioIo::new(stream), answers);
    if let Err(error) = served.await {
        let _ = writeln!(io::stderr(), "epochcost-s3: a connection failed: {error}");
    }
}

/// Answers a request that names the access key `known`. Of any other no body is read: the protocol
/// has forms whose signature is behind their body.
async fn answer(
    service: S3Service,
    known: Arc<str>,
    trust: Trust,
    request: Request<Incoming>,
) -> Result<Response<Body>, HttpError> {
    let (parts, body) = request.into_parts();
    if access_key(&parts).is_none_or(|given| *given != *known) {
        let mut refused = Response::new(Body::empty());
        *refused.status_mut() = StatusCode::FORBIDDEN;
        return Ok(refused);
    }
    trust.admit();
    service
        .call(Request::from_parts(parts, Body::from(body)))
        .await
}

fn key(variable: &str) -> Result<String, String> {
    env::var(variable).map_err(|error| format!("{variable}: {error}"))
}
