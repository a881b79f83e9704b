//! How much arithmetic a system's own code does on vectors.
//!
//! Values that are only sizes take no time to add up. So that a simulation can
//! charge for it all the same, every operation on a [`Vector`](crate::Vector),
//! real or not, notes here how many bytes it reads and writes; whoever keeps
//! virtual time takes the count whenever the system's code gives way.

use std::cell::Cell;

thread_local! {
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

/// Bytes of vectors that this thread has read and written since this was last
/// asked.
pub fn take_arithmetic_bytes() -> u64 {
    BYTES.with(|bytes| bytes.replace(0))
}

/// Notes an operation that goes over `passes` vectors of `elements`.
pub(crate) fn note(passes: usize, elements: usize) {
    BYTES.with(|bytes| bytes.set(bytes.get() + 4 * (passes * elements) as u64));
}
