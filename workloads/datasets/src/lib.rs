//! Datasets of labelled images.
//!
//! CIFAR-10 and MNIST are read in their original binary formats and checked
//! against published checksums. Where they are not available, [`ensure`] generates a
//! set of ten classes in the same formats, under a name of its own
//! ([`DATASETS`]), hard enough that accuracy means something: a linear model
//! fails on it where a small convolutional network succeeds.
//!
//! The crate links no model, so that the harness can check data without one.
//!
//! ```no_run
//! use std::path::Path;
//! use epochcost_datasets::{Dataset, Generate, ensure, open, partition};
//!
//! # fn main() -> Result<(), epochcost_datasets::DatasetError> {
//! let dir = Path::new("data/synthetic-mnist");
//! ensure("synthetic-mnist", dir, Generate { train: 8192, test: 2000, seed: 1 })?;
//! let Dataset { train, .. } = open("synthetic-mnist", dir)?;
//! let shards = partition::shards(train.samples(), 4, 100);
//! for batch in partition::minibatches(&shards[0], 64) {
//!     let records = batch.iter().map(|&index| train.record(index as usize));
//! }
//! # Ok(())
//! # }
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod error;
mod files;
mod generate;
mod info;
mod layout;
mod manifest;
mod open;
pub mod partition;
mod split;
mod unpack;

pub use error::DatasetError;
pub use files::{flush, flush_directory};
pub use generate::{GENERATOR_VERSION, Generate, ensure, verify};
pub use info::{
    Checksum, DATASETS, DatasetInfo, Download, Layout, Origin, PublishedFile, RecordFormat, find,
};
pub use manifest::{MANIFEST_FILE, Manifest, ManifestFile, SchemaVersion};
pub use open::{Dataset, Inspection, inspect, open};
pub use split::Split;
pub use unpack::{is_whole, unpack};
