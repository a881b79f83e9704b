//! Experiment files below a directory.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Name of the directory of validations (`epochcost validate`), which are no experiments.
pub const VALIDATION: &str = "validation";

/// A directory that could not be searched for experiments.
#[derive(Debug, Error)]
#[error("failed to read {}", directory.display())]
pub struct UnreadableDirectory {
    /// The directory.
    pub directory: PathBuf,
    /// The reason, as the operating system reports it.
    pub source: std::io::Error,
}

/// Returns every `.yaml` file below a directory, sorted, without those of a directory
/// `validation`.
///
/// # Errors
/// When a directory cannot be read.
pub fn yaml_files(directory: &Path) -> Result<Vec<PathBuf>, UnreadableDirectory> {
    let failed = |source| UnreadableDirectory {
        directory: directory.to_owned(),
        source,
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() && path.ends_with(VALIDATION) {
            continue;
        }
        if path.is_dir() {
            files.extend(yaml_files(&path)?);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Returns every `.yaml` file of a directory of validations, sorted.
///
/// # Errors
/// When the directory cannot be read.
pub fn validation_files(directory: &Path) -> Result<Vec<PathBuf>, UnreadableDirectory> {
    let failed = |source| UnreadableDirectory {
        directory: directory.to_owned(),
        source,
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if (path.extension()).is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
