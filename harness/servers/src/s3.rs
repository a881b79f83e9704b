//! An S3-compatible server.

use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use epochcost_environment::s3_server;
use tempfile::TempDir;

use crate::group::Group;
use crate::{ServerError, find, secret, start};

/// Longer than it takes to start on any machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long one question may take.
const ANSWER: Duration = Duration::from_secs(1);
const NAME: &str = "the S3 server";

/// A running S3-compatible server without buckets, which checks signatures.
pub struct ObjectServer {
    // Ends before the directory is removed.
    group: Group,
    address: SocketAddr,
    access_key: String,
    secret_key: String,
    directory: TempDir,
}

impl ObjectServer {
    /// Starts an empty server, which finds its own port.
    ///
    /// # Errors
    /// When it was not built, ends at once or does not answer.
    pub fn start() -> Result<Self, ServerError> {
        Self::run(&find::s3()?)
    }

    /// Starts an empty server by its program.
    ///
    /// # Errors
    /// When it cannot be run, ends at once or does not answer.
    pub fn run(program: &Path) -> Result<Self, ServerError> {
        let directory = start::directory()?;
        let (access_key, secret_key) = (secret::random(), secret::random());
        let mut command = start::command(program, directory.path())?;
        command
            .env(s3_server::ACCESS_KEY, &access_key)
            .env(s3_server::SECRET_KEY, &secret_key);
        let mut group = Group::new(directory.path()).map_err(ServerError::io("run /bin/sh"))?;
        group
            .start(&mut command)
            .map_err(ServerError::io(format!("run {}", program.display())))?;
        let address = start::wait_for(NAME, directory.path(), PATIENCE, &mut group, || {
            announced(&start::log(directory.path())).filter(|address| answers(*address))
        })?;
        Ok(Self {
            group,
            address,
            access_key,
            secret_key,
            directory,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The key that clients name.
    #[must_use]
    pub fn access_key(&self) -> &str {
        &self.access_key
    }

    /// The key that clients sign with.
    #[must_use]
    pub fn secret_key(&self) -> &str {
        &self.secret_key
    }

    /// `http://ACCESS_KEY:SECRET_KEY@ADDRESS:PORT`; buckets are in the path.
    #[must_use]
    pub fn url(&self) -> String {
        format!(
            "http://{}:{}@{}",
            self.access_key, self.secret_key, self.address
        )
    }

    /// Its process.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.group.server()
    }

    /// How it ended, or `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.group.ended()
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&mut self) {
        self.group.kill();
    }

    /// What it wrote.
    #[must_use]
    pub fn log(&self) -> String {
        start::log(self.directory.path())
    }
}

impl fmt::Debug for ObjectServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S3 at {}", self.address)
    }
}

/// The address in the server's first line.
fn announced(log: &str) -> Option<SocketAddr> {
    let (first, _) = log.split_once('\n')?;
    first.strip_prefix("listening on ")?.parse().ok()
}

/// Whether it speaks HTTP: it refuses a request without a signature.
fn answers(address: SocketAddr) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect_timeout(&address, ANSWER)?;
        stream.set_read_timeout(Some(ANSWER))?;
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
