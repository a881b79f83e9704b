//! Files that a reader sees whole or not at all, and that survive a loss of power.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use epochcost_datasets::{flush, flush_directory};

use super::ResultsError;

/// Prefix and suffix of a file that is being written.
const PARTIAL: (&str, &str) = (".", ".partial");

/// Writes `bytes` to `path` so that a reader sees all of them or none: into a temporary file
/// in the same directory, which is synced and renamed; then the directory is synced. The
/// temporary file is deleted where that fails.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), ResultsError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(PARTIAL.0).suffix(PARTIAL.1);
    // The permissions of any other file, where `tempfile` would let only its owner read it.
    builder.permissions(Permissions::from_mode(0o666));
    let mut temporary = builder
        .tempfile_in(directory)
        .map_err(ResultsError::io("create a file beside", path))?;
    let file = temporary.as_file_mut();
    let written = file.write_all(bytes);
    written.map_err(ResultsError::io("write", path))?;
    flush(file).map_err(ResultsError::io("flush", path))?;
    let renamed = temporary.persist(path);
    renamed.map_err(|error| ResultsError::io("rename to", path)(error.error))?;
    sync_directory(directory)
}

/// Waits until the names in a directory are on the disk.
pub(super) fn sync_directory(directory: &Path) -> Result<(), ResultsError> {
    flush_directory(directory).map_err(ResultsError::io("flush", directory))
}

/// Deletes the temporary files that a killed program left in a directory.
pub(super) fn sweep(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        if is_partial(&entry.file_name().to_string_lossy()) {
            // What cannot be deleted harms nothing.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Returns whether a file name is that of a file that is being written.
pub(super) fn is_partial(name: &str) -> bool {
    name.starts_with(PARTIAL.0) && name.ends_with(PARTIAL.1)
}
