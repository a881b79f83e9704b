//! Partition of samples among workers, epochs and mini-batches. All functions are
//! pure: indices in, indices out.
//!
//! Every permutation is [`epochcost_kernels::hash::permutation`], a
//! Fisher–Yates shuffle driven by an integer hash, so that a seed gives the
//! same order on every machine and in every language. A dataset holds fewer
//! than 2³² samples; larger lengths are cut to this.

use epochcost_kernels::{chunk_range, hash};

/// Separates the seeds of [`shards`] from those of [`epoch_order`]: the bytes "shard".
const SHARD_STREAM: u64 = 0x73_6861_7264;
/// Separates the seeds of [`epoch_order`]: the bytes "epoch".
const EPOCH_STREAM: u64 = 0x65_706f_6368;

/// Deals `samples` indices out to `workers` shards: shuffled once with the
/// seed, then cut into contiguous slices of ⌊N/W⌋, the first N mod W of them one
/// longer (LambdaML's partitioner; Jiang et al. 2021).
///
/// Every index is in exactly one shard. Without workers there are no shards.
#[must_use]
pub fn shards(samples: usize, workers: usize, seed: u64) -> Vec<Vec<u32>> {
    let order = permutation(samples, hash::mix(seed, SHARD_STREAM));
    (0..workers)
        .map(|rank| order[chunk_range(order.len(), workers, rank)].to_vec())
        .collect()
}

/// Returns the number of samples in the shard of `rank`; 0 for a rank beyond the
/// workers.
#[must_use]
pub fn shard_len(samples: usize, workers: usize, rank: usize) -> usize {
    chunk_range(samples, workers, rank).len()
}

/// Returns the order of the `len` samples of the worker of `rank` in `epoch`: a
/// permutation of `0..len`, different for every rank and epoch.
#[must_use]
pub fn epoch_order(len: usize, seed: u64, rank: usize, epoch: usize) -> Vec<u32> {
    let stream = hash::mix(seed, EPOCH_STREAM);
    permutation(len, hash::mix(hash::mix(stream, rank as u64), epoch as u64))
}

/// Returns the samples of one worker in the order of one epoch: its shard,
/// permuted by [`epoch_order`].
#[must_use]
pub fn epoch_samples(shard: &[u32], seed: u64, rank: usize, epoch: usize) -> Vec<u32> {
    let order = epoch_order(shard.len(), seed, rank, epoch).into_iter();
    order.map(|position| shard[position as usize]).collect()
}

/// Cuts a worker's samples into full batches, in order; the remainder is dropped,
/// so that every gradient is a mean over the same number of samples.
///
/// A batch size of 0 gives no batches.
pub fn minibatches(samples: &[u32], batch_size: usize) -> impl Iterator<Item = &[u32]> {
    let batches = samples.len().checked_div(batch_size).unwrap_or(0);
    samples.chunks_exact(batch_size.max(1)).take(batches)
}

/// Cuts a worker's samples into ⌈samples / `batch_size`⌉ full batches, in order, so
/// that every sample is in one: the last is filled up from the first samples.
///
/// A batch size of 0 gives no batches, and no samples give none.
pub fn covering_minibatches(samples: &[u32], batch_size: usize) -> impl Iterator<Item = Vec<u32>> {
    (0..covering_batches(samples.len(), batch_size)).map(move |batch| {
        let around = samples.iter().cycle().skip(batch * batch_size);
        around.take(batch_size).copied().collect()
    })
}

/// Returns the number of [`covering_minibatches`] of `samples` samples.
#[must_use]
pub fn covering_batches(samples: usize, batch_size: usize) -> usize {
    if batch_size == 0 {
        return 0;
    }
    samples.div_ceil(batch_size)
}

/// Returns the positions that epoch `epoch` visits in a share of `len` samples, if
/// each epoch visits `visited` of them: the epochs go through the share without
/// repetition, in a pass that `order_of_pass` permutes, and then begin the next pass.
/// So ⌈`len` / `visited`⌉ epochs from the first visit every sample.
///
/// An empty share has no positions. Where an epoch visits the whole share, its pass has
/// the epoch's number.
pub fn epoch_positions(
    len: usize,
    visited: usize,
    epoch: usize,
    mut order_of_pass: impl FnMut(usize) -> Vec<u32>,
) -> Vec<u32> {
    let mut positions = Vec::with_capacity(visited);
    if len == 0 {
        return positions;
    }
    let mut next = epoch * visited;
    while positions.len() < visited {
        let order = order_of_pass(next / len);
        let rest = order.get(next % len..).unwrap_or_default();
        let taken = rest.len().min(visited - positions.len());
        if taken == 0 {
            break;
        }
        positions.extend_from_slice(&rest[..taken]);
        next += taken;
    }
    positions
}

