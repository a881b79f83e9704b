//! Output directories: making one, moving one aside, trying whether one can be
//! written to.

use std::fs;
use std::path::{Path, PathBuf};

use super::ResultsError;

/// The option that names the directory of a run.
pub(super) const OUT: &str = "--out";

/// Makes `path` where it is absent, and refuses one that holds something.
pub(super) fn make_empty(path: &Path) -> Result<PathBuf, ResultsError> {
    let unwritable = ResultsError::unwritable(path, OUT);
    fs::create_dir_all(path).map_err(&unwritable)?;
    let mut entries = fs::read_dir(path).map_err(unwritable)?;
    match entries.next() {
        Some(_) => Err(ResultsError::NotEmpty(path.to_path_buf())),
        None => Ok(path.to_path_buf()),
    }
}

/// Makes `parent/name`, or the first of `parent/name-2`, `-3`, … that is free.
pub(super) fn make_unused(parent: &Path, name: &str) -> Result<(String, PathBuf), ResultsError> {
    fs::create_dir_all(parent).map_err(ResultsError::unwritable(parent, OUT))?;
    let mut unused = name.to_owned();
    let mut copy = 1;
    loop {
        let path = parent.join(&unused);
        match fs::create_dir(&path) {
            Ok(()) => return Ok((unused, path)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                copy += 1;
                unused = format!("{name}-{copy}");
            }
            Err(error) => return Err(ResultsError::unwritable(&path, OUT)(error)),
        }
    }
}

/// Moves a directory to `parent/name`, or the first of `parent/name-2`, `-3`, …
/// that is free, and returns where it is.
///
/// # Errors
/// When it could not be moved.
pub fn set_aside(path: &Path, parent: &Path, name: &str) -> Result<PathBuf, ResultsError> {
    let (_, place) = make_unused(parent, name)?;
    fs::rename(path, &place).map_err(ResultsError::io("set aside", path))?;
    Ok(place)
}

/// Refuses a file that `option` names and that cannot be written, before any work starts.
///
/// # Errors
/// When it is a directory or a device, which a file would replace, or its directory cannot be
/// made or written to.
pub fn probe_file(file: &Path, option: &'static str) -> Result<(), ResultsError> {
    if file.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(ResultsError::NotAFile(file.to_path_buf()));
    }
    // An empty parent is the current directory.
    let parent = file.parent().filter(|path| *path != Path::new(""));
    probe(parent.unwrap_or(Path::new(".")), option)
}

/// Refuses a directory that `option` names and that cannot be written to, before any work starts.
///
/// # Errors
/// When it cannot be made or written to.
pub fn probe(directory: &Path, option: &'static str) -> Result<(), ResultsError> {
    let unwritable = ResultsError::unwritable(directory, option);
    fs::create_dir_all(directory).map_err(&unwritable)?;
    tempfile::tempfile_in(directory).map_err(unwritable)?;
    Ok(())
}
