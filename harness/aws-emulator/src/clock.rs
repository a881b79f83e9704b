//! Clock of the emulated cloud: real time, and what tests have skipped. Waits of workflows and
//! shutdowns of instances follow it; programs of this machine have real time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio::time::timeout;

/// Clock that can be set forward.
pub(crate) struct Clock {
    skipped_s: watch::Sender<f64>,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            skipped_s: watch::Sender::new(0.0),
        }
    }
}

impl Clock {
    /// Returns the seconds since the Unix epoch.
    pub(crate) fn now_s(&self) -> f64 {
        #[expect(clippy::disallowed_methods, reason = "the time that the cloud states")]
        let real = SystemTime::now().duration_since(UNIX_EPOCH);
        real.unwrap_or_default().as_secs_f64() + *self.skipped_s.borrow()
    }

    /// Sets the clock forward.
    pub(crate) fn skip(&self, seconds: f64) {
        self.skipped_s
            .send_modify(|skipped_s| *skipped_s += seconds.max(0.0));
    }

    /// Sets the clock back to real time, by which programs that are started go.
    pub(crate) fn rewind(&self) {
        self.skipped_s.send_replace(0.0);
    }

    /// Waits until a time, in seconds since the Unix epoch.
    pub(crate) async fn until(&self, at_s: f64) {
        let mut skipped = self.skipped_s.subscribe();
        loop {
            let left_s = at_s - self.now_s();
            if left_s <= 0.0 {
                return;
            }
            // Either ends the wait; the loop looks at the time again.
            let _ = timeout(
                Duration::from_secs_f64(left_s.min(3600.0)),
                skipped.changed(),
            )
            .await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_ends_when_its_time_is_skipped_and_not_before() {
        let clock = std::sync::Arc::new(Clock::default());
        let at_s = clock.now_s() + 7200.0;
        let waiting = clock.clone();
        let wait = tokio::spawn(async move { waiting.until(at_s).await });
        clock.skip(3600.0);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!wait.is_finished());
        clock.skip(3600.0);
        assert!(wait.await.is_ok());
    }
}
