//! Buffers that shards write to, and scratch space.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Values of a cache line.
const LINE: usize = 16;

/// One cache line, so that vectors do not straddle two.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    #[expect(dead_code, reason = "read and written through pointers")]
    values: [f32; LINE],
}

thread_local! {
    static SCRATCH: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Returns the length of scratch space for so many values: whole lines, and one
/// vector more, for kernels that read a whole vector at the end.
pub(crate) const fn padded(length: usize) -> usize {
    length.next_multiple_of(LINE) + 2 * LINE
}

/// Lends scratch space of so many values to `work`. It begins at a cache line and
/// holds whatever values the thread left there.
///
/// It must not be asked for within a kernel: closures there are compiled for no level.
pub(crate) fn with_scratch<T>(length: usize, work: impl FnOnce(*mut f32) -> T) -> T {
    let mut lines = SCRATCH.take();
    if lines.len() * LINE < length {
        lines.resize(
            length.div_ceil(LINE),
            Line {
                values: [0.0; LINE],
            },
        );
    }
    let result = work(lines.as_mut_ptr().cast());
    SCRATCH.set(lines);
    result
}

/// Values under construction, each written by one shard.
pub(crate) struct Output {
    values: Vec<f32>,
    length: usize,
}

/// Pointer through which shards write their own part of an [`Output`].
#[derive(Clone, Copy)]
pub(crate) struct Target(*mut f32);

// SAFETY: shards write disjoint values, which each kernel answers for.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

impl Target {
    /// Returns the pointer to the value at that index.
    ///
    /// # Safety
    /// The index must be within the output.
    #[inline(always)]
    pub(crate) unsafe fn at(self, index: usize) -> *mut f32 {
        // SAFETY: the caller guarantees that the index is within the values, which are one
        // allocation.
        unsafe { self.0.add(index) }
    }

    /// Returns so many values from that index on.
    ///
    /// # Safety
    /// They must be within the output and used by no one else, and every one must be written before it is
    /// read, unless it was when the target was made.
    #[inline(always)]
    pub(crate) unsafe fn slice<'a>(self, index: usize, length: usize) -> &'a mut [f32] {
        // SAFETY: the caller guarantees the values, which are one allocation, and that they are its own.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(index), length) }
    }

    /// Returns the target that begins at a pointer.
    pub(crate) fn at_pointer(pointer: *mut f32) -> Self {
        Self(pointer)
    }

    /// Returns the target of values that are written in place.
    pub(crate) fn of(values: &mut [f32]) -> Self {
        Self(values.as_mut_ptr())
    }
}

impl Output {
    /// Space for so many values, which hold nothing yet.
    pub(crate) fn new(length: usize) -> Self {
        Self {
            values: Vec::with_capacity(length),
            length,
        }
    }

    pub(crate) fn target(&mut self) -> Target {
        Target(self.values.as_mut_ptr())
    }

    /// The values.
    ///
    /// # Safety
    /// Every value must have been written.
    pub(crate) unsafe fn written(mut self) -> Vec<f32> {
        // SAFETY: the capacity is there, and the caller wrote the values.
        unsafe { self.values.set_len(self.length) };
        self.values
    }
}

/// A range of items that one thread works through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) start: usize,
    pub(crate) length: usize,
}

/// Most shards of one operation: enough for the largest function's six threads to
/// share evenly.
const SHARDS: usize = 24;

/// `items` in at most `most` shards as even as can be. It depends on no thread count.
pub(crate) fn shards(items: usize, most: usize) -> Vec<Shard> {
    let count = most.clamp(1, SHARDS).min(items);
    (0..count)
        .map(|index| {
            let start = index * items / count;
            let end = (index + 1) * items / count;
            Shard {
                start,
                length: end - start,
            }
        })
        .collect()
}

/// Shards of `items` of `work` multiply-adds or moved values each: fewer of little
/// work, for which a task costs more than it saves.
pub(crate) fn shards_of_work(items: usize, work: usize) -> Vec<Shard> {
    const LEAST: usize = 1 << 16;
    shards(items, items.saturating_mul(work) / LEAST)
}

/// Runs `work` of every item, in parallel; the results are in the items' order.
///
/// The caller's thread takes items as the pool's threads do: it neither waits until one of them has
/// woken up, nor, where it is the only one, changes the context twice an operation, which
/// was a tenth of a small network's step.
pub(crate) fn in_parallel<I: Copy + Send + Sync, T: Send>(
    items: &[I],
    work: impl Fn(I) -> T + Send + Sync,
) -> Vec<T> {
    let threads = items.len().min(rayon::current_num_threads());
    if threads <= 1 {
        return items.iter().map(|&item| work(item)).collect();
    }
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    let take_items = || {
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(&item) = items.get(at)
        {
            let result = work(item);
            results
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((at, result));
        }
    };
    rayon::in_place_scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|_| take_items());
        }
        take_items();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        for count in [0, 1, 2, 7, 1_000] {
            let items: Vec<usize> = (0..count).collect();
            let results = in_parallel(&items, |item| 3 * item);
            assert_eq!(
                results,
                items.iter().map(|item| 3 * item).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn shards_cover_the_items_in_order() {
        for items in [1, 2, 7, 24, 25, 128] {
            for most in [0, 1, 5, 100] {
                let shards = shards(items, most);
                let mut next = 0;
                for shard in &shards {
                    assert_eq!(shard.start, next);
                    assert!(shard.length > 0);
                    next += shard.length;
                }
                assert_eq!(next, items);
            }
        }
    }
}
