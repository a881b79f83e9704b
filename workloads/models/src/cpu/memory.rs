//! Buffers that shards write to, and scratch space.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};

/// Values of a cache line.
const LINE: usize = 16;

/// One cache line, so that vectors do not straddle two.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    #[expect(dead_code, reason = "read and written through pointers")]
    values: [f32; LINE],
}

impl Line {
    const ZERO: Self = Self {
        values: [0.0; LINE],
    };
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
        lines.resize(length.div_ceil(LINE), Line::ZERO);
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
/// The caller's thread takes items as the other threads do: it neither waits until one of them has
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
    // Each thread begins with a part of its own, the same images in every operation, which are then
    // in its cache, and goes on with what is left of the others'.
    let begins = |part: usize| part * items.len() / threads;
    let next: Vec<AtomicUsize> = (0..threads)
        .map(|part| AtomicUsize::new(begins(part)))
        .collect();
    let taken = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    let take_items = |thread: usize| {
        for part in (thread..threads).chain(0..thread) {
            while let at = next[part].fetch_add(1, Ordering::Relaxed)
                && at < begins(part + 1)
            {
                let result = work(items[at]);
                results
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push((at, result));
                taken.fetch_add(1, Ordering::Release);
            }
        }
    };
    let take_items = &take_items;
    match helpers() {
        // Another pool's thread, which helps itself.
        None => rayon::in_place_scope(|scope| {
            for thread in 1..threads {
                scope.spawn(move |_| take_items(thread));
            }
            take_items(0);
        }),
        Some(helpers) => {
            helpers.in_place_scope(|scope| {
                OPERATIONS.fetch_add(1, Ordering::Release);
                for thread in 1..threads {
                    scope.spawn(move |_| take_items(thread));
                }
                take_items(0);
                spin_until(|| taken.load(Ordering::Acquire) == items.len());
            });
            stay_awake(helpers);
        }
    }
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Number of operations that helpers were called for.
static OPERATIONS: AtomicUsize = AtomicUsize::new(0);

/// Time for which a thread looks for work before it sleeps. Operations of a step follow each other
/// faster, and waking a thread up takes tens of microseconds.
const AWAKE: Duration = Duration::from_micros(200);

/// Returns the threads that help the caller's: one fewer than rayon's. None to a thread of a pool.
fn helpers() -> Option<&'static ThreadPool> {
    static HELPERS: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
        let count = rayon::current_num_threads().saturating_sub(1).max(1);
        let pool = ThreadPoolBuilder::new().num_threads(count);
        pool.build().ok()
    });
    match rayon::current_thread_index() {
        Some(_) => None,
        None => HELPERS.as_ref(),
    }
}

/// Keeps helpers from falling asleep until the next operation, or for [`AWAKE`].
fn stay_awake(helpers: &ThreadPool) {
    let operations = OPERATIONS.load(Ordering::Relaxed);
    for _ in 0..helpers.current_num_threads() {
        helpers.spawn(move || {
            spin_until(|| OPERATIONS.load(Ordering::Acquire) != operations);
        });
    }
}

/// Waits until `is_over`, for [`AWAKE`] at most. Other threads and processes may run meanwhile.
fn spin_until(is_over: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_over() && start.elapsed() < AWAKE {
        for _ in 0..16 {
            std::hint::spin_loop();
        }
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Callers share the threads that help them.
    #[test]
    fn callers_at_the_same_time_all_get_their_results_in_order() {
        std::thread::scope(|scope| {
            for caller in 0..4 {
                scope.spawn(move || {
                    for round in 0..2_000 {
                        let count = if round % 100 == 9 { 1_000 } else { round % 9 };
                        let items: Vec<usize> = (0..count).collect();
                        let results = in_parallel(&items, |item| caller * item);
                        let expected: Vec<usize> = items.iter().map(|item| caller * item).collect();
                        assert_eq!(results, expected);
                    }
                });
            }
        });
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
