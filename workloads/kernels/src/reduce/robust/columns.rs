//! Rules that treat each coordinate on its own: median and trimmed mean.

use std::ops::Range;

use crate::error::KernelError;
use crate::reduce::{common_length, divide};

/// Elements worked on at a time; smaller than a sum's block, as all rows of a
/// block are kept at once while they are sorted.
const LANES: usize = 256;

/// Returns a signed integer that orders as [`f32::total_cmp`] does, so that integer
/// minimum and maximum vectorise. The mapping is its own inverse.
const fn order_key(bits: i32) -> i32 {
    bits ^ ((bits >> 31) & i32::MAX)
}

/// Returns the [`order_key`] of a number. Every NaN is last: its sign is that of the
/// processor or of a compiler's choice, and must not decide from which end it is trimmed.
fn to_key(x: f32) -> i32 {
    if x.is_nan() {
        i32::MAX
    } else {
        order_key(x.to_bits().cast_signed())
    }
}

fn from_key(key: i32) -> f32 {
    f32::from_bits(order_key(key).cast_unsigned())
}

type Row = [i32; LANES];

/// Leaves the smaller of each pair in `low` and the larger in `high`.
fn compare_exchange(low: &mut Row, high: &mut Row) {
    for (a, b) in low.iter_mut().zip(high) {
        (*a, *b) = ((*a).min(*b), (*a).max(*b));
    }
}

/// Sorts every column of `rows` by odd-even transposition: W rounds of
/// neighbour exchanges without a data-dependent branch.
fn sort_columns(rows: &mut [Row]) {
    for round in 0..rows.len() {
        for pair in rows[round % 2..].chunks_exact_mut(2) {
            if let [low, high] = pair {
                compare_exchange(low, high);
            }
        }
    }
}

/// Calls `combine` on the sorted columns of every part of `vectors`, and
/// collects the first lanes of what it leaves in its output row.
fn by_sorted_columns(
    operation: &'static str,
    vectors: &[&[f32]],
    combine: impl Fn(&[Row], &mut [f32; LANES]),
) -> Result<Vec<f32>, KernelError> {
    let n = common_length(operation, vectors)?;
    let mut rows = vec![[0; LANES]; vectors.len()];
    let mut combined = [0.0; LANES];
    let mut out = Vec::with_capacity(n);
    for start in (0..n).step_by(LANES) {
        let part = start..n.min(start + LANES);
        load_keys(vectors, &part, &mut rows);
        sort_columns(&mut rows);
        combine(&rows, &mut combined);
        out.extend_from_slice(&combined[..part.len()]);
    }
    Ok(out)
}

fn load_keys(vectors: &[&[f32]], part: &Range<usize>, rows: &mut [Row]) {
    for (row, vector) in rows.iter_mut().zip(vectors) {
        for (key, x) in row.iter_mut().zip(&vector[part.clone()]) {
            *key = to_key(*x);
        }
    }
}

/// Returns the median of each coordinate (Yin et al. 2018); of an even number
/// of vectors, the midpoint of the two middle values, as NumPy has it.
///
/// # Errors
/// [`KernelError::NoVectors`] or [`KernelError::LengthMismatch`].
pub fn coordinate_median(vectors: &[&[f32]]) -> Result<Vec<f32>, KernelError> {
    let (lower, upper) = (vectors.len().saturating_sub(1) / 2, vectors.len() / 2);
    by_sorted_columns("take the median", vectors, |rows, combined| {
        for ((out, a), b) in combined.iter_mut().zip(&rows[lower]).zip(&rows[upper]) {
            *out = from_key(*a).midpoint(from_key(*b));
        }
    })
}

