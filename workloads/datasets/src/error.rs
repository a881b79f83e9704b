//! What can be wrong with a dataset.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a dataset could not be used or made. Each message names the file, what
/// was found, what was expected and what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// No dataset has that name.
    #[error("unknown dataset '{name}'; known are {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are, comma-separated.
        known: String,
    },
    /// A file is not there.
    #[error("missing data file {}; {remedy}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// What to do.
        remedy: String,
    },
    /// A file could not be read.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file or directory could not be written.
    #[error("failed to write {}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is shorter than it must be.
    #[error(
        "truncated data file {}: found {found_bytes} bytes, expected {expected_bytes}; {remedy}",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Its size.
        found_bytes: u64,
        /// The size it must have.
        expected_bytes: u64,
        /// What to do.
        remedy: String,
    },
    /// A file is longer than it must be.
    #[error(
        "wrong size of data file {}: found {found_bytes} bytes, expected {expected_bytes}; {remedy}",
        path.display()
    )]
    Oversized {
        /// The file.
        path: PathBuf,
        /// Its size.
        found_bytes: u64,
        /// The size it must have.
        expected_bytes: u64,
        /// What to do.
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
        /// Its first four bytes, big-endian.
        found: u32,
        /// What they must be.
        expected: u32,
        /// What to do.
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
        /// What they must be.
        expected: Vec<u32>,
        /// What to do.
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
        /// Its label.
        found: u8,
        /// The number of classes.
        classes: u8,
        /// What to do.
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
        /// The checksum of its bytes.
        found: String,
        /// What it must be.
        expected: String,
        /// What to do.
        remedy: String,
    },
    /// A generated set's manifest cannot be used.
    #[error("bad dataset manifest {}: {reason}; {remedy}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// What to do.
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
        /// What it holds.
        found: String,
        /// What was asked for.
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
        /// Its name.
        name: &'static str,
    },
    /// A set cannot be generated with so few or so many samples.
    #[error(
        "cannot generate {samples} {split} samples; ask for at least {least} and at most {most}"
    )]
    SampleCount {
        /// `training` or `test`.
        split: &'static str,
        /// How many were asked for.
        samples: usize,
        /// The fewest there may be.
        least: usize,
        /// The most there may be.
        most: usize,
    },
}
