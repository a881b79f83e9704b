//! RabbitMQ.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::process::ServerProcess;
use crate::server::{Kind, Server};
use crate::{ServerError, find, port, secret, start};

/// Time limit of a start; a busy machine takes 40 s.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Name of the only user.
const USER: &str = "epochcost";
/// Size limit of the first frame, bytes.
const LONGEST_FRAME: usize = 1 << 16;

/// Running RabbitMQ server, with an Erlang port mapper of its own.
pub type RabbitMq = Server<RabbitMqLogin>;

/// Password of a RabbitMQ server's only user, and what its greeting says.
pub struct RabbitMqLogin {
    password: String,
    version: Option<String>,
}

impl Kind for RabbitMqLogin {
    const NAME: &'static str = "RabbitMQ";

    fn url(&self, address: SocketAddr) -> String {
        format!("amqp://{USER}:{}@{address}/%2f", self.password)
    }

    fn answers(&self, address: SocketAddr) -> bool {
        greeting(address).is_some()
    }
}

/// Ports of a server.
#[derive(Clone, Copy)]
struct Ports {
    /// Port for clients.
    amqp: u16,
    /// Port of Erlang's protocol between nodes, which RabbitMQ's tools use.
    distribution: u16,
    /// Port of Erlang's port mapper.
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
        let mut process = ServerProcess::new(start::directory()?)?;
        start_mapper(&mut process, ports)?;
        let command = server(&process, &script, ports, &password)?;
        process.start(command)?;
        let address = port::address(amqp);
        let probe = || greeting(address);
        let greeting = process.wait_for(RabbitMqLogin::NAME, START_TIMEOUT, probe)?;
        let version = version(&greeting);
        Ok(Self {
            process,
            address,
            kind: RabbitMqLogin { password, version },
        })
    }

    /// Returns the user's password.
    #[must_use]
    pub fn password(&self) -> &str {
        &self.kind.password
    }

    /// Returns the version from the server's greeting, such as `3.10.8`.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.kind.version.as_deref()
    }
}

/// Starts Erlang's port mapper in the group: otherwise Erlang starts one itself, and
/// leaves it behind.
fn start_mapper(process: &mut ServerProcess, ports: Ports) -> Result<(), ServerError> {
    let missing = ServerError::missing("epmd, Erlang's port mapper", find::RABBITMQ_REMEDY);
    let program = find::on_path("epmd").ok_or(missing)?;
    let mut command = process.command(&program)?;
    command
        .args(["-address", "127.0.0.1", "-port"])
        .arg(ports.mapper.to_string());
    process.start(command)?;
    process.wait_for("Erlang's port mapper", START_TIMEOUT, || {
        port::connect(port::address(ports.mapper)).ok()
    })?;
    Ok(())
}

/// Writes RabbitMQ's configuration, and returns the command that starts it.
fn server(
    process: &ServerProcess,
    script: &Path,
    ports: Ports,
    password: &str,
) -> Result<Command, ServerError> {
    let directory = process.directory.path();
    start::write_private(
        &directory.join("rabbitmq.conf"),
        &format!(
            "listeners.tcp.1 = 127.0.0.1:{}\ndefault_user = {USER}\ndefault_pass = {password}\n\
             log.console = true\nlog.file = false\n",
            ports.amqp
        ),
    )?;
    start::write_private(&directory.join("plugins"), "[].\n")?;
    let mut command = process.command(script)?;
    command
        .env("RABBITMQ_NODENAME", "epochcost@localhost")
        // RabbitMQ adds the suffix.
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

/// Returns the frame that greets AMQP 0-9-1 clients. RabbitMQ listens once everything
/// else has started, so that the frame shows that it is up.
fn greeting(address: SocketAddr) -> Option<Vec<u8>> {
    let mut stream = port::connect(address).ok()?;
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

/// Returns the server property `version` of the greeting. In a field table it is a name
/// with its length, `S`, and a text with its length.
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
