//! The clock of a trial, which harness and workers share.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Difference beyond which the system's clock was set, seconds. Adjustments of its rate
/// apply to the monotonic clock as well.
const SET_S: f64 = 0.1;

/// The system's time at the start of a trial, and the monotonic clock from there: whoever
/// sets the system's clock meanwhile changes no duration.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrialClock {
    ahead_ns: i128,
}

impl TrialClock {
    /// Starts the clock at the system's time.
    pub(super) fn start() -> Self {
        Self {
            ahead_ns: ahead_ns(),
        }
    }

    /// Returns the time in seconds since the Unix epoch.
    pub(super) fn unix_s(self) -> f64 {
        (monotonic_ns() + self.ahead_ns) as f64 / 1e9
    }

    /// Returns the time by which it is ahead of the machine's monotonic clock, ns: from it,
    /// workers read the same time.
    pub(super) fn ahead_ns(self) -> i128 {
        self.ahead_ns
    }

    /// Returns a warning if the system's clock was set since the start.
    pub(super) fn warning(self) -> Option<String> {
        warning((ahead_ns() - self.ahead_ns) as f64 / 1e9)
    }
}

fn warning(step_s: f64) -> Option<String> {
    let direction = if step_s < 0.0 { "back" } else { "forward" };
    (step_s.abs() > SET_S).then(|| {
        format!(
            "the system's clock moved {direction} by {:.1} s during the trial: it was set, or the \
             machine was suspended. Durations do not depend on it; dates of later trials do",
            step_s.abs()
        )
    })
}

#[expect(clippy::disallowed_methods, reason = "this is where a step is noticed")]
fn ahead_ns() -> i128 {
    let (before, since) = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => (Duration::ZERO, since),
        Err(earlier) => (earlier.duration(), Duration::ZERO),
    };
    since.as_nanos() as i128 - before.as_nanos() as i128 - monotonic_ns()
}

fn monotonic_ns() -> i128 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    i128::from(tv_sec) * 1_000_000_000 + i128::from(tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::holds;

    #[test]
    fn a_clock_that_was_set_is_reported_and_changes_no_duration() {
        // As if the system's clock had been set by an hour, forward and back, since the start.
        let now = TrialClock::start();
        for (set_s, direction) in [(3_600, "forward"), (-3_600, "back")] {
            let clock = TrialClock {
                ahead_ns: now.ahead_ns - set_s * 1_000_000_000,
            };
            holds(clock.warning().unwrap(), &[direction, "3600.0 s"]);
            // It goes on from its own start, whatever the system's time is now.
            let apart_s = clock.unix_s() - now.unix_s();
            assert!((apart_s + set_s as f64).abs() < 1_800.0, "{apart_s}");
        }
        assert_eq!(warning(0.05), None);
    }
}
