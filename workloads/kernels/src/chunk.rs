//! How ScatterReduce cuts a flat vector into one chunk per worker.

use std::ops::Range;

/// Returns the part of a vector of `n` elements that worker `index` of `workers`
/// owns (LambdaML, Jiang et al. 2021, as published): with q = ⌊n / W⌋ and m = n
/// mod W, chunk i starts at q·i + min(m, i) and has q + \[i < m\] elements.
///
/// The chunks are contiguous, in rank order, cover `0..n` exactly and differ in
/// length by at most one. With fewer elements than workers, the last chunks are
/// empty. A worker that does not exist (`index >= workers`) owns nothing.
#[must_use]
pub fn chunk_range(n: usize, workers: usize, index: usize) -> Range<usize> {
    if index >= workers {
        return n..n;
    }
    let (quotient, remainder) = (n / workers, n % workers);
    let start = quotient * index + remainder.min(index);
    start..start + quotient + usize::from(index < remainder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn chunks_follow_the_published_formula() {
        let chunks = |n, w| (0..w).map(|i| chunk_range(n, w, i)).collect::<Vec<_>>();
        assert_eq!(chunks(10, 3), [0..4, 4..7, 7..10]);
        assert_eq!(chunks(3, 4), [0..1, 1..2, 2..3, 3..3]);
        assert_eq!(chunks(0, 2), [0..0, 0..0]);
        assert_eq!(chunk_range(1000, 7, 6), 858..1000);
    }

    #[test]
    fn a_worker_that_does_not_exist_owns_nothing() {
        assert!(chunk_range(10, 0, 0).is_empty());
        assert!(chunk_range(10, 3, usize::MAX).is_empty());
    }

    proptest! {
        #[test]
        fn chunks_cover_the_vector_in_order(n in 0usize..5000, workers in 1usize..70) {
            let mut next = 0;
            for index in 0..workers {
                let chunk = chunk_range(n, workers, index);
                prop_assert_eq!(chunk.start, next);
                prop_assert!(chunk.len() == n / workers || chunk.len() == n / workers + 1);
                next = chunk.end;
            }
            prop_assert_eq!(next, n);
        }
    }
}
