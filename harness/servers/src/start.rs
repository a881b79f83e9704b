//! Starting a server: its directory, its log, and the wait until it answers.

use std::fs::{self, File};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::ServerError;
use crate::group::Group;

/// Interval between probes of a starting server.
const PROBE_INTERVAL: Duration = Duration::from_millis(20);
/// Attempts of a start: another process may take a port before the server does.
const ATTEMPTS: usize = 5;
/// Lines of a log in an error message.
const LAST_LINES: usize = 20;
/// Name of the log in a server's directory.
const LOG: &str = "server.log";

/// Questions to a running server, of which one has to be answered. Each waits a second.
const QUESTIONS: usize = 5;

/// Returns whether a running server answers: one that is stopped or hangs keeps its port, and
/// says nothing.
pub(crate) fn is_answering(mut probe: impl FnMut() -> bool) -> bool {
    (0..QUESTIONS).any(|question| {
        if question > 0 {
            sleep(PROBE_INTERVAL);
        }
        probe()
    })
}

/// Repeats a start that failed because another process took a port.
pub(crate) fn with_ports<T>(
    mut start: impl FnMut() -> Result<T, ServerError>,
) -> Result<T, ServerError> {
    for _ in 1..ATTEMPTS {
        match start() {
            Err(ServerError::Ended { log, .. }) if is_port_taken(&log) => {}
            other => return other,
        }
    }
    start()
}

/// Returns whether a log has the message of Redis or of Erlang for a taken port.
fn is_port_taken(log: &str) -> bool {
    log.contains("Address already in use") || log.contains("eaddrinuse")
}

/// Probes until there is an answer, the server ends, or `timeout` is over.
pub(crate) fn wait_for<T>(
    server: &'static str,
    directory: &Path,
    timeout: Duration,
    group: &mut Group,
    mut probe: impl FnMut() -> Option<T>,
) -> Result<T, ServerError> {
    let started = Instant::now();
    while started.elapsed() < timeout {
        let answer = probe();
        // After the probe: an answer on the port of a server that has ended comes from
        // another program.
        if let Some(status) = group.ended() {
            let log = last_lines(directory);
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
        log: last_lines(directory),
    })
}

/// Returns a command that runs in `directory`, writes to the log there, and has no
/// variable of our environment but the path.
pub(crate) fn command(program: &Path, directory: &Path) -> Result<Command, ServerError> {
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

/// Writes a file that only its owner may read.
pub(crate) fn write_private(file: &Path, text: &str) -> Result<(), ServerError> {
    let write = || {
        fs::write(file, "")?;
        fs::set_permissions(file, fs::Permissions::from_mode(0o600))?;
        fs::write(file, text)
    };
    write().map_err(ServerError::io(format!("write {}", file.display())))
}

/// Creates a directory that only its owner may enter.
pub(crate) fn directory() -> Result<tempfile::TempDir, ServerError> {
    tempfile::Builder::new()
        .prefix("epochcost-")
        .tempdir()
        .map_err(ServerError::io("make a server's directory"))
}

/// Returns a server's log.
pub(crate) fn log(directory: &Path) -> String {
    let bytes = fs::read(directory.join(LOG)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the last lines of a server's log.
pub(crate) fn last_lines(directory: &Path) -> String {
    let log = log(directory);
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::ExitStatus;

    use super::*;

    fn ended(log: &str) -> ServerError {
        ServerError::Ended {
            server: "it",
            status: ExitStatus::default(),
            log: log.into(),
        }
    }

    #[test]
    fn a_taken_port_is_tried_again_and_nothing_else() {
        let mut times = 0;
        let started = with_ports(|| {
            times += 1;
            if times < 3 {
                return Err(ended("bind: Address already in use"));
            }
            Ok(times)
        });
        assert_eq!(started.unwrap(), 3);
        let mut times = 0;
        let refused: Result<(), _> = with_ports(|| {
            times += 1;
            Err(ended("no such module"))
        });
        assert!(refused.unwrap_err().to_string().contains("no such module"));
        assert_eq!(times, 1);
        let mut times = 0;
        let never: Result<(), _> = with_ports(|| {
            times += 1;
            Err(ended("eaddrinuse"))
        });
        assert!(never.is_err());
        assert_eq!(times, ATTEMPTS);
    }

    #[test]
    fn a_server_that_ends_or_says_nothing_is_reported_with_its_last_words() {
        let directory = directory().unwrap();
        let start = |script: &str, timeout| {
            let mut group = Group::new(directory.path()).unwrap();
            let mut shell = command(Path::new("/bin/sh"), directory.path()).unwrap();
            group.start(shell.args(["-c", script])).unwrap();
            wait_for("it", directory.path(), timeout, &mut group, || None::<()>)
                .unwrap_err()
                .to_string()
        };
        let error = start("echo no memory; exit 3", Duration::from_secs(20));
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.contains("no memory"), "{error}");
        let error = start("sleep 600", Duration::from_millis(50));
        assert!(error.contains("did not answer"), "{error}");
    }
}
