//! Redis, with the tensor store's module or without.

use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::group::Group;
use crate::{ServerError, find, port, secret, start};

/// Longer than it takes to start on any machine, its files included.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long one question may take.
const ANSWER: Duration = Duration::from_secs(1);
const NAME: &str = "Redis";

/// How Redis' allocator (jemalloc) treats freed memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Allocator {
    /// As it comes: freed pages go back to the system after ten seconds.
    #[default]
    Stock,
    /// Freed pages are kept, so that large values do not fault them in again.
    Tuned,
}

impl Allocator {
    /// The value of `MALLOC_CONF`, if any.
    #[must_use]
    pub fn malloc_conf(self) -> Option<&'static str> {
        match self {
            Self::Stock => None,
            Self::Tuned => Some("dirty_decay_ms:-1,muzzy_decay_ms:-1"),
        }
    }
}

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub struct RedisSettings {
    /// The tensor store's module, if it is to be loaded.
    pub module: Option<PathBuf>,
    /// What it does with freed memory.
    pub allocator: Allocator,
    /// Further lines of `redis.conf`. Without any, nothing is written to disk.
    pub configuration: String,
}

/// A running Redis server.
pub struct Redis {
    // Ends before the directory is removed.
    group: Group,
    port: u16,
    password: String,
    directory: TempDir,
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
        let file = directory.path().join("redis.conf");
        start::write_private(
            &file,
            &configuration(directory.path(), port, &password, settings),
        )?;
        let mut command = start::command(&program, directory.path())?;
        command.arg(&file);
        if let Some(value) = settings.allocator.malloc_conf() {
            // Debian's Redis reads one name, one built from Redis' own sources the other.
            command
                .env("MALLOC_CONF", value)
                .env("JE_MALLOC_CONF", value);
        }
        let mut group = Group::new(directory.path()).map_err(ServerError::io("run /bin/sh"))?;
        group
            .start(&mut command)
            .map_err(ServerError::io(format!("run {}", program.display())))?;
        start::wait_for(NAME, directory.path(), PATIENCE, &mut group, || {
            answers(port, &password)
        })?;
        Ok(Self {
            group,
            port,
            password,
            directory,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        port::address(self.port)
    }

    /// What clients authenticate with.
    #[must_use]
    pub fn password(&self) -> &str {
        &self.password
    }

    /// `redis://:PASSWORD@ADDRESS:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://:{}@{}", self.password, self.address())
    }

    /// The lines of configuration that make another server its replica.
    #[must_use]
    pub fn as_primary(&self) -> String {
        format!(
            "replicaof 127.0.0.1 {}\nmasterauth {}\n",
            self.port, self.password
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

    /// Lets it write the files that its configuration asks for and end; its
    /// directory stays.
    #[must_use]
    pub fn shut_down(mut self) -> TempDir {
        // It closes the connection without a reply.
        let _ = ask(self.port, &self.password, "SHUTDOWN");
        self.group.wait();
        self.directory
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redis at {}", self.address())
    }
}

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

/// Whether the server with our password is up. While it loads its files it
/// answers PING with an error.
fn answers(port: u16, password: &str) -> Option<()> {
    let reply = ask(port, password, "PING")?;
    (reply == "+OK\r\n+PONG\r\n").then_some(())
}

/// Sends one command as the line that Redis takes from people, and returns what
/// came until it closed the connection.
fn ask(port: u16, password: &str, command: &str) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&port::address(port), ANSWER).ok()?;
    stream.set_read_timeout(Some(ANSWER)).ok()?;
    let lines = format!("AUTH {password}\r\n{command}\r\nQUIT\r\n");
    stream.write_all(lines.as_bytes()).ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok()?;
    Some(reply.strip_suffix("+OK\r\n").unwrap_or(&reply).to_owned())
}
