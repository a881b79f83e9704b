//! A server's processes with their directory and their log.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::ServerError;
use crate::group::Group;
use crate::start::PROBE_INTERVAL;

/// Lines of a log in an error message.
const LAST_LINES: usize = 20;
/// Name of the log in a server's directory.
const LOG: &str = "server.log";

/// Process group of one server in a directory of its own; both end on drop.
pub(crate) struct ServerProcess {
    // Ends before the directory is removed.
    pub(crate) group: Group,
    pub(crate) directory: TempDir,
}

impl ServerProcess {
    /// Creates a group without processes.
    pub(crate) fn new(directory: TempDir) -> Result<Self, ServerError> {
        let group = Group::new(directory.path()).map_err(ServerError::io("run /bin/sh"))?;
        Ok(Self { group, directory })
    }

    /// Returns a command for [`ServerProcess::start`] that runs in the directory, writes to the log
    /// there, and has no variable of our environment but the path.
    pub(crate) fn command(&self, program: &Path) -> Result<Command, ServerError> {
        let directory = self.directory.path();
        let log = directory.join(LOG);
        let doing = || ServerError::io(format!("write {}", log.display()));
        let output = File::options()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&log)
            .map_err(doing())?;
        let errors = output.try_clone().map_err(doing())?;
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", directory)
            .current_dir(directory)
            .stdout(Stdio::from(output))
            .stderr(Stdio::from(errors));
        Ok(command)
    }

    /// Starts a process in the group.
    pub(crate) fn start(&mut self, mut command: Command) -> Result<(), ServerError> {
        let doing = format!("run {}", Path::new(command.get_program()).display());
        let started = self.group.start(&mut command);
        started.map_err(ServerError::io(doing))
    }

    /// Probes until there is an answer, the process started last ends, or `timeout` is
    /// over.
    pub(crate) fn wait_for<T>(
        &mut self,
        server: &'static str,
        timeout: Duration,
        mut probe: impl FnMut() -> Option<T>,
    ) -> Result<T, ServerError> {
        let started = Instant::now();
        while started.elapsed() < timeout {
            let answer = probe();
            // After the probe: an answer on the port of a server that has ended comes from
            // another program.
            if let Some(status) = self.group.ended() {
                let log = self.last_lines();
                return Err(ServerError::Ended {
                    server,
                    status,
                    log,
                });
            }
            if let Some(answer) = answer {
                return Ok(answer);
            }
            sleep(PROBE_INTERVAL);
        }
        Err(ServerError::Silent {
            server,
            seconds: timeout.as_secs(),
            log: self.last_lines(),
        })
    }

    /// Returns the log so far.
    pub(crate) fn log(&self) -> String {
        log_in(self.directory.path())
    }

    /// Returns the last lines of the log.
    fn last_lines(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}

/// Returns the log in a server's directory.
pub(crate) fn log_in(directory: &Path) -> String {
    let bytes = fs::read(directory.join(LOG)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_server_that_ends_or_says_nothing_is_reported_with_its_last_words() {
        let start = |script: &str, timeout| {
            let mut process = ServerProcess::new(crate::start::directory().unwrap()).unwrap();
            let mut shell = process.command(Path::new("/bin/sh")).unwrap();
            shell.args(["-c", script]);
            process.start(shell).unwrap();
            let answer = process.wait_for("it", timeout, || None::<()>);
            answer.unwrap_err().to_string()
        };
        let error = start("echo no memory; exit 3", Duration::from_secs(20));
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.contains("no memory"), "{error}");
        let error = start("sleep 600", Duration::from_millis(50));
        assert!(error.contains("did not answer"), "{error}");
    }
}
