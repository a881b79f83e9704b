//! An S3-compatible server.

use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use epochcost_environment::s3_server;

use crate::process::ServerProcess;
use crate::{ServerError, find, secret, start};

/// Time limit of a start; longer than any machine takes.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of one question to the server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
const NAME: &str = "the S3 server";

/// Running S3-compatible server, which starts without buckets and checks signatures.
pub struct ObjectServer {
    process: ServerProcess,
    address: SocketAddr,
    access_key: String,
    secret_key: String,
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
        let (access_key, secret_key) = (secret::random(), secret::random());
        let mut command = process.command(program)?;
        command
            .env(s3_server::ACCESS_KEY, &access_key)
            .env(s3_server::SECRET_KEY, &secret_key);
        process.start(command)?;
        let directory = process.directory().to_owned();
        let address = process.wait_for(NAME, START_TIMEOUT, || {
            announced(&start::log(&directory)).filter(|address| answers(*address))
        })?;
        Ok(Self {
            process,
            address,
            access_key,
            secret_key,
        })
    }

    /// Returns the address that the server listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the access key of clients.
    #[must_use]
    pub fn access_key(&self) -> &str {
        &self.access_key
    }

    /// Returns the secret key with which clients sign.
    #[must_use]
    pub fn secret_key(&self) -> &str {
        &self.secret_key
    }

    /// Returns `http://ACCESS_KEY:SECRET_KEY@ADDRESS:PORT`; buckets are in the path.
    #[must_use]
    pub fn url(&self) -> String {
        format!(
            "http://{}:{}@{}",
            self.access_key, self.secret_key, self.address
        )
    }

    /// Returns the process id.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.process.id()
    }

    /// Returns the exit status, or `None` while the server runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.ended()
    }

    /// Returns whether the server answers; a silent one is asked for five seconds.
    #[must_use]
    pub fn is_answering(&self) -> bool {
        start::is_answering(|| answers(self.address))
    }

    /// Kills the server, as a crash would end it.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Returns the log so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }
}

impl fmt::Debug for ObjectServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S3 at {}", self.address)
    }
}

/// Returns the address in the first line of the log, once that line is complete.
fn announced(log: &str) -> Option<SocketAddr> {
    let (first, _) = log.split_once('\n')?;
    first.strip_prefix("listening on ")?.parse().ok()
}

/// Returns whether the server answers: it refuses a request without a signature.
fn answers(address: SocketAddr) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        std::io::Result::Ok(status)
    };
    ask().is_ok_and(|status| status == *b"HTTP/1.1 403")
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
