//! RabbitMQ.

use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use tempfile::TempDir;

use crate::group::Group;
use crate::{ServerError, find, port, secret, start};

/// A busy machine takes 40 s to start it.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long one question may take.
const ANSWER: Duration = Duration::from_secs(1);
const NAME: &str = "RabbitMQ";
/// The one user.
const USER: &str = "epochcost";
/// Longest first frame that is read.
const LONGEST_FRAME: usize = 1 << 16;

/// A running RabbitMQ server, with an Erlang port mapper of its own.
pub struct RabbitMq {
    // Ends before the directory is removed.
    group: Group,
    port: u16,
    password: String,
    version: Option<String>,
    directory: TempDir,
}

/// What it listens on.
#[derive(Clone, Copy)]
struct Ports {
    amqp: u16,
    /// Erlang's own protocol between nodes, which RabbitMQ's tools use.
    distribution: u16,
    /// The port mapper.
    mapper: u16,
}

impl RabbitMq {
    /// Starts an empty server; takes seconds.
    ///
    /// # Errors
    /// When it is not installed, ends at once or does not answer.
    pub fn start() -> Result<Self, ServerError> {
        start::with_ports(Self::launch)
    }

    fn launch() -> Result<Self, ServerError> {
        let script = find::rabbitmq()?;
        let [amqp, distribution, mapper] =
            port::free().map_err(ServerError::io("find free ports"))?;
        let ports = Ports {
            amqp,
            distribution,
            mapper,
        };
        let password = secret::random();
        let directory = start::directory()?;
        let mut group = Group::new(directory.path()).map_err(ServerError::io("run /bin/sh"))?;
        start_mapper(&mut group, directory.path(), ports)?;
        let mut command = server(&script, directory.path(), ports, &password)?;
        group
            .start(&mut command)
            .map_err(ServerError::io(format!("run {}", script.display())))?;
        let greeting = start::wait_for(NAME, directory.path(), PATIENCE, &mut group, || {
            greeting(amqp)
        })?;
        Ok(Self {
            group,
            port: amqp,
            password,
            version: version(&greeting),
            directory,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        port::address(self.port)
    }

    /// The user's name.
    #[must_use]
    pub fn user(&self) -> &str {
        USER
    }

    /// The user's password.
    #[must_use]
    pub fn password(&self) -> &str {
        &self.password
    }

    /// `amqp://USER:PASSWORD@ADDRESS:PORT/%2f`, the default virtual host.
    #[must_use]
    pub fn url(&self) -> String {
        format!("amqp://{USER}:{}@{}/%2f", self.password, self.address())
    }

    /// The version that it said it is, such as `3.10.8`.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
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

impl fmt::Debug for RabbitMq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RabbitMQ at {}", self.address())
    }
}

/// Erlang starts a port mapper where it finds none, and leaves it behind. So
/// one is started first, in the group.
fn start_mapper(group: &mut Group, directory: &Path, ports: Ports) -> Result<(), ServerError> {
    let program = find::on_path("epmd").ok_or(ServerError::Missing {
        program: "epmd, Erlang's port mapper",
        remedy: "apt-get install rabbitmq-server",
    })?;
    let mut command = start::command(&program, directory)?;
    command
        .args(["-address", "127.0.0.1", "-port"])
        .arg(ports.mapper.to_string());
    group
        .start(&mut command)
        .map_err(ServerError::io(format!("run {}", program.display())))?;
    start::wait_for("Erlang's port mapper", directory, PATIENCE, group, || {
        TcpStream::connect_timeout(&port::address(ports.mapper), ANSWER).ok()
    })?;
    Ok(())
}

fn server(
    script: &Path,
    directory: &Path,
    ports: Ports,
    password: &str,
) -> Result<Command, ServerError> {
    start::write_private(
        &directory.join("rabbitmq.conf"),
        &format!(
            "listeners.tcp.1 = 127.0.0.1:{}\ndefault_user = {USER}\ndefault_pass = {password}\n\
             log.console = true\nlog.file = false\n",
            ports.amqp
        ),
    )?;
    start::write_private(&directory.join("plugins"), "[].\n")?;
    let mut command = start::command(script, directory)?;
    command
        .env("RABBITMQ_NODENAME", "epochcost@localhost")
        // Its suffix is added by RabbitMQ.
        .env("RABBITMQ_CONFIG_FILE", directory.join("rabbitmq"))
        .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", directory.join("plugins"))
        .env("RABBITMQ_MNESIA_BASE", directory.join("mnesia"))
        .env("RABBITMQ_LOG_BASE", directory.join("log"))
        .env("RABBITMQ_LOGS", "-")
        .env("RABBITMQ_DIST_PORT", ports.distribution.to_string())
        .env(
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
            "-kernel inet_dist_use_interface {127,0,0,1}",
        )
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env("ERL_EPMD_PORT", ports.mapper.to_string());
    Ok(command)
}

/// The frame that RabbitMQ greets AMQP 0-9-1 clients with. It listens when all
/// else has started, so that this is the sign that it is up.
fn greeting(port: u16) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&port::address(port), ANSWER).ok()?;
    stream.set_read_timeout(Some(ANSWER)).ok()?;
    stream.write_all(b"AMQP\x00\x00\x09\x01").ok()?;
    // AMQP 0-9-1, 4.2.3: type, channel and size; connection.start is method 10
    // of class 10.
    let mut head = [0; 7];
    stream.read_exact(&mut head).ok()?;
    let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
    let mut frame = vec![0; size.min(LONGEST_FRAME)];
    stream.read_exact(&mut frame).ok()?;
    (head[0] == 1 && frame.starts_with(&[0, 10, 0, 10])).then_some(frame)
}

/// The value of the greeting's server property `version`: in a field table a
/// name with its length, `S`, and a text with its length.
fn version(greeting: &[u8]) -> Option<String> {
    const NAME: &[u8] = b"\x07versionS";
    let at = greeting.windows(NAME.len()).position(|part| part == NAME)?;
    let (length, text) = greeting[at + NAME.len()..].split_first_chunk::<4>()?;
    let text = text.get(..u32::from_be_bytes(*length) as usize)?;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_the_greeting() {
        let greeting =
            b"\x00\x0a\x00\x0a\x00\x09....\x07versionS\x00\x00\x00\x063.10.8\x08platform";
        assert_eq!(version(greeting).as_deref(), Some("3.10.8"));
        assert_eq!(version(b"\x07versionS\x00\x00\x00\xff3.1"), None, "cut off");
        assert_eq!(version(b""), None);
    }
}
