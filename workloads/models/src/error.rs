//! What can be wrong with a request to train or evaluate a model.

use thiserror::Error;

use crate::Precision;

/// A request that could not be served. Every text fits after "failed to …: ".
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelError {
    /// No model has this name.
    #[error("no model is named `{name}`: choose one of {known}")]
    UnknownModel {
        /// The name asked for.
        name: String,
        /// The known names, separated by commas.
        known: String,
    },
    /// A described model whose network is not registered: a fault of this build.
    #[error("no network computes the model `{model}`: add it to `networks/mod.rs`")]
    NoNetwork {
        /// The model's name.
        model: &'static str,
    },
    /// No device has this name.
    #[error("no device is named `{name}`: choose `cpu` or `cuda`")]
    UnknownDevice {
        /// The name asked for.
        name: String,
    },
    /// No precision has this name.
    #[error("no precision is named `{name}`: choose `fp32`, `tf32` or `bf16`")]
    UnknownPrecision {
        /// The name asked for.
        name: String,
    },
    /// CUDA was asked of a build without it.
    #[error(
        "this build of the worker has no CUDA support: \
         choose the device `cpu`, or run a worker that was built with CUDA"
    )]
    NoCuda,
    /// CUDA was asked for where it does not work.
    #[error("this machine has no GPU that CUDA computes on, {reason}: {remedy}")]
    NoGpu {
        /// Part that is missing.
        reason: String,
        /// Remedy.
        remedy: &'static str,
    },
    /// A precision was asked for that the CPU does not multiply in.
    #[error("the CPU multiplies in fp32, not in {precision}: choose `fp32`, or a GPU")]
    NoPrecision {
        /// The precision.
        precision: Precision,
    },
    /// A flat vector has the wrong length for the model.
    #[error("{what} of {model} must hold {expected} values, but {actual} were given")]
    Length {
        /// The model's name.
        model: &'static str,
        /// Name of the vector: "parameters", "statistics" or "images".
        what: &'static str,
        /// The length that the model needs.
        expected: usize,
        /// The length given.
        actual: usize,
    },
    /// Images that the model's input cannot be made from.
    #[error(
        "{model} takes images of {expected} (channels, height, width) or smaller ones, in as \
         many channels or in one: images of {actual} do not fit"
    )]
    Images {
        /// The model's name.
        model: &'static str,
        /// The shape of its input.
        expected: String,
        /// The shape given.
        actual: String,
    },
    /// A batch norm has nothing to take a variance of.
    #[error(
        "a batch norm saw a single value per channel: the model's last features are one pixel, \
         so give batches, and micro-batches, of at least two images"
    )]
    SingleValue,
    /// A batch without images has no gradient and no loss.
    #[error("a batch must hold at least one labelled image")]
    EmptyBatch,
    /// A label names a class that the model does not have.
    #[error("label {label} of image {index} is outside the model's {classes} classes")]
    Label {
        /// Position in the batch, from 0.
        index: usize,
        /// The label found.
        label: u8,
        /// The number of classes.
        classes: usize,
    },
    /// Bytes that are not a whole number of records.
    #[error(
        "{actual} bytes are not a whole number of {format} records of {record_bytes} bytes: \
         check that the data set has the format that the experiment names"
    )]
    Records {
        /// The name of the record format.
        format: &'static str,
        /// The length of one record, label included.
        record_bytes: usize,
        /// The length given.
        actual: usize,
    },
    /// The compute backend returned something other than `f32` values.
    #[error("the compute backend returned unusable data: {0}")]
    Backend(String),
}

impl ModelError {
    /// Returns whether it is the device, or its precision, that is missing: the CPU in fp32 would
    /// do.
    #[must_use]
    pub fn lacks_device(&self) -> bool {
        matches!(
            self,
            Self::NoCuda | Self::NoGpu { .. } | Self::NoPrecision { .. }
        )
    }
}
