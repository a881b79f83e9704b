//! Sums, means and robust aggregates of equally long vectors.
//!
//! The sum of vectors x₀ … x₍W₋₁₎ is ((x₀ + x₁) + x₂) + … in `f32`, element by
//! element; the mean is that sum divided by W. [`add_assign`] in rank order
//! followed by [`divide`] gives the same bits as [`mean`], and so does [`mean`]
//! of each chunk.

mod robust;

use std::ops::Range;

use crate::error::{KernelError, expect_length};

pub use robust::{coordinate_median, krum, krum_select, trimmed_mean};

/// Elements worked on at a time: 16 KiB of `f32`, so that the running sum of a
/// block stays in the first-level cache while every vector is read once.
pub(crate) const BLOCK: usize = 4096;

/// The blocks of a vector of `n` elements.
pub(crate) fn blocks(n: usize) -> impl Iterator<Item = Range<usize>> {
    (0..n)
        .step_by(BLOCK)
        .map(move |start| start..n.min(start + BLOCK))
}

/// A vector that a reduction can read: floats, or the bytes of floats.
pub(crate) trait Source: Copy {
    /// Number of `f32` elements.
    fn elements(self) -> Result<usize, KernelError>;
    /// Appends the elements of `range` to `out`.
    fn append(self, range: Range<usize>, out: &mut Vec<f32>);
    /// Adds the elements of `range` to `acc`, of the same length.
    fn add_to(self, range: Range<usize>, acc: &mut [f32]);
}

impl Source for &[f32] {
    fn elements(self) -> Result<usize, KernelError> {
        Ok(self.len())
    }

    fn append(self, range: Range<usize>, out: &mut Vec<f32>) {
        out.extend_from_slice(&self[range]);
    }

    fn add_to(self, range: Range<usize>, acc: &mut [f32]) {
        for (a, x) in acc.iter_mut().zip(&self[range]) {
            *a += x;
        }
    }
}

/// Little-endian `f32` bytes at any alignment.
impl Source for &[u8] {
    fn elements(self) -> Result<usize, KernelError> {
        crate::codec::element_count(self)
    }

    fn append(self, range: Range<usize>, out: &mut Vec<f32>) {
        let (values, _) = self.as_chunks::<4>();
        out.extend(values[range].iter().map(|x| f32::from_le_bytes(*x)));
    }

    fn add_to(self, range: Range<usize>, acc: &mut [f32]) {
        let (values, _) = self.as_chunks::<4>();
        for (a, x) in acc.iter_mut().zip(&values[range]) {
            *a += f32::from_le_bytes(*x);
        }
    }
}

/// The common length of `vectors`.
pub(crate) fn common_length<S: Source>(
    operation: &'static str,
    vectors: &[S],
) -> Result<usize, KernelError> {
    let (first, others) = vectors
        .split_first()
        .ok_or(KernelError::NoVectors { operation })?;
    let expected = first.elements()?;
    for (position, vector) in others.iter().enumerate() {
        expect_length(operation, position + 1, expected, vector.elements()?)?;
    }
    Ok(expected)
}

/// Appends the sum of `vectors` over `range` to `out` and returns it. The range
/// lies within the common length of `vectors`, which are not empty.
pub(crate) fn append_sum<'o, S: Source>(
    vectors: &[S],
    range: &Range<usize>,
    out: &'o mut Vec<f32>,
) -> &'o mut [f32] {
    let start = out.len();
    if let Some((first, others)) = vectors.split_first() {
        first.append(range.clone(), out);
        for vector in others {
            vector.add_to(range.clone(), &mut out[start..]);
        }
    }
    &mut out[start..]
}

fn reduce<S: Source>(
    operation: &'static str,
    vectors: &[S],
    divisor: Option<f32>,
) -> Result<Vec<f32>, KernelError> {
    let n = common_length(operation, vectors)?;
    let mut out = Vec::with_capacity(n);
    for range in blocks(n) {
        let block = append_sum(vectors, &range, &mut out);
        if let Some(divisor) = divisor {
            divide(block, divisor);
        }
    }
    Ok(out)
}

