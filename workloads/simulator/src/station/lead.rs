//! How far a worker that stands for others goes ahead of its own time.
//!
//! What the first of the others writes appears before the worker comes to the same point. So the
//! worker goes ahead to where that one is, in what nobody else sees: it computes for a shorter time, and its
//! writes, and its reads of what is there already, reach their service sooner. It writes for each of the others,
//! and for itself, when that one comes to this point. Its clock shows its own time, and it waits until then
//! before anything else.

use std::sync::atomic::Ordering;

use super::Station;
use crate::engine::locked;

impl Station {
    /// Returns the nanoseconds by which the worker's own time is later than now.
    pub(super) fn lead(&self) -> u64 {
        self.lead.load(Ordering::Relaxed)
    }

    /// Waits until the worker's own time.
    pub(crate) async fn catch_up(&self) {
        let lead = self.lead.swap(0, Ordering::Relaxed);
        if lead > 0 {
            self.engine.until(self.engine.now() + lead).await;
        }
    }

    /// Returns whether a read may begin before its time, if what it reads is there: not if it begins
    /// to wait for what others write, nor where several operations are under way at once.
    pub(crate) fn may_read_ahead(&self) -> bool {
        let Some(lateness) = &self.lateness else {
            return false;
        };
        let is_alone = !self.is_concurrent.load(Ordering::Relaxed);
        let lateness = locked(lateness);
        is_alone && lateness.goes_ahead() && !lateness.has_written()
    }

    /// Returns how long something of `duration` nanoseconds takes that nobody else sees, so that
    /// after it the worker is where the first of the others is.
    pub(super) fn hurried(&self, duration: u64) -> u64 {
        let Some(lateness) = &self.lateness else {
            return duration;
        };
        if self.under_way.load(Ordering::Relaxed) > 1 {
            return duration;
        }
        let own = self.lead() + duration;
        let takes = own.saturating_sub(locked(lateness).lead());
        self.lead.store(own - takes, Ordering::Relaxed);
        takes
    }
}
