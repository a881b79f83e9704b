//! How much arithmetic a system's own code does on vectors.
//!
//! Values that are only sizes take no time to add up. A simulation charges for
//! that time all the same: it runs a system's code in the scope of an
//! [`ArithmeticMeter`], and every operation on a [`Vector`](crate::Vector), real
//! or not, adds the bytes that it reads and writes to the meter of its scope.
//! Without a meter, as in a worker, nothing is counted.

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

tokio::task_local! {
    /// The meter in whose scope the running task is.
    static METER: ArithmeticMeter;
}

thread_local! {
    /// Whether what runs now works on vectors where the model is.
    static BESIDE_MODEL: Cell<bool> = const { Cell::new(false) };
}

/// Bytes of vectors that code reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arithmetic {
    /// In the memory of the machine: what was received, or is sent.
    pub host_bytes: u64,
    /// In the memory of the device that computes gradients: what never leaves it.
    pub device_bytes: u64,
}

/// A count of the bytes of vectors that code reads and writes. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ArithmeticMeter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    host: AtomicU64,
    device: AtomicU64,
}

impl ArithmeticMeter {
    /// Runs `work`, whose operations on vectors count here: those of the future
    /// itself, not those of tasks that it spawns.
    pub async fn scope<F: Future>(&self, work: F) -> F::Output {
        METER.scope(self.clone(), work).await
    }

    /// Returns the bytes counted since the last call, and counts from 0 again.
    pub fn take(&self) -> Arithmetic {
        Arithmetic {
            host_bytes: self.0.host.swap(0, Ordering::Relaxed),
            device_bytes: self.0.device.swap(0, Ordering::Relaxed),
        }
    }
}

/// Runs `work`, which is done where the model is: on its GPU, if it is on one.
pub(crate) fn beside_model<T>(work: impl FnOnce() -> T) -> T {
    let before = BESIDE_MODEL.replace(true);
    let done = work();
    BESIDE_MODEL.set(before);
    done
}

/// Adds an operation over `passes` vectors of `elements` to the scope's meter, if
/// there is one.
pub(crate) fn note(passes: usize, elements: usize) {
    let bytes = 4 * (passes * elements) as u64;
    // Without a scope, no one reads the count.
    let _ = METER.try_with(|ArithmeticMeter(counts)| {
        let count = if BESIDE_MODEL.get() {
            &counts.device
        } else {
            &counts.host
        };
        count.fetch_add(bytes, Ordering::Relaxed)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_scope_of_a_meter_counts() {
        let (meter, other) = (ArithmeticMeter::default(), ArithmeticMeter::default());
        note(1, 10);
        meter
            .scope(async {
                note(2, 10);
                other.scope(async { note(3, 10) }).await;
                tokio::task::yield_now().await;
                beside_model(|| note(5, 1));
                note(1, 1);
            })
            .await;
        let counted = |host_bytes, device_bytes| Arithmetic {
            host_bytes,
            device_bytes,
        };
        assert_eq!(
            (meter.take(), other.take()),
            (counted(84, 20), counted(120, 0))
        );
        assert_eq!(meter.take(), Arithmetic::default());
    }
}
