//! Experiment files below a directory.

use std::path::{Path, PathBuf};

use thiserror::Error;

use epochcost_spec::published::PAPER;
use epochcost_spec::shipped;

/// Name of the directory of validations (`epochcost dev validate`), which are no experiments.
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

/// Returns every experiment's file below a directory, sorted: `.yaml` files, without those of a
/// directory `validation` and the `paper.yaml` of papers' folders.
///
/// # Errors
/// When a directory cannot be read.
pub fn yaml_files(directory: &Path) -> Result<Vec<PathBuf>, UnreadableDirectory> {
    let mut files = Vec::new();
    for path in entries(directory)? {
        if path.is_dir() && path.ends_with(VALIDATION) {
            continue;
        }
        if path.is_dir() {
            files.extend(yaml_files(&path)?);
        } else if is_yaml(&path) && !is_validation(&path) && !path.ends_with(PAPER) {
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
    let mut files = entries(directory)?;
    files.retain(|path| is_yaml(path) && path.parent() == Some(directory));
    files.sort();
    Ok(files)
}

/// Returns what a directory holds; of a shipped one, every file below it.
fn entries(directory: &Path) -> Result<Vec<PathBuf>, UnreadableDirectory> {
    if shipped::is_directory(directory) && shipped::is_shipped(directory) {
        return Ok(shipped::paths_below(directory));
    }
    let failed = |source| UnreadableDirectory {
        directory: directory.to_owned(),
        source,
    };
    let entries = std::fs::read_dir(directory).map_err(failed)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    paths.collect::<Result<_, _>>().map_err(failed)
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|own| own == "yaml")
}

/// Returns whether a shipped file is a validation.
fn is_validation(path: &Path) -> bool {
    let mut above = path.ancestors().skip(1);
    shipped::is_shipped(path) && above.any(|directory| directory.ends_with(VALIDATION))
}
