//! A sandbox's own `/tmp`, of limited size, which lives as long as the sandbox.
//!
//! Where this user may, a sandbox starts in a mount namespace of its own with a
//! file system in memory at `/tmp`. No safe call of the standard library makes
//! one, so `unshare` and `mount` do, and then become the worker: no process is
//! left between the harness and it. Elsewhere the sandbox gets a directory, named
//! in `TMPDIR`, whose size is polled.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use tempfile::TempDir;

/// Directories of the two programs on every distribution that has them.
const PLACES: [&str; 4] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// `$0` is the mount program, `$1` the size in MB, `$2` the program to become.
/// That is opened first: it may lie below the `/tmp` that is about to be hidden.
const ENTER: &str = r#"exec 3<"$2" && "$0" -t tmpfs -o "size=$1m,mode=1777,nosuid,nodev" tmpfs /tmp && shift 2 && exec /proc/self/fd/3 "$@""#;

/// Implementation of a sandbox's `/tmp`.
#[derive(Debug)]
pub(in super::super) enum Storage {
    /// A mount in the sandbox's own namespace, of limited size.
    Mounted {
        /// `unshare` and its options.
        unshare: Vec<String>,
        /// `mount`.
        mount: PathBuf,
    },
    /// A directory whose size is polled.
    Watched {
        /// Reason why it is not a mount.
        why: String,
    },
}

impl Storage {
    /// Determines by trial whether this user may mount.
    pub(super) fn detect() -> Self {
        let (Some(unshare), Some(mount)) = (find("unshare"), find("mount")) else {
            return Self::watched("unshare and mount (util-linux) are not installed");
        };
        let unshare = unshare.display().to_string();
        // Root needs no user namespace; where others may make one, they are root in it.
        let ways: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];
        let mut why = String::new();
        for options in ways {
            let options = options.iter().chain(&["--propagation", "private", "--"]);
            let mut command = vec![unshare.clone()];
            command.extend(options.map(|option| (*option).to_owned()));
            let storage = Self::Mounted {
                unshare: command,
                mount: mount.clone(),
            };
            match storage.try_out() {
                Ok(()) => return storage,
                Err(error) => why = error,
            }
        }
        Self::watched(&why)
    }

    pub(super) fn watched(why: &str) -> Self {
        Self::Watched {
            why: why.to_owned(),
        }
    }

    /// Returns whether sandboxes get a directory in `TMPDIR`.
    pub(in super::super) fn is_watched(&self) -> bool {
        matches!(self, Self::Watched { .. })
    }

    /// Returns the mechanism that limits its size.
    pub(in super::super) fn how(&self) -> String {
        match self {
            Self::Mounted { .. } => "tmpfs in a mount namespace".to_owned(),
            Self::Watched { why } => {
                format!("a directory in TMPDIR polled every 50 ms, since {why}")
            }
        }
    }

    /// Returns the command that starts `program` with a `/tmp` of `storage_mb`, without the
    /// program's own arguments, and the directory whose size is polled, removed when dropped; none
    /// where a mount limits it.
    pub(in super::super) fn enter(
        &self,
        program: &Path,
        storage_mb: u32,
    ) -> io::Result<(Command, Option<TempDir>)> {
        let Self::Mounted { unshare, mount } = self else {
            let mut directory = tempfile::Builder::new();
            let watched = directory.prefix("epochcost-tmp-").tempdir()?;
            return Ok((Command::new(program), Some(watched)));
        };
        let mut command = Command::new(&unshare[0]);
        command
            .args(&unshare[1..])
            .args(["/bin/sh", "-c", ENTER])
            .arg(mount)
            .arg(storage_mb.to_string())
            .arg(program);
        Ok((command, None))
    }

    fn try_out(&self) -> Result<(), String> {
        let shell = Path::new("/bin/sh");
        let (mut command, _watched) = self.enter(shell, 1).map_err(|error| error.to_string())?;
        command.args(["-c", "exit 0"]).stdin(Stdio::null());
        let output = command.output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        let printed = String::from_utf8_lossy(&output.stderr);
        let printed = printed.lines().next().unwrap_or("it ended without a word");
        Err(format!("nothing can be mounted ({printed})"))
    }
}

fn find(program: &str) -> Option<PathBuf> {
    let places = PLACES.iter().map(|place| Path::new(place).join(program));
    places.into_iter().find(|path| path.is_file())
}

/// Returns the size of the files below `directory`, bytes; files that vanish meanwhile
/// count as 0.
pub(in super::super) fn bytes_in(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_in(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_all_files_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("a")).unwrap();
        fs::write(directory.path().join("a/b"), [0; 1_000]).unwrap();
        fs::write(directory.path().join("c"), [0; 24]).unwrap();
        assert_eq!(bytes_in(directory.path()), 1_024);
        assert_eq!(bytes_in(Path::new("/no/such/directory")), 0);
    }

    #[test]
    fn what_cannot_be_mounted_is_said() {
        let storage = Storage::Mounted {
            unshare: vec!["/bin/false".into()],
            mount: "/bin/mount".into(),
        };
        let why = storage.try_out().unwrap_err();
        assert!(why.contains("nothing can be mounted"), "{why}");
    }
}
