//! Opening a dataset, whatever its origin.

use std::path::Path;

use crate::layout::Part;
use crate::manifest::Manifest;
use crate::{DatasetError, DatasetInfo, Generate, Origin, PublishedFile, Split, files, find};

/// A dataset in memory, checked in full.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// Entry of the dataset in the table.
    pub info: &'static DatasetInfo,
    /// The training samples.
    pub train: Split,
    /// The test samples.
    pub test: Split,
    /// Hash over all files: the SHA-256 of the lines that `sha256sum`
    /// prints for them in reading order (training before test, images before
    /// labels), so that it can be computed without this program.
    pub sha256: String,
    /// Specification of a generated set; none for a published one.
    pub generated: Option<Generate>,
}

/// Content of a dataset's directory, by manifest and file sizes alone.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// Entry of the dataset in the table.
    pub info: &'static DatasetInfo,
    /// Training samples.
    pub train: usize,
    /// Test samples.
    pub test: usize,
    /// Specification of a generated set; none for a published one.
    pub generated: Option<Generate>,
}

/// Reads the named dataset from `dir` and checks every file's size, form and
/// checksum.
///
/// # Errors
/// A [`DatasetError`] that names the first file found wrong.
pub fn open(name: &str, dir: &Path) -> Result<Dataset, DatasetError> {
    let contents = Contents::read(find(name)?, dir)?;
    let Inspection {
        info, generated, ..
    } = contents.inspection;
    let mut listing = String::new();
    let mut split = |part: Part| -> Result<Split, DatasetError> {
        let mut parts = Vec::new();
        for name in info.layout.part_files(part) {
            let Some(expected) = contents.files.iter().find(|file| file.name == *name) else {
                continue;
            };
            let (bytes, sha256) = files::read(info, dir, expected, &contents.remedy)?;
            listing.push_str(&format!("{sha256}  {name}\n"));
            parts.push(bytes);
        }
        let records = info.layout.decode(info.format, &parts);
        Ok(Split::new(info.format, records))
    };
    let (train, test) = (split(Part::Train)?, split(Part::Test)?);
    Ok(Dataset {
        info,
        train,
        test,
        sha256: files::sha256_hex(listing.as_bytes()),
        generated,
    })
}

/// Checks that every file of the named dataset exists in `dir` and has the right
/// size. Contents are not read; [`open`] does that.
///
/// # Errors
/// A [`DatasetError`] that names the first file found wrong.
pub fn inspect(name: &str, dir: &Path) -> Result<Inspection, DatasetError> {
    let contents = Contents::read(find(name)?, dir)?;
    for file in &contents.files {
        files::check_size(dir, file, &contents.remedy)?;
    }
    Ok(contents.inspection)
}

/// Expected content of a directory, from the table or from its own manifest.
struct Contents {
    inspection: Inspection,
    files: Vec<PublishedFile>,
    remedy: String,
}

impl Contents {
    fn read(info: &'static DatasetInfo, dir: &Path) -> Result<Self, DatasetError> {
        let remedy = remedy(info, dir);
        let (train, test, generated, files) = match info.origin {
            Origin::Published {
                train, test, files, ..
            } => (train, test, None, files.to_vec()),
            Origin::Generated { .. } => {
                let manifest = Manifest::read(info, dir, &remedy)?;
                let spec = manifest.spec;
                (spec.train, spec.test, Some(spec), manifest.into_files(info))
            }
        };
        let inspection = Inspection {
            info,
            train,
            test,
            generated,
        };
        Ok(Self {
            inspection,
            files,
            remedy,
        })
    }
}

/// Returns what a user can do about a bad or missing file of this set.
pub(crate) fn remedy(info: &DatasetInfo, dir: &Path) -> String {
    let dir = dir.display();
    match info.origin {
        Origin::Published { url, .. } => {
            format!(
                "let `epochcost check EXPERIMENT --fetch` download it, or download {url} again and \
                 unpack its files into {dir}"
            )
        }
        Origin::Generated { .. } => {
            format!("delete {dir}: the next run makes it again")
        }
    }
}
