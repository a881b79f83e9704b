//! `epochcost-s3 DIRECTORY`: an S3-compatible server over a directory.
//!
//! The protocol, the check of signatures and the store are those of the crates
//! `s3s` and `s3s-fs`. Their own program takes its keys as arguments, which
//! every user of the machine can read, and a port that may be taken; this one
//! takes keys from its environment, and says which port it was given:
//! `listening on 127.0.0.1:PORT`, its first line.

use std::error::Error;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::{env, process};

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use tokio::net::{TcpListener, TcpStream};

/// The key that clients name, and the one that they sign with.
const ACCESS_KEY: &str = "EPOCHCOST_S3_ACCESS_KEY";
const SECRET_KEY: &str = "EPOCHCOST_S3_SECRET_KEY";

#[tokio::main]
async fn main() {
    if let Err(error) = serve().await {
        let _ = writeln!(io::stderr(), "epochcost-s3: {error}");
        process::exit(1);
    }
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1);
    let (Some(directory), None) = (arguments.next(), arguments.next()) else {
        return Err(format!(
            "usage: epochcost-s3 DIRECTORY, with keys in {ACCESS_KEY} and {SECRET_KEY}"
        )
        .into());
    };
    if directory == "--version" {
        return Ok(writeln!(
            io::stdout(),
            "epochcost-s3 {} (s3s 0.14.1)",
            env!("CARGO_PKG_VERSION")
        )?);
    }
    let store = FileSystem::new(directory).map_err(|error| format!("{error:?}"))?;
    let mut service = S3ServiceBuilder::new(store);
    service.set_auth(SimpleAuth::from_single(key(ACCESS_KEY)?, key(SECRET_KEY)?));
    let service = service.build();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let mut output = io::stdout();
    writeln!(output, "listening on {}", listener.local_addr()?)?;
    output.flush()?;
    loop {
        // A connection that ended before it was accepted is nobody's loss.
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, service.clone()));
        }
    }
}

/// Answers one client's requests until it leaves.
async fn answer(stream: TcpStream, service: S3Service) {
    // Replies go out at once: small ones would wait for the client's
    // acknowledgement of the one before.
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