/// Returns the mean of each coordinate without its `k` smallest and `k` largest
/// values (Yin et al. 2018), summed from the smallest kept value up.
///
/// # Errors
/// [`KernelError::TrimTooLarge`] unless 2k is below the number of vectors;
/// [`KernelError::NoVectors`] or [`KernelError::LengthMismatch`].
pub fn trimmed_mean(vectors: &[&[f32]], k: usize) -> Result<Vec<f32>, KernelError> {
    let count = vectors.len();
    if count > 0 && k.saturating_mul(2) >= count {
        return Err(KernelError::TrimTooLarge { k, vectors: count });
    }
    by_sorted_columns("take the trimmed mean", vectors, |rows, combined| {
        combined.fill(0.0);
        let kept = &rows[k..count - k];
        for row in kept {
            for (out, key) in combined.iter_mut().zip(row) {
                *out += from_key(*key);
            }
        }
        divide(combined, kept.len() as f32);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_sign_of_a_nan_decides_nothing() {
        for nan in [f32::NAN, -f32::NAN, f32::from_bits(0xff80_0001)] {
            let vectors: [&[f32]; 5] = [&[nan], &[1.0], &[4.0], &[nan], &[2.0]];
            // Sorted: 1, 2, 4, NaN, NaN.
            assert_eq!(coordinate_median(&vectors).unwrap(), [4.0]);
            assert_eq!(coordinate_median(&vectors[..3]).unwrap(), [4.0]);
            assert_eq!(trimmed_mean(&vectors[..3], 1).unwrap(), [4.0]);
            assert!(trimmed_mean(&vectors, 1).unwrap()[0].is_nan());
            assert_eq!(trimmed_mean(&vectors, 2).unwrap(), [4.0]);
        }
    }

    #[test]
    fn trimmed_mean_drops_both_ends() {
        let vectors: [&[f32]; 5] = [&[1.0], &[-1e9], &[2.0], &[1e9], &[6.0]];
        assert_eq!(trimmed_mean(&vectors, 1).unwrap(), [3.0]);
        assert_eq!(trimmed_mean(&vectors, 2).unwrap(), [2.0]);
        assert!(matches!(
            trimmed_mean(&vectors, 3),
            Err(KernelError::TrimTooLarge { k: 3, vectors: 5 })
        ));
        assert!(matches!(
            trimmed_mean(&[], 0),
            Err(KernelError::NoVectors { .. })
        ));
    }

    proptest! {
        #[test]
        fn order_keys_sort_as_total_cmp(a: u32, b: u32) {
            let of = |bits: u32| order_key(bits.cast_signed());
            let expected = f32::from_bits(a).total_cmp(&f32::from_bits(b));
            prop_assert_eq!(of(a).cmp(&of(b)), expected);
            prop_assert_eq!(order_key(of(a)).cast_unsigned(), a);
        }

        #[test]
        fn keys_keep_every_number(bits: u32) {
            let (x, read) = (f32::from_bits(bits), from_key(to_key(f32::from_bits(bits))));
            prop_assert!(read.to_bits() == bits || (x.is_nan() && read.is_nan()));
        }

        #[test]
        fn rules_match_sorting_each_column(
            rows in (1usize..10, 0usize..600).prop_flat_map(|(w, n)| {
                prop::collection::vec(prop::collection::vec(-9.0f32..9.0, n), w)
            }),
            trim in 0usize..5,
        ) {
            let vectors: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
            let w = rows.len();
            let trim = trim.min((w - 1) / 2);
            let median = coordinate_median(&vectors).unwrap();
            let trimmed = trimmed_mean(&vectors, trim).unwrap();
            for (j, (median, trimmed)) in median.iter().zip(trimmed).enumerate() {
                let mut column: Vec<f32> = rows.iter().map(|row| row[j]).collect();
                column.sort_by(f32::total_cmp);
                prop_assert_eq!(*median, column[(w - 1) / 2].midpoint(column[w / 2]));
                let kept = &column[trim..w - trim];
                let mean = kept.iter().map(|x| f64::from(*x)).sum::<f64>() / kept.len() as f64;
                prop_assert!((f64::from(trimmed) - mean).abs() < 1e-5, "{trimmed}, not {mean}");
            }
        }
    }
}
