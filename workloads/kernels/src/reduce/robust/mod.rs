//! Aggregates that bound the influence of a few arbitrary (Byzantine) vectors.
//!
//! Of n vectors, f may be anything. Values that are not finite do not spread: the
//! rules of coordinates order them last, distances to them are infinite, and the
//! rules of centres leave such vectors out.

mod centres;
mod columns;
mod neighbours;
#[cfg(test)]
mod tests;

pub use centres::{centred_clipping, geometric_median};
pub use columns::{coordinate_median, trimmed_mean};
pub use neighbours::{krum, krum_select, multi_krum, nearest_neighbour_mixing};

/// Elements whose distances are taken at a time: a few vectors' blocks stay in
/// the cache while each is compared with every other.
const DISTANCE_BLOCK: usize = 4_096;

/// Returns the squared Euclidean distance in f64. Eight running sums, so that the
/// additions need not wait for each other.
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
