//! Files that are written before the first trial: read with their checksums, and cleared
//! where a run was cut off before it had a manifest.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::check::read_checked;
use super::lock::LOCK;
use super::seal::{UNSEALED, check_file};
use super::{
    FileHash, HEAD, MANIFEST, Manifest, ResultsError, SCHEMA_VERSION, SchemaVersion, whole,
};

/// Empties a directory that holds no more than a program writes before its manifest: a run
/// that was cut off there has nothing to go on with.
///
/// # Errors
/// [`ResultsError::NotABeginning`] if it holds something else; nothing is deleted then.
pub(super) fn clear_beginning(path: &Path) -> Result<(), ResultsError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(ResultsError::io("read", path))? {
        let entry = entry.map_err(ResultsError::io("read", path))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_head = HEAD.contains(&name.as_str()) || whole::is_partial(&name) || name == LOCK;
        let is_empty = || fs::read_dir(entry.path()).is_ok_and(|mut files| files.next().is_none());
        if !(is_head || (name == "events" && is_empty())) {
            return Err(ResultsError::NotABeginning {
                path: path.to_path_buf(),
                found: name,
            });
        }
        found.push((entry.path(), name));
    }
    for (path, name) in found {
        let removed = match name.as_str() {
            LOCK => Ok(()),
            "events" => fs::remove_dir(&path),
            _ => fs::remove_file(&path),
        };
        removed.map_err(ResultsError::io("delete", &path))?;
    }
    Ok(())
}

/// Files that are written before the first trial, and their hashes.
pub(super) struct Head<'a> {
    /// The run directory.
    pub(super) path: &'a Path,
    /// Hashes by the manifest.
    pub(super) hashes: &'a [FileHash],
}

impl Head<'_> {
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>, ResultsError> {
        let hash = self.hashes.iter().find(|hash| hash.name == name);
        let hash = hash.ok_or_else(|| {
            let reason = format!("`files` has no checksum of {name}");
            ResultsError::damaged(&self.path.join(MANIFEST), reason)
        })?;
        read_checked(&self.path.join(name), &hash.sha256)
    }

    pub(super) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, ResultsError> {
        parsed(&self.path.join(name), &self.read(name)?)
    }
}

/// Reads the manifest of a run.
///
/// # Errors
/// When there is none, its format is another one, or it is damaged.
pub(super) fn open_manifest(path: &Path) -> Result<Manifest, ResultsError> {
    let file = path.join(MANIFEST);
    if !file.is_file() {
        return Err(ResultsError::NotARun(path.to_path_buf()));
    }
    read_sealed(path, &file, SCHEMA_VERSION)
}

/// Reads a file with a version and, at its end, a checksum. `path` is the directory, `known` the
/// newest version that can be read.
///
/// # Errors
/// When the checksum is not that of the text, the version is newer than `known` or of another
/// major one, or the text has another form.
pub(super) fn read_sealed<T: DeserializeOwned>(
    path: &Path,
    file: &Path,
    known: SchemaVersion,
) -> Result<T, ResultsError> {
    /// The one field that every version has.
    #[derive(serde::Deserialize)]
    struct Head {
        schema_version: SchemaVersion,
    }

    let text = fs::read(file).map_err(ResultsError::read(file))?;
    let damaged = |reason| ResultsError::damaged(file, reason);
    let is_sealed = check_file(&text).map_err(damaged)?;
    let found = parsed::<Head>(file, &text)?.schema_version;
    if (found.major, found.minor) > (known.major, known.minor) {
        return Err(ResultsError::TooNew {
            path: path.to_path_buf(),
            found,
            known,
        });
    }
    if found.major < known.major {
        return Err(ResultsError::TooOld {
            path: path.to_path_buf(),
            found,
            known: known.major,
        });
    }
    // What does not parse is reported as that: its reason says more.
    let read = parsed(file, &text)?;
    is_sealed
        .then_some(read)
        .ok_or_else(|| damaged(UNSEALED.to_owned()))
}

/// Returns a value as it is once it was written and read: floats may differ in
/// their last digit.
pub(super) fn as_read<T: Serialize + DeserializeOwned>(value: &T) -> Result<T, ResultsError> {
    let text = serde_json::to_vec(value);
    let read = text.and_then(|text| serde_json::from_slice(&text));
    read.map_err(|error| ResultsError::damaged(Path::new("the plan"), error))
}

fn parsed<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, ResultsError> {
    serde_json::from_slice(text).map_err(|error| ResultsError::damaged(path, error))
}
