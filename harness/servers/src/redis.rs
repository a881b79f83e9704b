//! Redis, with the tensor store's module or without.

use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::process::ServerProcess;
use crate::{ServerError, find, port, secret, start};

/// Time limit of a start, files included; longer than any machine takes.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of one question to the server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
const NAME: &str = "Redis";

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
pub struct Redis {
    process: ServerProcess,
    port: u16,
    password: String,
}

impl Redis {
    /// Starts an empty server.
    ///
    /// # Errors
    /// When it is not installed, ends at once or does not answer.
    pub fn start(settings: &RedisSettings) -> Result<Self, ServerError> {
        start::with_ports(|| Self::launch(start::directory()?, settings))
    }

    /// Starts a server on the files that another one left.
    ///
    /// # Errors
    /// When it is not installed, ends at once or does not answer.
    pub fn start_in(directory: TempDir, settings: &RedisSettings) -> Result<Self, ServerError> {
        Self::launch(directory, settings)
    }

    fn launch(directory: TempDir, settings: &RedisSettings) -> Result<Self, ServerError> {
        let program = find::redis()?;
        let [port] = port::free().map_err(ServerError::io("find a free port"))?;
        let password = secret::random();
        let mut process = ServerProcess::new(directory)?;
        let file = process.directory().join("redis.conf");
        let text = configuration(process.directory(), port, &password, settings);
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
        process.wait_for(NAME, START_TIMEOUT, || answers(port, &password))?;
        Ok(Self {
            process,
            port,
            password,
        })
    }

    /// Returns the address that the server listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        port::address(self.port)
    }

    /// Returns the password of clients.
    #[must_use]
    pub fn password(&self) -> &str {
        &self.password
    }

    /// Returns `redis://:PASSWORD@ADDRESS:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://:{}@{}", self.password, self.address())
    }

    /// Returns the configuration lines that make another server a replica of this one.
    #[must_use]
    pub fn as_primary(&self) -> String {
        format!(
            "replicaof 127.0.0.1 {}\nmasterauth {}\n",
            self.port, self.password
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
        start::is_answering(|| answers(self.port, &self.password).is_some())
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

    /// Shuts the server down after it has written the files of its configuration;
    /// returns its directory, which stays.
    #[must_use]
    pub fn shut_down(mut self) -> TempDir {
        // Redis closes the connection without a reply.
        let _ = ask(self.port, &self.password, "SHUTDOWN");
        self.process.wait();
        self.process.into_directory()
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redis at {}", self.address())
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

/// Returns `Some` once the server with our password is up: while it loads its files,
/// it answers PING with an error.
fn answers(port: u16, password: &str) -> Option<()> {
    let reply = ask(port, password, "PING")?;
    (reply == "+OK\r\n+PONG\r\n").then_some(())
}

/// Sends one inline command, and returns everything up to the end of the connection.
fn ask(port: u16, password: &str, command: &str) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&port::address(port), ANSWER_TIMEOUT).ok()?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).ok()?;
    let lines = format!("AUTH {password}\r\n{command}\r\nQUIT\r\n");
    stream.write_all(lines.as_bytes()).ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok()?;
    Some(reply.strip_suffix("+OK\r\n").unwrap_or(&reply).to_owned())
}
