//! A running server.

use std::fmt;
use std::net::SocketAddr;
use std::process::ExitStatus;
use std::thread::sleep;

use crate::process::ServerProcess;
use crate::start::PROBE_INTERVAL;

/// Questions to a running server, of which one has to be answered. Each waits a second.
const QUESTIONS: usize = 5;

/// Differences between the kinds of servers.
pub trait Kind {
    /// Name in messages.
    const NAME: &'static str;
    /// Returns the URL of the server at `address`, with credentials.
    fn url(&self, address: SocketAddr) -> String;
    /// Asks the server at `address` one question, and returns whether it answers.
    fn answers(&self, address: SocketAddr) -> bool;
}

/// Running server.
pub struct Server<K> {
    pub(crate) process: ServerProcess,
    pub(crate) address: SocketAddr,
    pub(crate) kind: K,
}

impl<K: Kind> Server<K> {
    /// Returns the address that the server listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL with the credentials of clients: `redis://:PASSWORD@ADDRESS:PORT`,
    /// `amqp://USER:PASSWORD@ADDRESS:PORT/%2f` with the default virtual host, or
    /// `http://ACCESS_KEY:SECRET_KEY@ADDRESS:PORT` with buckets in the path.
    #[must_use]
    pub fn url(&self) -> String {
        self.kind.url(self.address)
    }

    /// Returns the process id.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.process.group.server()
    }

    /// Returns the exit status, or `None` while the server runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.group.ended()
    }

    /// Returns whether the server answers; a silent one, which is stopped or hangs and keeps its
    /// port, is asked for five seconds.
    #[must_use]
    pub fn is_answering(&self) -> bool {
        (0..QUESTIONS).any(|question| {
            if question > 0 {
                sleep(PROBE_INTERVAL);
            }
            self.kind.answers(self.address)
        })
    }

    /// Kills the server, as a crash would end it.
    pub fn kill(&mut self) {
        self.process.group.kill();
    }

    /// Returns the log so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }
}

impl<K: Kind> fmt::Debug for Server<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", K::NAME, self.address)
    }
}
