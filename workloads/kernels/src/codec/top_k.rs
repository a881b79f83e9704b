//! Top-k sparsification with error feedback (Stich et al. 2018).

use crate::codec::SparseVector;
use crate::error::KernelError;

/// Returns the number of `elements` that a share of them is: at least one, rounded up.
#[must_use]
pub fn top_k_entries(elements: u64, fraction: f64) -> u64 {
    let wanted = (elements as f64 * fraction).ceil() as u64;
    wanted.clamp(1.min(elements), elements)
}

/// Bytes of a sparse message of that many entries.
#[must_use]
pub const fn sparse_bytes(entries: u64) -> u64 {
    8 + 8 * entries
}

/// Takes the `count` entries of largest magnitude out of `accumulated`, where
/// they become 0. What stays is the error that the next gradient is added to,
/// so that what is sent and what is left always add up to what was accumulated.
///
/// Of equal magnitudes the lower index goes first; a NaN counts as the largest.
///
/// # Errors
/// [`KernelError::TooLong`] beyond 2³² − 1 elements; nothing is modified then.
pub fn take_top_k(accumulated: &mut [f32], count: usize) -> Result<SparseVector, KernelError> {
    let mut sent = SparseVector::zeros(accumulated.len())?;
    let count = count.min(accumulated.len());
    let mut order: Vec<u32> = (0..accumulated.len() as u32).collect();
    let magnitude = |index: &u32| accumulated[*index as usize].abs();
    let by_size = |a: &u32, b: &u32| {
        let larger_first = magnitude(b).total_cmp(&magnitude(a));
        larger_first.then(a.cmp(b))
    };
    if count > 0 && count < order.len() {
        order.select_nth_unstable_by(count - 1, by_size);
    }
    order.truncate(count);
    order.sort_unstable();
    for index in order {
        let slot = &mut accumulated[index as usize];
        sent.push(index, std::mem::take(slot));
    }
    Ok(sent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::sparse_add_assign;
    use proptest::prelude::*;

    #[test]
    fn the_largest_go_and_ties_are_the_first() {
        let mut values = [1.0, -3.0, 2.0, -2.0, 0.5];
        let sent = take_top_k(&mut values, 2).unwrap();
        assert_eq!(
            (sent.indices(), sent.values()),
            (&[1, 2][..], &[-3.0, 2.0][..])
        );
        assert_eq!(values, [1.0, 0.0, 0.0, -2.0, 0.5]);
    }

    #[test]
    fn a_share_is_rounded_up_and_never_nothing() {
        assert_eq!(top_k_entries(61_706, 0.01), 618);
        assert_eq!(top_k_entries(10, 0.0), 1);
        assert_eq!(top_k_entries(10, 1.0), 10);
        assert_eq!(top_k_entries(0, 0.5), 0);
    }

    proptest! {
        #[test]
        fn sent_and_kept_add_up_and_nothing_larger_stays(
            values in prop::collection::vec(-2.0f32..2.0, 0..200),
            count in 0usize..210,
        ) {
            let mut kept = values.clone();
            let sent = take_top_k(&mut kept, count).unwrap();
            prop_assert_eq!(sent.entries(), count.min(values.len()));
            prop_assert_eq!(sent.encode().len() as u64, sparse_bytes(sent.entries() as u64));
            let least = sent.values().iter().map(|x| x.abs()).fold(f32::INFINITY, f32::min);
            prop_assert!(kept.iter().all(|x| x.abs() <= least));
            sparse_add_assign(&mut kept, &sent).unwrap();
            prop_assert_eq!(kept, values);
        }
    }
}
