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
use std::{env, process};

use epochcost_environment::s3_server::{ACCESS_KEY, SECRET_KEY};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use store::Store;
use tokio::net::{TcpListener, TcpStream};

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
    let mut service = S3ServiceBuilder::new(Store::default());
    service.set_auth(SimpleAuth::from_single(key(ACCESS_KEY)?, key(SECRET_KEY)?));
    let service = service.build();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let mut output = io::stdout();
    writeln!(output, "listening on {}", listener.local_addr()?)?;
    output.flush()?;
    loop {
        // An accept fails if the client closed the connection first: there is no request to answer.
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, service.clone()));
        }
    }
}

/// Answers one client's requests until it leaves.
async fn answer(stream: TcpStream, service: S3Service) {
    // Replies are sent at once: with Nagle's algorithm a small one would wait for the
    // client's acknowledgement of the previous one.
    let _ = stream.set_nodelay(true);
    let connection = auto::Builder::new(TokioExecutor::new());
    if let Err(error) = connection
        .serve_connection(TokioIo::new(stream), service)
        .await
    {
        let _ = writeln!(io::stderr(), "epochcost-s3: a connection failed: {error}");
    }
}

fn key(variable: &str) -> Result<String, String> {
    env::var(variable).map_err(|error| format!("{variable}: {error}"))
}
