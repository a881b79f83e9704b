//! `dataset.json`: the manifest of a generated directory.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Checksum, DatasetError, DatasetInfo, Generate, PublishedFile, files};

/// The manifest's name in a generated set's directory.
pub const MANIFEST_FILE: &str = "dataset.json";

/// The manifest's format as written by this version.
pub(crate) const SCHEMA_VERSION: SchemaVersion = SchemaVersion { major: 1, minor: 0 };

/// Version of a format: a reader accepts any minor version of its own major version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemaVersion {
    /// Major version, raised when an older reader would misread the file.
    pub major: u32,
    /// Minor version, raised when something is added.
    pub minor: u32,
}

/// Manifest of a generated directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of this format.
    pub schema_version: SchemaVersion,
    /// The dataset's name.
    pub name: String,
    /// Version of the generator: the same version and specification give the same
    /// bytes.
    pub generator_version: u32,
    /// Specification of the set.
    pub spec: Generate,
    /// Every file of the set except the manifest, in reading order.
    pub files: Vec<ManifestFile>,
}

/// A file of a generated set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Name of the file.
    pub name: String,
    /// Size, bytes.
    pub size_bytes: u64,
    /// SHA-256 in lower-case hexadecimal.
    pub sha256: String,
}

impl Manifest {
    /// Reads the manifest of a generated set and checks that it describes a set
    /// of that name in full.
    pub(crate) fn read(info: &DatasetInfo, dir: &Path, remedy: &str) -> Result<Self, DatasetError> {
        let path = dir.join(MANIFEST_FILE);
        files::regular_size(&path, remedy)?;
        let text =
            fs::read_to_string(&path).map_err(|source| files::read_error(&path, source, remedy))?;
        let bad = |reason: String| DatasetError::Manifest {
            path: path.clone(),
            reason,
            remedy: remedy.to_owned(),
        };
        // The format.
        let manifest: Self = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        let major = manifest.schema_version.major;
        if major != SCHEMA_VERSION.major {
            return Err(bad(format!(
                "its format version is {major}, this program reads {}",
                SCHEMA_VERSION.major
            )));
        }
        // The set.
        if manifest.name != info.name {
            return Err(DatasetError::OtherSet {
                path: dir.to_owned(),
                found: manifest.name,
                expected: info.name.to_owned(),
            });
        }
        manifest.spec.check(info)?;
        let Generate { train, test, .. } = manifest.spec;
        // The files.
        let listed = manifest.files.iter();
        let listed = listed.map(|file| (file.name.as_str(), file.size_bytes));
        if !listed.eq(info.layout.files(info.format, train, test)) {
            return Err(bad(format!(
                "its list of files does not fit {train} training and {test} test samples"
            )));
        }
        Ok(manifest)
    }

    /// Returns the files that a set with this manifest, as it was read, holds.
    pub(crate) fn into_files(self, info: &DatasetInfo) -> Vec<PublishedFile> {
        let sizes = info
            .layout
            .files(info.format, self.spec.train, self.spec.test);
        let files = sizes.into_iter().zip(self.files);
        let described = files.map(|((name, size_bytes), file)| PublishedFile {
            name,
            size_bytes,
            checksum: Checksum::Sha256(file.sha256.into()),
        });
        described.collect()
    }
}
