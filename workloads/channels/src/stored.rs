//! Bytes in an object store over time.

use std::ops::AddAssign;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Storage that a caller used: what it removed, and bytes over time of what it wrote.
///
/// An object counts from the answer to its PUT to that to its DELETE, or to the PUT that replaced
/// it. The caller that removes an object subtracts its bytes from then on, whoever wrote it, so
/// that the sum over all callers is that of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// Bytes of the objects that were deleted or replaced, as far as their sizes were known.
    pub removed_bytes: u64,
    /// Byte-seconds up to the end of the span: of the bytes that were written in it less, and
    /// possibly less than 0 by, those that were removed.
    pub byte_s: f64,
}

impl Stored {
    /// Returns whether nothing was written or removed.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the storage of so many that are alike.
    #[must_use]
    pub fn times(self, alike: u64) -> Self {
        Self {
            removed_bytes: self.removed_bytes * alike,
            byte_s: self.byte_s * alike as f64,
        }
    }
}

impl AddAssign for Stored {
    fn add_assign(&mut self, other: Self) {
        self.removed_bytes += other.removed_bytes;
        self.byte_s += other.byte_s;
    }
}

/// A span of time in which objects are written and removed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    since: Duration,
    removed_bytes: u64,
    /// Bytes written less those removed, and the sum of each times the seconds from `since` to it.
    net_bytes: f64,
    moment: f64,
}

impl Span {
    pub(crate) fn beginning(since: Duration) -> Self {
        Self {
            since,
            ..Self::default()
        }
    }

    /// Counts a change of the store at `at`.
    pub(crate) fn change(&mut self, at: Duration, written: u64, removed: u64) {
        let net = written as f64 - removed as f64;
        self.removed_bytes += removed;
        self.net_bytes += net;
        self.moment += net * at.saturating_sub(self.since).as_secs_f64();
    }

    /// Returns the storage up to `until`.
    pub(crate) fn stored(&self, until: Duration) -> Stored {
        let seconds = until.saturating_sub(self.since).as_secs_f64();
        Stored {
            removed_bytes: self.removed_bytes,
            byte_s: self.net_bytes * seconds - self.moment,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::memory::MemoryObjects;
    use crate::{Meter, ObjectStore, Payload};

    /// A clock that the test sets, and a caller of a store in memory with a meter on it.
    fn metered(store: &Arc<MemoryObjects>, now: &Arc<AtomicU64>) -> (Meter, ObjectStore) {
        let now = now.clone();
        let meter = Meter::timed(move || Duration::from_secs(now.load(Ordering::Relaxed)));
        let caller = ObjectStore::new(store.clone()).metered(&meter);
        (meter, caller)
    }

    fn sized(bytes: u64) -> Payload {
        Payload::Phantom { bytes }
    }

    /// An object costs its bytes times the time between its PUT and its DELETE, whoever deletes it,
    /// and one that stays costs them up to the end.
    #[tokio::test]
    async fn an_object_counts_while_it_is_there() {
        let (store, now) = (Arc::default(), Arc::new(AtomicU64::new(100)));
        let at = |seconds| now.store(seconds, Ordering::Relaxed);
        let (one, writer) = metered(&store, &now);
        let (other, reader) = metered(&store, &now);
        at(102);
        writer.put("b", "gone", sized(10)).await.unwrap();
        at(103);
        writer.put("b", "stays", sized(7)).await.unwrap();
        at(107);
        reader
            .delete("b", &["gone".into(), "none".into()])
            .await
            .unwrap();
        let until = Duration::from_secs(120);
        let (mut both, removed) = (one.take_stored(until), other.take_stored(until));
        assert_eq!(both.byte_s, 10.0 * 18.0 + 7.0 * 17.0);
        assert_eq!((removed.removed_bytes, removed.byte_s), (10, -10.0 * 13.0));
        both += removed;
        assert_eq!(both.byte_s, 10.0 * 5.0 + 7.0 * 17.0);
        // The next span begins where that one ended.
        assert!(one.take_stored(until).is_none());
    }

    /// An object that replaces another one ends that one's time.
    #[tokio::test]
    async fn an_object_counts_until_it_is_replaced() {
        let (store, now) = (Arc::default(), Arc::new(AtomicU64::new(0)));
        let (meter, objects) = metered(&store, &now);
        objects.put("b", "k", sized(10)).await.unwrap();
        now.store(4, Ordering::Relaxed);
        objects.put("b", "k", sized(3)).await.unwrap();
        let stored = meter.take_stored(Duration::from_secs(10));
        assert_eq!(
            (stored.removed_bytes, stored.byte_s),
            (10, 10.0 * 4.0 + 3.0 * 6.0)
        );
    }

    #[tokio::test]
    async fn a_meter_without_a_clock_counts_no_time() {
        let meter = Meter::default();
        let objects = ObjectStore::new(Arc::<MemoryObjects>::default()).metered(&meter);
        objects.put("b", "k", sized(10)).await.unwrap();
        assert!(meter.take_stored(Duration::from_secs(10)).is_none());
        assert_eq!(meter.read().bytes_up, 10);
    }
}
