//! An S3-compatible server.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use epochcost_environment::s3_server;

use crate::process::{ServerProcess, log_in};
use crate::server::{Kind, Server};
use crate::{ServerError, find, port, secret, start};

/// Time limit of a start; longer than any machine takes.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Running S3-compatible server, which starts without buckets and checks signatures.
pub type ObjectServer = Server<ObjectKeys>;

/// Keys with which clients of an S3-compatible server sign.
pub struct ObjectKeys {
    access: String,
    secret: String,
}

impl Kind for ObjectKeys {
    const NAME: &'static str = "the S3 server";

    fn url(&self, address: SocketAddr) -> String {
        format!("http://{}:{}@{address}", self.access, self.secret)
    }

    /// Returns whether the server refuses a request without a signature.
    fn answers(&self, address: SocketAddr) -> bool {
        let ask = || -> io::Result<[u8; 12]> {
            let mut stream = port::connect(address)?;
            stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
            let mut status = [0; 12];
            stream.read_exact(&mut status)?;
            Ok(status)
        };
        ask().is_ok_and(|status| status == *b"HTTP/1.1 403")
    }
}

impl ObjectServer {
    /// Starts an empty server, which finds its own port.
    ///
    /// # Errors
    /// When it was not built, ends at once or does not answer.
    pub fn start() -> Result<Self, ServerError> {
        Self::run(&find::s3()?)
    }

    /// Starts an empty server from a given program.
    ///
    /// # Errors
    /// When it cannot be run, ends at once or does not answer.
    pub fn run(program: &Path) -> Result<Self, ServerError> {
        let mut process = ServerProcess::new(start::directory()?)?;
        let kind = ObjectKeys {
            access: secret::random(),
            secret: secret::random(),
        };
        let mut command = process.command(program)?;
        command
            .env(s3_server::ACCESS_KEY, &kind.access)
            .env(s3_server::SECRET_KEY, &kind.secret);
        process.start(command)?;
        let directory = process.directory.path().to_owned();
        let address = process.wait_for(ObjectKeys::NAME, START_TIMEOUT, || {
            announced(&log_in(&directory)).filter(|address| kind.answers(*address))
        })?;
        Ok(Self {
            process,
            address,
            kind,
        })
    }

    /// Returns the access key of clients.
    #[must_use]
    pub fn access_key(&self) -> &str {
        &self.kind.access
    }

    /// Returns the secret key with which clients sign.
    #[must_use]
    pub fn secret_key(&self) -> &str {
        &self.kind.secret
    }
}

/// Returns the address in the first line of the log, once that line is complete.
fn announced(log: &str) -> Option<SocketAddr> {
    let (first, _) = log.split_once('\n')?;
    first.strip_prefix("listening on ")?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_address_is_read_once_its_line_is_whole() {
        let address = announced("listening on 127.0.0.1:4567\nmore").unwrap();
        assert_eq!(address.port(), 4567);
        assert_eq!(announced("listening on 127.0.0.1:45"), None);
        assert_eq!(announced("error\n"), None);
    }
}