fn permutation(len: usize, seed: u64) -> Vec<u32> {
    hash::permutation(u32::try_from(len).unwrap_or(u32::MAX), seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shards_are_cuts_of_one_permutation(samples in 0usize..3000, workers in 1usize..20, seed: u64) {
            let found = shards(samples, workers, seed);
            prop_assert_eq!(found.len(), workers);
            // The first take the remainder.
            for (rank, shard) in found.iter().enumerate() {
                let expected = samples / workers + usize::from(rank < samples % workers);
                prop_assert_eq!(shard.len(), expected);
                prop_assert_eq!(shard_len(samples, workers, rank), expected);
            }
            let mut all = found.concat();
            prop_assert_eq!(&all, &shards(samples, 1, seed).concat());
            all.sort_unstable();
            prop_assert!(all.into_iter().eq(0..samples as u32));
        }

        #[test]
        fn shards_depend_on_the_seed_alone(seed: u64) {
            prop_assert_eq!(shards(500, 4, seed), shards(500, 4, seed));
            prop_assert_ne!(shards(500, 4, seed), shards(500, 4, seed.wrapping_add(1)));
        }

        #[test]
        fn an_epoch_visits_every_sample_of_the_shard(seed: u64, rank in 0usize..8, epoch in 0usize..50) {
            let shard = &shards(1000, 8, seed)[rank];
            let mut visited = epoch_samples(shard, seed, rank, epoch);
            prop_assert_ne!(&visited, shard);
            visited.sort_unstable();
            let mut expected = shard.clone();
            expected.sort_unstable();
            prop_assert_eq!(visited, expected);
        }

        #[test]
        fn ranks_and_epochs_are_shuffled_apart(seed: u64, rank in 0usize..8, epoch in 0usize..50) {
            let order = epoch_order(200, seed, rank, epoch);
            prop_assert_ne!(&order, &epoch_order(200, seed, rank + 1, epoch));
            prop_assert_ne!(&order, &epoch_order(200, seed, rank, epoch + 1));
            prop_assert_ne!(&order, &epoch_order(200, seed, epoch + 100, rank));
        }

        #[test]
        fn minibatches_are_full_and_in_order(len in 0u32..1000, size in 1usize..200) {
            let samples: Vec<u32> = (0..len).rev().collect();
            let batches: Vec<&[u32]> = minibatches(&samples, size).collect();
            prop_assert_eq!(batches.len(), len as usize / size);
            prop_assert!(batches.iter().all(|batch| batch.len() == size));
            prop_assert_eq!(batches.concat(), &samples[..batches.len() * size]);
        }

        #[test]
        fn covering_minibatches_hold_every_sample(len in 0u32..500, size in 1usize..100) {
            let samples: Vec<u32> = (0..len).rev().collect();
            let batches: Vec<Vec<u32>> = covering_minibatches(&samples, size).collect();
            prop_assert_eq!(batches.len(), covering_batches(samples.len(), size));
            prop_assert!(batches.iter().all(|batch| batch.len() == size));
            let all = batches.concat();
            prop_assert_eq!(&all[..samples.len()], samples.as_slice());
            // Those of full batches come first, unchanged.
            for (full, covering) in minibatches(&samples, size).zip(&batches) {
                prop_assert_eq!(full, covering.as_slice());
            }
        }

        #[test]
        fn epochs_go_through_the_share_pass_by_pass(
            len in 1usize..300, visited in 1usize..300, seed: u64,
        ) {
            let order = |pass| epoch_order(len, seed, 0, pass);
            let epochs = len.div_ceil(visited);
            let mut seen: Vec<u32> = (0..epochs)
                .flat_map(|epoch| epoch_positions(len, visited, epoch, order))
                .collect();
            prop_assert_eq!(seen.len(), epochs * visited);
            prop_assert_eq!(seen[..len].to_vec(), order(0));
            seen.sort_unstable();
            seen.dedup();
            prop_assert_eq!(seen.len(), len);
            prop_assert_eq!(epoch_positions(len, len, 3, order), order(3));
        }
    }

    #[test]
    fn zero_workers_or_batch_size_give_no_shards_or_batches() {
        assert!(shards(10, 0, 1).is_empty());
        assert_eq!(shard_len(10, 0, 0), 0);
        assert_eq!(minibatches(&[1, 2], 0).count(), 0);
        assert_eq!(covering_minibatches(&[1, 2], 0).count(), 0);
        assert!(epoch_positions(0, 3, 1, |_| Vec::new()).is_empty());
    }

    /// Expected values from the Python program in `epochcost_kernels::hash`.
    #[test]
    fn shards_are_the_documented_permutation() {
        let expected: [&[u32]; 3] = [&[5, 0, 3, 6], &[8, 9, 1], &[7, 4, 2]];
        assert_eq!(shards(10, 3, 100), expected);
        assert_eq!(epoch_order(6, 100, 2, 5), [4, 1, 2, 0, 5, 3]);
    }
}
