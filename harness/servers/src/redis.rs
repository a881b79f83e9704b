//! Redis, with the tensor store's module or without.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::process::ServerProcess;
use crate::server::{Kind, Server};
use crate::{ServerError, find, port, secret, start};

/// Time limit of a start, files included; longer than any machine takes.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Treatment of freed memory by Redis' allocator (jemalloc).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Allocator {
    /// Default: freed pages go back to the system after ten seconds.
    #[default]
    Stock,
    /// Freed pages are kept, so that large values do not fault them in again:
    /// `MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1`.
    Tuned,
}

impl Allocator {
    /// Returns the value of `MALLOC_CONF`, if there is one.
    #[must_use]
    pub fn malloc_conf(self) -> Option<&'static str> {
        match self {
            Self::Stock => None,
            Self::Tuned => Some("dirty_decay_ms:-1,muzzy_decay_ms:-1"),
        }
    }
}

/// Settings of a server.
#[derive(Clone, Debug, Default)]
pub struct RedisSettings {
    /// Path of the tensor store's module, if it is loaded.
    pub module: Option<PathBuf>,
    /// Treatment of freed memory.
    pub allocator: Allocator,
    /// Further lines of `redis.conf`; without them, Redis writes nothing to disk.
    pub configuration: String,
}

/// Running Redis server.
pub type Redis = Server<RedisLogin>;

/// Password of a Redis server's clients.
pub struct RedisLogin(String);

impl Kind for RedisLogin {
    const NAME: &'static str = "Redis";

    fn url(&self, address: SocketAddr) -> String {
        format!("redis://:{}@{address}", self.0)
    }

    /// Returns true once the server with our password is up: while it loads its files, it answers
    /// PING with an error.
    fn answers(&self, address: SocketAddr) -> bool {
        self.ask(address, "PING").as_deref() == Some("+OK\r\n+PONG\r\n")
    }
}

impl RedisLogin {
    /// Sends one inline command, and returns everything up to the end of the connection.
    fn ask(&self, address: SocketAddr, command: &str) -> Option<String> {
        let mut stream = port::connect(address).ok()?;
        let lines = format!("AUTH {}\r\n{command}\r\nQUIT\r\n", self.0);
        stream.write_all(lines.as_bytes()).ok()?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).ok()?;
        Some(reply.strip_suffix("+OK\r\n").unwrap_or(&reply).to_owned())
    }
}

impl Redis {
    /// Starts an empty server.
    ///
    /// # Errors
    /// When it is not installed, ends at once or does not answer.
    pub fn start(settings: &RedisSettings) -> Result<Self, ServerError> {
        start::with_ports(|| Self::start_in(start::directory()?, settings))
    }

    /// Starts a server on the files that another one left.
    ///
    /// # Errors
    /// When it is not installed, ends at once or does not answer.
    pub fn start_in(directory: TempDir, settings: &RedisSettings) -> Result<Self, ServerError> {
        let program = find::redis()?;
        let [port] = port::free().map_err(ServerError::io("find a free port"))?;
        let kind = RedisLogin(secret::random());
        let mut process = ServerProcess::new(directory)?;
        let directory = process.directory.path();
        let file = directory.join("redis.conf");
        let text = configuration(directory, port, &kind.0, settings);
        start::write_private(&file, &text)?;
        let mut command = process.command(&program)?;
        command.arg(&file);
        if let Some(value) = settings.allocator.malloc_conf() {
            // Debian's Redis reads the first name, a build of Redis' own sources the second.
            command
                .env("MALLOC_CONF", value)
                .env("JE_MALLOC_CONF", value);
        }
        process.start(command)?;
        let address = port::address(port);
        let probe = || kind.answers(address).then_some(());
        process.wait_for(RedisLogin::NAME, START_TIMEOUT, probe)?;
        Ok(Self {
            process,
            address,
            kind,
        })
    }

    /// Returns the password of clients.
    #[must_use]
    pub fn password(&self) -> &str {
        &self.kind.0
    }

    /// Returns the configuration lines that make another server a replica of this one.
    #[must_use]
    pub fn as_primary(&self) -> String {
        let (port, password) = (self.address.port(), self.password());
        format!("replicaof 127.0.0.1 {port}\nmasterauth {password}\n")
    }

    /// Shuts the server down after it has written the files of its configuration;
    /// returns its directory, which stays.
    #[must_use]
    pub fn shut_down(mut self) -> TempDir {
        // Redis closes the connection without a reply.
        let _ = self.kind.ask(self.address, "SHUTDOWN");
        self.process.group.wait();
        self.process.directory
    }
}

/// Returns the text of `redis.conf`.
fn configuration(directory: &Path, port: u16, password: &str, settings: &RedisSettings) -> String {
    let mut lines = format!(
        "bind 127.0.0.1\nport {port}\ndir \"{}\"\nrequirepass {password}\nsave \"\"\nappendonly no\n",
        directory.display()
    );
    if let Some(module) = &settings.module {
        lines.push_str(&format!("loadmodule \"{}\"\n", module.display()));
    }
    lines.push_str(&settings.configuration);
    lines.push('\n');
    lines
}
