//! Programs that a run starts many times: opened once, so that what was hashed is what runs.

use std::fs::{self, File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// A program's file, open for as long as it may be started. One that is replaced or deleted
/// meanwhile, as by another build, still starts as it was.
pub(crate) struct Program {
    /// The file where it was found.
    file: PathBuf,
    /// The path to start it by.
    path: PathBuf,
    /// The content when it was opened.
    content: [u64; 4],
    _open: File,
}

impl Program {
    /// Opens the program at `file`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn open(file: &Path) -> io::Result<Self> {
        let open = File::open(file)?;
        // Processes inherit the descriptor, and find the file by its number.
        rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty())?;
        let content = content(&open.metadata()?);
        let by_number = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
        let path = if by_number.exists() {
            by_number
        } else {
            // Without /proc, a replaced file is refused.
            file.to_owned()
        };
        Ok(Self {
            file: file.to_owned(),
            path,
            content,
            _open: open,
        })
    }

    /// Returns the path to start it by, in this process and its children.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses a program that was written over.
    ///
    /// # Errors
    /// What happened, and the remedy.
    pub(crate) fn check(&self) -> Result<(), String> {
        match fs::metadata(&self.path) {
            Ok(now) if content(&now) == self.content => Ok(()),
            _ => Err(format!(
                "{} was changed since the run began: results would mix two programs; start a new \
                 run, or put the first one back and go on with `run --resume`",
                self.file.display()
            )),
        }
    }
}

/// Returns what changes when a file is written to.
fn content(file: &Metadata) -> [u64; 4] {
    let modified = [file.mtime(), file.mtime_nsec()].map(i64::cast_unsigned);
    [file.ino(), file.len(), modified[0], modified[1]]
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::holds;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    fn script(path: &Path, says: &str) {
        fs::write(path, format!("#!/bin/sh\necho {says}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn says(program: &Program) -> String {
        // By way of another program, as sandboxes start.
        let mut command = Command::new("/bin/sh");
        command.args(["-c", r#"exec "$0""#]).arg(program.path());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    #[test]
    fn a_program_that_is_replaced_or_deleted_starts_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let [file, new] = ["bootstrap", "new"].map(|name| directory.path().join(name));
        script(&file, "first");
        script(&new, "second");
        let program = Program::open(&file).unwrap();
        let is_the_first = || {
            assert_eq!(says(&program), "first\n");
            assert_eq!(program.check(), Ok(()));
        };
        fs::rename(&new, &file).unwrap();
        is_the_first();
        fs::remove_file(&file).unwrap();
        is_the_first();
    }

    #[test]
    fn a_program_that_is_written_over_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("bootstrap");
        script(&file, "first");
        let program = Program::open(&file).unwrap();
        script(&file, "another");
        holds(program.check().unwrap_err(), &["bootstrap", "--resume"]);
    }
}
