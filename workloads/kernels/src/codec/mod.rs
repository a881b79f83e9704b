//! Vectors on the wire: dense little-endian `f32`, sparse entries,
//! quantised levels, and JSON text as the published SPIRT functions store it.

mod json;
mod qsgd;
mod sparse;
mod top_k;

use crate::error::KernelError;

pub use json::{decode_json, encode_json, json_mean};
pub use qsgd::{
    MOST_LEVELS, PUBLISHED_LEVELS, Qsgd, QsgdNorm, decode_published_qsgd, encode_published_qsgd,
};
pub use sparse::{SparseVector, sparse_add_assign};
pub use top_k::{sparse_bytes, take_top_k, top_k_entries};

/// Number of `f32` elements in a dense payload.
///
/// # Errors
/// [`KernelError::RaggedBytes`] unless its length is a multiple of 4.
pub const fn element_count(bytes: &[u8]) -> Result<usize, KernelError> {
    if !bytes.len().is_multiple_of(4) {
        return Err(KernelError::RaggedBytes { bytes: bytes.len() });
    }
    Ok(bytes.len() / 4)
}

/// Returns the little-endian bytes of `values`, 4 per element, without a header.
#[must_use]
pub fn encode_f32(values: &[f32]) -> Vec<u8> {
    // Zeroing first costs a pass over memory but leaves a loop of plain vector
    // stores; extending byte by byte does not vectorise.
    let mut bytes = vec![0; 4 * values.len()];
    let (out, _) = bytes.as_chunks_mut::<4>();
    for (slot, value) in out.iter_mut().zip(values) {
        *slot = value.to_le_bytes();
    }
    bytes
}

/// Returns the values of a dense payload.
///
/// # Errors
/// [`KernelError::RaggedBytes`].
pub fn decode_f32(bytes: &[u8]) -> Result<Vec<f32>, KernelError> {
    element_count(bytes)?;
    let (values, _) = bytes.as_chunks::<4>();
    Ok(values.iter().map(|x| f32::from_le_bytes(*x)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_are_little_endian() {
        assert_eq!(encode_f32(&[1.0, -2.0]), [0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0]);
    }

    proptest! {
        /// Every bit pattern survives, NaN payloads included.
        #[test]
        fn dense_round_trip(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            match decode_f32(&bytes) {
                Ok(values) => prop_assert_eq!(encode_f32(&values), bytes),
                Err(_) => prop_assert_ne!(bytes.len() % 4, 0),
            }
        }
    }
}
