//! Errors of datasets.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// An error of reading or making a dataset. Each message names the file, what was
/// found, what was expected and the remedy.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// The name of the dataset is unknown.
    #[error("unknown dataset '{name}'; known are {known}")]
    Unknown {
        /// Requested name.
        name: String,
        /// Known names, separated by commas.
        known: String,
    },
    /// A file is missing.
    #[error("missing data file {}; {remedy}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// Remedy.
        remedy: String,
    },
    /// A file could not be read.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file or directory could not be written.
    #[error("failed to write {}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file is shorter or longer than it must be.
    #[error(
        "{problem} data file {}: found {found_bytes} bytes, expected {expected_bytes}; {remedy}",
        path.display()
    )]
    Size {
        /// The file.
        path: PathBuf,
        /// `truncated`, or `wrong size of`.
        problem: &'static str,
        /// Size of the file.
        found_bytes: u64,
        /// Expected size.
        expected_bytes: u64,
        /// Remedy.
        remedy: String,
    },
    /// An IDX file does not begin with the number of its kind.
    #[error(
        "wrong magic number in {}: found {found:#010x}, expected {expected:#010x}; {remedy}",
        path.display()
    )]
    Magic {
        /// The file.
        path: PathBuf,
        /// First four bytes of the file, big-endian.
        found: u32,
        /// Expected value.
        expected: u32,
        /// Remedy.
        remedy: String,
    },
    /// An IDX file's header announces other dimensions than its set has.
    #[error(
        "wrong dimensions in the header of {}: found {found:?}, expected {expected:?}; {remedy}",
        path.display()
    )]
    Dimensions {
        /// The file.
        path: PathBuf,
        /// The dimensions announced: samples, then rows and columns for images.
        found: Vec<u32>,
        /// Expected value.
        expected: Vec<u32>,
        /// Remedy.
        remedy: String,
    },
    /// A label is not below the number of classes.
    #[error(
        "bad label in {}: record {record} has label {found}, expected one below {classes}; {remedy}",
        path.display()
    )]
    Label {
        /// The file.
        path: PathBuf,
        /// The record's index in the file, from 0.
        record: usize,
        /// Label of the record.
        found: u8,
        /// The number of classes.
        classes: u8,
        /// Remedy.
        remedy: String,
    },
    /// A file has the right form and the wrong content.
    #[error(
        "corrupted data file {}: found {algorithm} {found}, expected {expected}; {remedy}",
        path.display()
    )]
    Corrupted {
        /// The file.
        path: PathBuf,
        /// `SHA-1` or `SHA-256`.
        algorithm: &'static str,
        /// Checksum of the file.
        found: String,
        /// Expected checksum.
        expected: String,
        /// Remedy.
        remedy: String,
    },
    /// A generated set's manifest cannot be used.
    #[error("bad dataset manifest {}: {reason}; {remedy}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The defect.
        reason: String,
        /// Remedy.
        remedy: String,
    },
    /// A directory holds another generated set than the one asked for.
    #[error(
        "{} holds another dataset: found {found}, expected {expected}; delete the directory and \
         make the dataset again, or name another directory",
        path.display()
    )]
    OtherSet {
        /// The directory.
        path: PathBuf,
        /// Specification of the set in the directory.
        found: String,
        /// Requested specification.
        expected: String,
    },
    /// A directory to generate into holds files that are no dataset.
    #[error(
        "{} is not empty and holds no generated dataset; name another directory or empty it",
        path.display()
    )]
    Occupied {
        /// The directory.
        path: PathBuf,
    },
    /// A published set cannot be generated.
    #[error("'{name}' is a published dataset and cannot be generated; generate 'synthetic-{name}'")]
    NotGenerated {
        /// Name of the dataset.
        name: &'static str,
    },
    /// A set cannot be generated with so few or so many samples.
    #[error(
        "cannot generate {samples} {split} samples; ask for at least {least} and at most {most}"
    )]
    SampleCount {
        /// `training` or `test`.
        split: &'static str,
        /// Requested number of samples.
        samples: usize,
        /// Smallest number.
        least: usize,
        /// Largest number.
        most: usize,
    },
}

impl DatasetError {
    /// Returns what makes the error of reading a file of its cause.
    pub(crate) fn read(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Read {
            path: path.to_owned(),
            source,
        }
    }

    /// Returns what makes the error of writing a file or directory of its cause.
    pub(crate) fn write(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Write {
            path: path.to_owned(),
            source,
        }
    }
}
