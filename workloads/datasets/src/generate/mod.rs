//! Generation of labelled images, for machines that cannot download a real set.

mod draws;
mod glyphs;
mod render;

use std::fmt;
use std::fs;
use std::io::Write;
use std::path::Path;

use epochcost_kernels::hash;
use serde::{Deserialize, Serialize};

use crate::layout::Part;
use crate::manifest::{MANIFEST_FILE, Manifest, ManifestFile, SCHEMA_VERSION};
use crate::{DatasetError, DatasetInfo, Origin, files, find, open};
use draws::Draws;

/// Version of the generator, raised when the same specification would give other bytes.
pub const GENERATOR_VERSION: u32 = 1;

/// Largest split, samples: enough to round the share of each worker of the largest published set up to
/// whole mini-batches.
const MOST_SAMPLES: usize = 65_536;

/// Specification of a generated set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generate {
    /// Training samples, at least as many as classes.
    pub train: usize,
    /// Test samples, at least as many as classes.
    pub test: usize,
    /// Seed of all random draws.
    pub seed: u64,
}

impl Generate {
    /// Refuses sizes that leave a class without a sample or make no sense.
    pub(crate) fn check(&self, info: &DatasetInfo) -> Result<(), DatasetError> {
        let least = usize::from(info.classes);
        for (split, samples) in [("training", self.train), ("test", self.test)] {
            if !(least..=MOST_SAMPLES).contains(&samples) {
                return Err(DatasetError::SampleCount {
                    split,
                    samples,
                    least,
                    most: MOST_SAMPLES,
                });
            }
        }
        Ok(())
    }
}

impl fmt::Display for Generate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { train, test, seed } = self;
        write!(f, "{train} training and {test} test samples of seed {seed}")
    }
}

/// Ensures that `dir` holds the named generated set: generates it if the directory
/// is absent or empty, and otherwise verifies its content ([`verify`]).
///
/// The set is written beside `dir` and moved there whole, so that neither a killed
/// program nor two concurrent ones leave a half-written set.
///
/// # Errors
/// [`DatasetError::NotGenerated`] and [`DatasetError::SampleCount`] for what
/// cannot be made, [`DatasetError::Occupied`] for a directory that holds
/// something else, [`DatasetError::Write`], and those of [`verify`].
pub fn ensure(name: &str, dir: &Path, spec: Generate) -> Result<(), DatasetError> {
    let info = generated_info(name)?;
    spec.check(info)?;
    if is_vacant(dir)? {
        match write_set(info, dir, spec) {
            // Another process may have generated the set first; its set is then verified.
            Err(error) if is_vacant(dir)? => return Err(error),
            Err(_) => {}
            Ok(()) => return Ok(()),
        }
    }
    if !dir.join(MANIFEST_FILE).exists() {
        return Err(DatasetError::Occupied {
            path: dir.to_owned(),
        });
    }
    verify(name, dir, spec)
}

/// Checks that `dir` holds the named set as this program would generate it from
/// `spec`, every file's hash included.
///
/// # Errors
/// [`DatasetError::OtherSet`] for another specification or generator version,
/// and those of [`crate::open`].
pub fn verify(name: &str, dir: &Path, spec: Generate) -> Result<(), DatasetError> {
    let info = generated_info(name)?;
    let manifest = Manifest::read(info, dir, &open::remedy(info, dir))?;
    let describe =
        |spec: Generate, version: u32| format!("{spec} by version {version} of the generator");
    if (manifest.spec, manifest.generator_version) != (spec, GENERATOR_VERSION) {
        return Err(DatasetError::OtherSet {
            path: dir.to_owned(),
            found: describe(manifest.spec, manifest.generator_version),
            expected: describe(spec, GENERATOR_VERSION),
        });
    }
    open::open(name, dir).map(drop)
}

fn generated_info(name: &str) -> Result<&'static DatasetInfo, DatasetError> {
    let info = find(name)?;
    match info.origin {
        Origin::Generated { .. } => Ok(info),
        Origin::Published { .. } => Err(DatasetError::NotGenerated { name: info.name }),
    }
}

/// Returns whether a set can be moved to `dir`: it is absent or empty.
fn is_vacant(dir: &Path) -> Result<bool, DatasetError> {
    match fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(DatasetError::read(dir)(error)),
    }
}

fn write_set(info: &DatasetInfo, dir: &Path, spec: Generate) -> Result<(), DatasetError> {
    let failed = &DatasetError::write(dir);
    let parent = match dir.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent).map_err(failed)?;
    let scratch = tempfile::Builder::new()
        .prefix(".dataset-")
        .tempdir_in(parent)
        .map_err(failed)?;
    // One level down, so that the set gets ordinary permissions: the scratch
    // directory itself is closed to other users.
    let staged = scratch.path().join("set");
    fs::create_dir(&staged).map_err(failed)?;
    write_files(info, &staged, spec)?;
    fs::rename(&staged, dir).map_err(failed)
}

fn write_files(info: &DatasetInfo, dir: &Path, spec: Generate) -> Result<(), DatasetError> {
    let mut listed = Vec::new();
    for (part, samples) in [(Part::Train, spec.train), (Part::Test, spec.test)] {
        let records = records(info, part, samples, spec.seed);
        let encoded = info.layout.encode(info.format, part, &records);
        for (name, bytes) in info.layout.part_files(part).iter().zip(encoded) {
            write_file(&dir.join(name), &bytes)?;
            listed.push(ManifestFile {
                name: (*name).to_owned(),
                size_bytes: bytes.len() as u64,
                sha256: files::sha256_hex(&bytes),
            });
        }
    }
    let path = dir.join(MANIFEST_FILE);
    let manifest = Manifest {
        schema_version: SCHEMA_VERSION,
        name: info.name.to_owned(),
        generator_version: GENERATOR_VERSION,
        spec,
        files: listed,
    };
    let text = serde_json::to_string_pretty(&manifest);
    let mut text = text.map_err(|error| DatasetError::write(&path)(error.into()))?;
    text.push('\n');
    write_file(&path, text.as_bytes())
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), DatasetError> {
    let written = fs::File::create(path).and_then(|mut file| {
        file.write_all(bytes)?;
        files::flush(&file)
    });
    written.map_err(DatasetError::write(path))
}

/// Generates the records of one part. Classes are as even as the count allows, in
/// shuffled order.
fn records(info: &DatasetInfo, part: Part, samples: usize, seed: u64) -> Vec<u8> {
    let stream = hash::mix(seed, part as u64);
    let order = hash::permutation(samples as u32, stream);
    let mut records = Vec::with_capacity(samples * info.format.record_bytes());
    for (index, position) in order.into_iter().enumerate() {
        let label = (position % u32::from(info.classes)) as u8;
        records.push(label);
        let mut draws = Draws::new(hash::mix(stream, index as u64));
        render::render(label, info.format, &mut draws, &mut records);
    }
    records
}
