//! Sums, means and robust aggregates of equally long vectors.
//!
//! The sum of vectors x₀ … x₍W₋₁₎ is ((x₀ + x₁) + x₂) + … in `f32`, element by
//! element; the mean is that sum divided by W. [`add_assign`] in rank order
//! followed by [`divide`] gives the same bits as [`mean`], and so does [`mean`]
//! of each chunk.

mod robust;

use std::ops::Range;

use crate::error::{KernelError, expect_length};

pub use robust::{
    centred_clipping, coordinate_median, geometric_median, krum, krum_select, multi_krum,
    nearest_neighbour_mixing, trimmed_mean,
};

/// Elements worked on at a time: 128 KiB of `f32`, so that the running sum of a
/// block stays in the second-level cache while every vector is read once, and
/// each vector is read in stretches that are worth prefetching. Of 24 vectors
/// of 44.7 MB, blocks of 16 KiB took 1.2 times as long.
pub(crate) const BLOCK: usize = 32_768;

/// The blocks of a vector of `n` elements.
pub(crate) fn blocks(n: usize) -> impl Iterator<Item = Range<usize>> {
    blocks_of(BLOCK, n)
}

/// Returns the same in blocks of `size` elements.
fn blocks_of(size: usize, n: usize) -> impl Iterator<Item = Range<usize>> {
    (0..n)
        .step_by(size)
        .map(move |start| start..n.min(start + size))
}

/// One element as it lies in memory.
pub(crate) trait Element: Copy {
    /// Returns the value.
    fn value(self) -> f32;
}

impl Element for f32 {
    fn value(self) -> f32 {
        self
    }
}

/// Little-endian bytes, at any alignment.
impl Element for [u8; 4] {
    fn value(self) -> f32 {
        f32::from_le_bytes(self)
    }
}

/// A vector that a reduction can read: floats, or the bytes of floats.
pub(crate) trait Source: Copy {
    /// Type of the elements.
    type Element: Element;
    /// Number of `f32` elements.
    fn elements(self) -> Result<usize, KernelError>;
    /// Returns the elements of `range`.
    fn part(&self, range: Range<usize>) -> &[Self::Element];
}

impl Source for &[f32] {
    type Element = f32;

    fn elements(self) -> Result<usize, KernelError> {
        Ok(self.len())
    }

    fn part(&self, range: Range<usize>) -> &[f32] {
        &self[range]
    }
}

impl Source for &[u8] {
    type Element = [u8; 4];

    fn elements(self) -> Result<usize, KernelError> {
        crate::codec::element_count(self)
    }

    fn part(&self, range: Range<usize>) -> &[[u8; 4]] {
        &self.as_chunks::<4>().0[range]
    }
}

/// `acc[j] += x[j]`.
fn add<E: Element>(acc: &mut [f32], x: &[E]) {
    for (a, x) in acc.iter_mut().zip(x) {
        *a += x.value();
    }
}

/// `acc[j]` plus four vectors in turn: the bits of four [`add`]s, with the
/// running sum in a register meanwhile.
fn add_four<E: Element>(acc: &mut [f32], [x, y, z, u]: [&[E]; 4]) {
    for ((((a, x), y), z), u) in acc.iter_mut().zip(x).zip(y).zip(z).zip(u) {
        *a = (((*a + x.value()) + y.value()) + z.value()) + u.value();
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
    // As many at first as leave whole fours.
    let first = vectors.len().min((vectors.len() + 3) % 4 + 1);
    let (head, fours) = vectors.split_at(first);
    append_few(head, range, out);
    let acc = &mut out[start..];
    for four in fours.as_chunks::<4>().0 {
        let parts = four.each_ref().map(|vector| vector.part(range.clone()));
        add_four(acc, parts);
    }
    acc
}

/// Appends the sum of at most four vectors over `range` to `out`.
fn append_few<S: Source>(vectors: &[S], range: &Range<usize>, out: &mut Vec<f32>) {
    let part = |i: usize| vectors[i].part(range.clone()).iter().map(|x| x.value());
    match vectors.len() {
        0 => {}
        1 => out.extend(part(0)),
        2 => out.extend(part(0).zip(part(1)).map(|(x, y)| x + y)),
        3 => {
            let three = part(0).zip(part(1)).zip(part(2));
            out.extend(three.map(|((x, y), z)| (x + y) + z));
        }
        _ => {
            let four = part(0).zip(part(1)).zip(part(2)).zip(part(3));
            out.extend(four.map(|(((x, y), z), u)| ((x + y) + z) + u));
        }
    }
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
    add(acc, x);
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
    add(acc, bytes.part(0..n));
    Ok(())
}

/// `acc[j] /= divisor`: what turns a sum over W workers into the bits of
/// [`mean`]. Multiplying by 1 / W rounds twice and does not.
pub fn divide(acc: &mut [f32], divisor: f32) {
    for a in acc {
        *a /= divisor;
    }
}

/// Returns the element-wise sum, accumulated in the given (rank) order.
///
/// # Errors
/// [`KernelError::NoVectors`] or [`KernelError::LengthMismatch`].
pub fn sum(vectors: &[&[f32]]) -> Result<Vec<f32>, KernelError> {
    reduce("sum vectors", vectors, None)
}

/// Returns the element-wise mean: [`sum`] divided by the number of vectors.
///
/// # Errors
/// [`KernelError::NoVectors`] or [`KernelError::LengthMismatch`].
pub fn mean(vectors: &[&[f32]]) -> Result<Vec<f32>, KernelError> {
    reduce("average vectors", vectors, Some(vectors.len() as f32))
}

/// [`mean`] of vectors given as little-endian `f32` bytes at any alignment.
///
/// # Errors
/// Those of [`mean`], and [`KernelError::RaggedBytes`].
pub fn mean_bytes(vectors: &[&[u8]]) -> Result<Vec<f32>, KernelError> {
    reduce("average vectors", vectors, Some(vectors.len() as f32))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However it is cut into blocks and groups, a sum is one addition
        /// after the other.
        #[test]
        fn sums_are_those_of_single_additions(
            count in 1_usize..12,
            n in prop_oneof![0_usize..40, BLOCK - 2..BLOCK + 40],
            seed: u32,
        ) {
            let element = |i: usize, j: usize| {
                let bits = crate::hash::splitmix64(u64::from(seed) + (i * n + j) as u64) as u32;
                f32::from_bits(bits & 0xBFFF_FFFF)
            };
            let rows: Vec<Vec<f32>> = (0..count)
                .map(|i| (0..n).map(|j| element(i, j)).collect())
                .collect();
            let vectors: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
            let bytes: Vec<_> = rows.iter().map(|row| crate::codec::encode_f32(row)).collect();
            let bytes: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
            let one_by_one = (0..n).map(|j| {
                let others = rows[1..].iter().map(|row| row[j]);
                others.fold(rows[0][j], |sum, x| sum + x).to_bits()
            });
            let one_by_one: Vec<u32> = one_by_one.collect();
            let bits = |sum: Vec<f32>| sum.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            prop_assert_eq!(bits(sum(&vectors).unwrap()), &one_by_one[..]);
            prop_assert_eq!(bits(reduce("sum", &bytes, None).unwrap()), &one_by_one[..]);
        }
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
