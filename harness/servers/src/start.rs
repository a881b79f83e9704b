//! Starting a server: its directory, its files and its ports.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use crate::ServerError;

/// Interval between probes of a server.
pub(crate) const PROBE_INTERVAL: Duration = Duration::from_millis(20);
/// Attempts of a start: another process may take a port before the server does.
const ATTEMPTS: usize = 5;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn a_taken_port_is_tried_again_and_nothing_else() {
        for (log, sound_at, times) in [
            ("bind: Address already in use", 3, 3),
            ("no such module", 3, 1),
            ("eaddrinuse", usize::MAX, ATTEMPTS),
        ] {
            let mut tried = 0;
            let started = with_ports(|| {
                tried += 1;
                if tried < sound_at {
                    return Err(ServerError::Ended {
                        server: "it",
                        status: ExitStatus::default(),
                        log: log.into(),
                    });
                }
                Ok(tried)
            });
            assert_eq!(tried, times, "{log}");
            match started {
                Ok(at) => assert_eq!(at, sound_at),
                Err(error) => assert!(times < sound_at && error.to_string().contains(log)),
            }
        }
    }
}
