//! A Redis server with the module, for as long as a test needs it.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use redis_protocol::resp2::types::BytesFrame;
use tempfile::TempDir;

use super::client::Client;

/// Longer than a server takes to start on any machine.
const PATIENCE: Duration = Duration::from_secs(30);
pub const PASSWORD: &str = "only-on-loopback";

/// A running server with a directory of its own; both are gone when dropped,
/// also when a test panics.
pub struct Server {
    child: Child,
    port: u16,
    directory: TempDir,
}

/// The program to run, or `None` with a message if there is none.
pub fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|directory| directory.join("redis-server"))
        .find(|program| program.is_file());
    if found.is_none() {
        assert!(
            std::env::var_os("EPOCHCOST_REQUIRE_SERVERS").is_none(),
            "redis-server is not installed, and EPOCHCOST_REQUIRE_SERVERS is set: apt-get install redis-server"
        );
        eprintln!("SKIPPED: redis-server is not installed: apt-get install redis-server");
    }
    found
}

/// The module, which Cargo put beside this test.
fn module() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let name = "libepochcost_tensordb.so";
    test.ancestors()
        .skip(1)
        .take(2)
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{name} is not beside {}", test.display()))
}

impl Server {
    /// Starts a server with further lines of configuration; `None` if none is
    /// installed.
    pub fn start(configuration: &str) -> Option<Self> {
        Self::start_in(tempfile::tempdir().unwrap(), configuration)
    }

    /// Starts a server on the files that another one left.
    pub fn start_in(directory: TempDir, configuration: &str) -> Option<Self> {
        Self::launch(directory, configuration, &[])
    }

    /// Starts a server with further variables in its environment.
    pub fn launch(
        directory: TempDir,
        configuration: &str,
        environment: &[(&str, &str)],
    ) -> Option<Self> {
        let program = installed()?;
        // Another process may take a port between our look and the server's.
        for _ in 0..5 {
            let port = free_port();
            let mut child = launch(&program, directory.path(), port, configuration, environment);
            if answers(&mut child, port) {
                return Some(Self {
                    child,
                    port,
                    directory,
                });
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        panic!("no server came up; its log:\n{}", log(directory.path()));
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address(), PASSWORD)
    }

    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The lines that make another server a replica of this one.
    pub fn as_primary(&self) -> String {
        format!("replicaof 127.0.0.1 {}\nmasterauth {PASSWORD}\n", self.port)
    }

    #[allow(dead_code, reason = "for the benchmark, which shares this file")]
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        log(self.directory.path())
    }

    /// Lets the server write its files and end; its directory stays.
    pub fn shut_down(mut self) -> TempDir {
        self.client().send(&[&["SHUTDOWN"]]);
        self.child.wait().unwrap();
        std::mem::replace(&mut self.directory, tempfile::tempdir().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(
    program: &Path,
    directory: &Path,
    port: u16,
    configuration: &str,
    environment: &[(&str, &str)],
) -> Child {
    let file = directory.join("redis.conf");
    let lines = format!(
        "bind 127.0.0.1\nport {port}\ndir {}\nrequirepass {PASSWORD}\nsave \"\"\n\
         enable-debug-command yes\nloadmodule {}\n{configuration}\n",
        directory.display(),
        module().display(),
    );
    std::fs::write(&file, lines).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let output = File::options()
        .create(true)
        .append(true)
        .open(directory.join("log"))
        .unwrap();
    Command::new(program)
        .arg(&file)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stderr(output.try_clone().unwrap())
        .stdout(output)
        .spawn()
        .unwrap()
}

fn answers(child: &mut Child, port: u16) -> bool {
    let started = Instant::now();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    while started.elapsed() < PATIENCE {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        if let Some(mut client) = Client::try_connect(address, PASSWORD) {
            let pong = BytesFrame::SimpleString(Bytes::from_static(b"PONG"));
            // While it loads its files it answers with an error.
            if client.call(&["PING"]) == pong {
                return true;
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn log(directory: &Path) -> String {
    std::fs::read_to_string(directory.join("log")).unwrap_or_default()
}
