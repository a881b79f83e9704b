//! Aggregates that bound the influence of a few arbitrary (Byzantine) vectors.

use std::ops::Range;

use super::{blocks_of, common_length};
use crate::error::KernelError;

/// Elements worked on at a time; smaller than a sum's block, as all rows of a
/// block are kept at once while they are sorted.
const LANES: usize = 256;

/// Elements whose distances are taken at a time: a few vectors' blocks stay in
/// the cache while each is compared with every other.
const DISTANCE_BLOCK: usize = 4_096;

/// Returns a signed integer that orders as [`f32::total_cmp`] does: NaNs end up
/// at the extremes, where the median and the trimmed mean ignore them, and
/// integer minimum and maximum vectorise. The mapping is its own inverse.
const fn order_key(bits: i32) -> i32 {
    bits ^ ((bits >> 31) & i32::MAX)
}

fn to_key(x: f32) -> i32 {
    order_key(x.to_bits().cast_signed())
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
        super::divide(combined, kept.len() as f32);
    })
}

/// Returns the vector that Krum selects (Blanchard et al. 2017): the one whose
/// summed squared distance to its n − f − 2 nearest others is smallest; the
/// lowest rank wins a tie.
///
/// # Errors
/// Those of [`krum_select`].
pub fn krum(vectors: &[&[f32]], f: usize) -> Result<Vec<f32>, KernelError> {
    krum_select(vectors, f).map(|selected| vectors[selected].to_vec())
}

/// Returns the rank that [`krum`] selects. Distances accumulate in `f64`; one
/// that is not a number counts as infinite.
///
/// # Errors
/// [`KernelError::TooManyByzantine`] unless 2f + 2 < n;
/// [`KernelError::NoVectors`] or [`KernelError::LengthMismatch`].
pub fn krum_select(vectors: &[&[f32]], f: usize) -> Result<usize, KernelError> {
    let n = common_length("select by Krum", vectors)?;
    let count = vectors.len();
    if f.saturating_mul(2).saturating_add(2) >= count {
        return Err(KernelError::TooManyByzantine { f, vectors: count });
    }
    let distances = squared_distances(vectors, n);
    let mut best = (0, f64::INFINITY);
    for rank in 0..count {
        let mut others: Vec<f64> = (0..count)
            .filter(|other| *other != rank)
            .map(|other| distances[rank.min(other) * count + rank.max(other)])
            .map(|d| if d.is_nan() { f64::INFINITY } else { d })
            .collect();
        others.sort_unstable_by(f64::total_cmp);
        let score: f64 = others.iter().take(count - f - 2).sum();
        if score < best.1 {
            best = (rank, score);
        }
    }
    Ok(best.0)
}

/// Squared Euclidean distances; entry (i, j), i < j, at `i * W + j`.
fn squared_distances(vectors: &[&[f32]], n: usize) -> Vec<f64> {
    let count = vectors.len();
    let mut distances = vec![0.0; count * count];
    for range in blocks_of(DISTANCE_BLOCK, n) {
        for (i, a) in vectors.iter().enumerate() {
            for (j, b) in vectors.iter().enumerate().skip(i + 1) {
                distances[i * count + j] += squared_distance(&a[range.clone()], &b[range.clone()]);
            }
        }
    }
    distances
}

/// Eight running sums, so that the additions need not wait for each other.
fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut lanes = [0.0_f64; 8];
    for (a, b) in a.iter().zip(b) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            let difference = f64::from(*a) - f64::from(*b);
            *lane += difference * difference;
        }
    }
    let rest = a_rest.iter().zip(b_rest).map(|(a, b)| {
        let difference = f64::from(*a) - f64::from(*b);
        difference * difference
    });
    lanes.iter().sum::<f64>() + rest.sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn median_of_odd_and_even_counts() {
        let vectors: [&[f32]; 4] = [&[3.0, -1.0], &[1.0, 5.0], &[2.0, f32::NAN], &[8.0, 7.0]];
        assert_eq!(coordinate_median(&vectors[..3]).unwrap(), [2.0, 5.0]);
        assert_eq!(coordinate_median(&vectors).unwrap()[0], 2.5);
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

    /// n = 5, f = 1: each is scored by its two nearest; scores are 5, 2, 5 for
    /// the line 0, 1, 2, and larger for the outliers.
    #[test]
    fn krum_selects_the_centre_of_the_cluster() {
        let vectors: [&[f32]; 5] = [&[0.0], &[100.0], &[1.0], &[2.0], &[f32::NAN]];
        assert_eq!(krum_select(&vectors, 1).unwrap(), 2);
        assert_eq!(krum(&vectors, 1).unwrap(), [1.0]);
        assert!(matches!(
            krum(&vectors[..4], 1),
            Err(KernelError::TooManyByzantine { f: 1, vectors: 4 })
        ));
    }

    proptest! {
        #[test]
        fn order_keys_sort_as_total_cmp(a: u32, b: u32) {
            let (a, b) = (f32::from_bits(a), f32::from_bits(b));
            prop_assert_eq!(to_key(a).cmp(&to_key(b)), a.total_cmp(&b));
            prop_assert_eq!(from_key(to_key(a)).to_bits(), a.to_bits());
        }

        #[test]
        fn median_matches_sorting_each_column(
            rows in (1usize..10, 0usize..600).prop_flat_map(|(w, n)| {
                prop::collection::vec(prop::collection::vec(-9.0f32..9.0, n), w)
            })
        ) {
            let vectors: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
            let median = coordinate_median(&vectors).unwrap();
            for (j, found) in median.iter().enumerate() {
                let mut column: Vec<f32> = rows.iter().map(|row| row[j]).collect();
                column.sort_by(f32::total_cmp);
                let w = column.len();
                prop_assert_eq!(*found, column[(w - 1) / 2].midpoint(column[w / 2]));
            }
        }
    }
}
