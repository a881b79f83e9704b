//! The lock of a run directory: one program writes into it at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Once;

use epochcost_spec::ui::eprint_line;
use jiff::Timestamp;

use super::ResultsError;
use super::output::OUT;

/// File of the lock, in the run directory.
pub(super) const LOCK: &str = "run.lock";

/// The lock of a run directory, held until this is dropped or the program ends, however it
/// ends.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    /// The open file carries the lock.
    _file: File,
}

impl Lock {
    /// Takes the lock of a directory, and writes who holds it into its file.
    ///
    /// # Errors
    /// [`ResultsError::InUse`] with the holder, if another program has it.
    pub(super) fn take(directory: &Path) -> Result<Self, ResultsError> {
        let path = directory.join(LOCK);
        loop {
            let mut file = open(&path)?;
            let is_locked = match file.try_lock() {
                Ok(()) => true,
                Err(TryLockError::WouldBlock) => {
                    return Err(ResultsError::InUse {
                        path: directory.to_path_buf(),
                        holder: holder(&mut file),
                    });
                }
                Err(TryLockError::Error(error)) => {
                    warn(directory, &error);
                    false
                }
            };
            // The last holder deletes the file: a lock on the deleted one is none.
            if !is_locked || is_at(&file, &path) {
                state_holder(&mut file).map_err(ResultsError::io("write", &path))?;
                return Ok(Self { path, _file: file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A file that stays behind is without a lock, and is taken by the next run.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Warns once of a file system without locks, as of some clusters: two programs at once are not
/// noticed there.
fn warn(directory: &Path, error: &std::io::Error) {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        eprint_line(format_args!(
            "warning: {} cannot be locked ({error}): start no other run in it, or choose --out on \
             a local disk",
            directory.display()
        ));
    });
}

fn open(path: &Path) -> Result<File, ResultsError> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false);
    let directory = path.parent().unwrap_or(path);
    file.open(path)
        .map_err(ResultsError::unwritable(directory, OUT))
}

/// Returns whether an open file is the one that stands at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    let own = file.metadata().map(|own| (own.dev(), own.ino()));
    let there = std::fs::metadata(path).map(|there| (there.dev(), there.ino()));
    own.ok().is_some_and(|own| there.ok() == Some(own))
}

fn state_holder(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    let since = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
    writeln!(file, "process {} since {since}", std::process::id())
}

/// Returns who holds the lock, as its file states it.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(200).read_to_string(&mut text);
    match (read, text.trim()) {
        (Ok(_), stated) if !stated.is_empty() => stated.to_owned(),
        _ => "another process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_refused_and_told_of_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let first = Lock::take(directory.path()).unwrap();
        let error = Lock::take(directory.path()).unwrap_err();
        let own = format!("process {}", std::process::id());
        assert!(error.to_string().contains(&own), "{error}");
        assert!(error.is_usage());
        drop(first);
        assert!(!directory.path().join(LOCK).exists());
        // What a killed program left behind is no lock.
        std::fs::write(directory.path().join(LOCK), "process 1 since then").unwrap();
        drop(Lock::take(directory.path()).unwrap());
    }
}
