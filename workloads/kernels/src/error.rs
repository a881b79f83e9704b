//! What the kernels refuse.

use thiserror::Error;

/// An input that a kernel cannot work on. Nothing was modified, unless the
/// function documents otherwise.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KernelError {
    /// A reduction over no vectors has no length and no value.
    #[error("failed to {operation}: no vectors were given; pass at least one")]
    NoVectors {
        /// Operation that was asked for, as in "failed to …".
        operation: &'static str,
    },
    /// Two vectors that must match element by element do not.
    #[error(
        "failed to {operation}: vector {position} has {found} elements where {expected} are needed"
    )]
    LengthMismatch {
        /// Operation that was asked for, as in "failed to …".
        operation: &'static str,
        /// Index of the offending argument (the rank, in a reduction).
        position: usize,
        /// Elements needed.
        expected: usize,
        /// Elements found.
        found: usize,
    },
    /// Trimming `k` values at both ends leaves nothing.
    #[error(
        "failed to take the trimmed mean: cutting {k} at each end of {vectors} vectors leaves none; choose k < {vectors} / 2"
    )]
    TrimTooLarge {
        /// Values cut at each end.
        k: usize,
        /// Vectors given.
        vectors: usize,
    },
    /// Krum's condition 2f + 2 < n does not hold (Blanchard et al. 2017).
    #[error(
        "failed to select by Krum: tolerating f = {f} Byzantine vectors needs more than 2f + 2 vectors, got {vectors}"
    )]
    TooManyByzantine {
        /// Byzantine vectors to tolerate.
        f: usize,
        /// Vectors given.
        vectors: usize,
    },
    /// A robust rule's setting is outside its domain.
    #[error("failed to set up {rule}: {name} is {value}, but must be {domain}")]
    RobustSetting {
        /// The rule, as a report names it.
        rule: &'static str,
        /// Name of the setting.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The values allowed, in words.
        domain: &'static str,
    },
    /// An optimizer's setting is outside its domain.
    #[error("failed to set up the optimizer: {name} is {value}, but must be {domain}")]
    OptimizerSetting {
        /// Name of the field.
        name: &'static str,
        /// Value of the parameter.
        value: f64,
        /// The values allowed, in words.
        domain: &'static str,
    },
    /// Saved optimizer state that cannot be restored.
    #[error("failed to restore the optimizer state: {reason}")]
    OptimizerState {
        /// Reason.
        reason: &'static str,
    },
    /// Bytes that are not a whole number of 32-bit floats.
    #[error("failed to decode f32 values: {bytes} bytes are not a multiple of 4")]
    RaggedBytes {
        /// Length of the payload in bytes.
        bytes: usize,
    },
    /// Text that is not a JSON list of numbers.
    #[error("failed to decode a JSON list of numbers: {0}")]
    Json(#[source] serde_json::Error),
    /// JSON has no spelling for NaN and the infinities.
    #[error("failed to encode JSON: element {index} is {value}, which JSON cannot hold")]
    NonFinite {
        /// Index of the element.
        index: usize,
        /// NaN or an infinity.
        value: f64,
    },
    /// A sparse vector that breaks its format.
    #[error("failed to read a sparse vector: {reason}")]
    Sparse {
        /// Reason.
        reason: &'static str,
    },
    /// A quantiser's setting is outside its domain.
    #[error("failed to set up the quantiser: {reason}")]
    Quantiser {
        /// Reason.
        reason: &'static str,
    },
    /// A quantised vector that breaks its format.
    #[error(
        "failed to read a quantised vector of {elements} elements from {bytes} bytes: {reason}"
    )]
    Quantised {
        /// Reason.
        reason: &'static str,
        /// Length in bytes.
        bytes: usize,
        /// Elements that it should have.
        elements: usize,
    },
    /// A vector longer than 32-bit indices can address.
    #[error("failed to make a sparse vector: {length} elements exceed 32-bit indices")]
    TooLong {
        /// Elements in the vector.
        length: usize,
    },
}

/// Checks that argument `position` of `operation` has `expected` elements.
pub(crate) const fn expect_length(
    operation: &'static str,
    position: usize,
    expected: usize,
    found: usize,
) -> Result<(), KernelError> {
    if found == expected {
        return Ok(());
    }
    Err(KernelError::LengthMismatch {
        operation,
        position,
        expected,
        found,
    })
}
