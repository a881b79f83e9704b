//! Deployment packages: a ZIP archive with the worker.

use std::io::{Cursor, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use tempfile::TempDir;

/// Worker of a package in a directory of its own, which is removed on drop.
pub(super) struct Unpacked {
    /// Path of the worker binary.
    pub(super) program: PathBuf,
    _directory: TempDir,
}

/// Unpacks the package's `bootstrap` into a directory of its own.
pub(super) fn unpack(package: &[u8]) -> std::io::Result<Unpacked> {
    let directory = TempDir::with_prefix("epochcost-function-")?;
    let mut archive = zip::ZipArchive::new(Cursor::new(package)).map_err(std::io::Error::other)?;
    let mut file = archive
        .by_name("bootstrap")
        .map_err(std::io::Error::other)?;
    let program = directory.path().join("bootstrap");
    let mode = file.unix_mode().unwrap_or(0o644);
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    let mut written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode & 0o777)
        .open(&program)?;
    written.write_all(&content)?;
    Ok(Unpacked {
        program,
        _directory: directory,
    })
}
