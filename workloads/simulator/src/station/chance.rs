//! Random parts of a station: jitter of a crowded host, draws of single events.

use std::sync::atomic::{AtomicU64, Ordering};

use epochcost_systems::Task;

use crate::draws::{Draws, stream_of, unit};
use crate::profile::Profile;

/// Random differences in how fast a crowded host serves those that compute on it:
/// its scheduler does not let all of them progress alike.
#[derive(Default)]
pub(crate) struct Jitter {
    /// Standard deviation of a computation's time, relative to its mean.
    spread: f64,
    seed: u64,
    draws: AtomicU64,
}

impl Jitter {
    /// Makes the jitter of `task` on the host of `profile`, which is crowded if
    /// there are more workers than cores. Seeded by the job's seed and the task.
    pub(crate) fn new(task: &Task, profile: &Profile<f64>) -> Self {
        let host = profile.host.as_ref();
        let crowded = host.filter(|host| task.job.workers as f64 > host.cores);
        Self {
            spread: crowded.map_or(0.0, |host| host.compute_spread),
            seed: stream_of(task),
            ..Self::default()
        }
    }

    /// Returns the next computation's time relative to the mean: uniform, and never
    /// negative.
    pub(super) fn factor(&self) -> f64 {
        let unit = unit(self.seed, self.draws.fetch_add(1, Ordering::Relaxed));
        // A unit of a uniform distribution has a standard deviation of 1 / √12.
        (1.0 + self.spread * 12f64.sqrt() * (unit - 0.5)).max(0.0)
    }
}

/// Random parts of a station.
pub(crate) struct Chance {
    pub(crate) jitter: Jitter,
    pub(crate) draws: Draws,
}

impl Chance {
    /// Makes the random parts of a station without a crowded host.
    pub(crate) fn of(draws: Draws) -> Self {
        Self {
            jitter: Jitter::default(),
            draws,
        }
    }

    /// Makes the random parts of the station on which `task` runs.
    pub(crate) fn new(task: &Task, profile: &Profile<f64>) -> Self {
        Self {
            jitter: Jitter::new(task, profile),
            draws: Draws::new(profile.draws, stream_of(task)),
        }
    }
}