/// `acc[j] += x[j]`.
///
/// # Errors
/// [`KernelError::LengthMismatch`]; `acc` is then unchanged.
pub fn add_assign(acc: &mut [f32], x: &[f32]) -> Result<(), KernelError> {
    expect_length("add vectors", 1, acc.len(), x.len())?;
    x.add_to(0..x.len(), acc);
    Ok(())
}

/// `acc[j] += x[j]`, x given as little-endian `f32` bytes at any alignment.
///
/// # Errors
/// [`KernelError::RaggedBytes`] or [`KernelError::LengthMismatch`]; `acc` is
/// then unchanged.
pub fn add_assign_bytes(acc: &mut [f32], bytes: &[u8]) -> Result<(), KernelError> {
    let n = bytes.elements()?;
    expect_length("add vectors", 1, acc.len(), n)?;
    bytes.add_to(0..n, acc);
    Ok(())
}

/// `acc[j] *= factor`.
pub fn scale(acc: &mut [f32], factor: f32) {
    for a in acc {
        *a *= factor;
    }
}

/// `acc[j] /= divisor`: what turns a sum over W workers into the bits of
/// [`mean`]. Multiplying by 1 / W rounds twice and does not.
pub fn divide(acc: &mut [f32], divisor: f32) {
    for a in acc {
        *a /= divisor;
    }
}

/// The element-wise sum, accumulated in the given (rank) order.
///
/// # Errors
/// [`KernelError::NoVectors`] or [`KernelError::LengthMismatch`].
pub fn sum(vectors: &[&[f32]]) -> Result<Vec<f32>, KernelError> {
    reduce("sum vectors", vectors, None)
}

/// The element-wise mean: [`sum`] divided by the number of vectors.
///
/// # Errors
/// [`KernelError::NoVectors`] or [`KernelError::LengthMismatch`].
pub fn mean(vectors: &[&[f32]]) -> Result<Vec<f32>, KernelError> {
    reduce("average vectors", vectors, Some(vectors.len() as f32))
}

/// [`sum`] of vectors given as little-endian `f32` bytes at any alignment.
///
/// # Errors
/// As [`sum`], and [`KernelError::RaggedBytes`].
pub fn sum_bytes(vectors: &[&[u8]]) -> Result<Vec<f32>, KernelError> {
    reduce("sum vectors", vectors, None)
}

/// [`mean`] of vectors given as little-endian `f32` bytes at any alignment.
///
/// # Errors
/// As [`mean`], and [`KernelError::RaggedBytes`].
pub fn mean_bytes(vectors: &[&[u8]]) -> Result<Vec<f32>, KernelError> {
    reduce("average vectors", vectors, Some(vectors.len() as f32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_and_mean_of_small_vectors() {
        let vectors: [&[f32]; 3] = [&[1.0, 2.0], &[3.0, 4.0], &[5.0, 9.0]];
        assert_eq!(sum(&vectors).unwrap(), [9.0, 15.0]);
        assert_eq!(mean(&vectors).unwrap(), [3.0, 5.0]);
    }

    /// 2²⁴ absorbs a 1 in `f32`, so the three orders differ.
    #[test]
    fn sums_are_taken_in_the_given_order() {
        let big = 16_777_216.0_f32;
        assert_eq!(sum(&[&[1.0], &[1.0], &[big]]).unwrap(), [big + 2.0]);
        assert_eq!(sum(&[&[big], &[1.0], &[1.0]]).unwrap(), [big]);
    }

    #[test]
    fn mismatches_are_named() {
        let error = mean(&[&[1.0], &[1.0], &[1.0, 2.0]])
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "failed to average vectors: vector 2 has 2 elements where 1 are needed"
        );
        assert!(matches!(sum(&[]), Err(KernelError::NoVectors { .. })));
        assert!(matches!(
            mean_bytes(&[&[0; 5]]),
            Err(KernelError::RaggedBytes { bytes: 5 })
        ));
        let mut acc = [1.0];
        assert!(add_assign(&mut acc, &[1.0, 2.0]).is_err());
        assert!(add_assign_bytes(&mut acc, &[0; 8]).is_err());
        assert_eq!(acc, [1.0]);
    }
}
