//! Rules of distances between vectors: Krum, Multi-Krum, and nearest-neighbour mixing.

use super::{DISTANCE_BLOCK, squared_distance};
use crate::error::KernelError;
use crate::reduce::{blocks_of, common_length, mean};

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
    // Of at least one vector there is a first.
    krum_order(vectors, f).map(|order| order.first().copied().unwrap_or(0))
}

/// Returns the mean of the `kept` vectors of the lowest scores of [`krum`], added in
/// rank order: Multi-Krum (Blanchard et al. 2017, with m = `kept`).
///
/// # Errors
/// Those of [`krum_select`], and [`KernelError::RobustSetting`] unless
/// 1 ≤ `kept` ≤ n − f.
pub fn multi_krum(vectors: &[&[f32]], f: usize, kept: usize) -> Result<Vec<f32>, KernelError> {
    let order = krum_order(vectors, f)?;
    if kept == 0 || kept > vectors.len() - f {
        return Err(KernelError::RobustSetting {
            rule: "Multi-Krum",
            name: "the number of vectors kept",
            value: kept as f64,
            domain: "at least 1, and at most the number of vectors less those to tolerate",
        });
    }
    mean_of(vectors, &order[..kept])
}

/// Returns the ranks by score, the lowest first, and by rank where scores are equal.
fn krum_order(vectors: &[&[f32]], f: usize) -> Result<Vec<usize>, KernelError> {
    let scores = krum_scores(vectors, f)?;
    let mut ranks: Vec<usize> = (0..scores.len()).collect();
    // Stable, so that ranks decide ties.
    ranks.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    Ok(ranks)
}

/// Returns each vector's summed squared distance to its n − f − 2 nearest others.
pub(super) fn krum_scores(vectors: &[&[f32]], f: usize) -> Result<Vec<f64>, KernelError> {
    let n = common_length("select by Krum", vectors)?;
    let count = vectors.len();
    if f.saturating_mul(2).saturating_add(2) >= count {
        return Err(KernelError::TooManyByzantine { f, vectors: count });
    }
    let distances = squared_distances(vectors, n);
    let score = |rank: usize| {
        let mut others: Vec<f64> = (0..count)
            .filter(|other| *other != rank)
            .map(|other| distances[rank * count + other])
            .collect();
        others.sort_unstable_by(f64::total_cmp);
        others.iter().take(count - f - 2).sum()
    };
    Ok((0..count).map(score).collect())
}

/// Returns each vector replaced by the mean of its n − f nearest vectors, itself
/// included, added in rank order: nearest-neighbour mixing (Allouah et al. 2023). The
/// lowest ranks win ties.
///
/// # Errors
/// [`KernelError::RobustSetting`] unless 2f < n; [`KernelError::NoVectors`] or
/// [`KernelError::LengthMismatch`].
pub fn nearest_neighbour_mixing(
    vectors: &[&[f32]],
    f: usize,
) -> Result<Vec<Vec<f32>>, KernelError> {
    let n = common_length("mix nearest neighbours", vectors)?;
    let count = vectors.len();
    if f.saturating_mul(2) >= count {
        return Err(KernelError::RobustSetting {
            rule: "nearest-neighbour mixing",
            name: "f",
            value: f as f64,
            domain: "less than half of the number of vectors",
        });
    }
    let distances = squared_distances(vectors, n);
    let mixed = (0..count).map(|rank| {
        let mut nearest: Vec<usize> = (0..count).collect();
        // Stable, so that ranks decide ties.
        nearest.sort_by(|a, b| distances[rank * count + a].total_cmp(&distances[rank * count + b]));
        mean_of(vectors, &nearest[..count - f])
    });
    mixed.collect()
}

/// Returns the mean of the vectors of `ranks`, added in rank order.
fn mean_of(vectors: &[&[f32]], ranks: &[usize]) -> Result<Vec<f32>, KernelError> {
    let mut ranks = ranks.to_vec();
    ranks.sort_unstable();
    let selected: Vec<&[f32]> = ranks.into_iter().map(|rank| vectors[rank]).collect();
    mean(&selected)
}

/// Squared Euclidean distances, entry (i, j) at `i * W + j`; one that is not a number
/// is infinite, and a vector's distance to itself is 0.
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
    for i in 0..count {
        for j in i + 1..count {
            let distance = distances[i * count + j];
            let distance = if distance.is_nan() {
                f64::INFINITY
            } else {
                distance
            };
            distances[i * count + j] = distance;
            distances[j * count + i] = distance;
        }
    }
    distances
}
