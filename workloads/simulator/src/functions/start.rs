//! Times of starts: calls, sandboxes, init.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::draws::Draws;
use crate::engine::{Engine, nanoseconds};
use crate::profile::Profile;

/// Stream of the draws of starts, apart from those of stations.
const STARTS: u64 = 0x5354_4152;

/// The starts of a trial's functions.
pub(crate) struct Starts {
    engine: Engine,
    draws: Draws,
    /// Instant at which the caller is free for its next call, nanoseconds.
    next_call: AtomicU64,
    /// Whether one caller makes all calls, one after another.
    has_caller: bool,
}

impl Starts {
    /// Makes the starts of a trial; `has_caller` if one client calls all functions, and no
    /// workflow does.
    pub(crate) fn new(engine: &Engine, profile: &Profile<f64>, has_caller: bool) -> Self {
        Self {
            engine: engine.clone(),
            draws: Draws::new(profile.draws, STARTS),
            next_call: AtomicU64::new(0),
            has_caller,
        }
    }

    /// Waits for a call, the last of so many that are alike: its turn among the caller's calls,
    /// and the way to a warm sandbox and back.
    pub(crate) async fn call(&self, profile: &Profile<f64>, alike: u64) {
        let function = &profile.function;
        if let Some(spacing_s) = function.call_spacing_s.filter(|_| self.has_caller) {
            let now = self.engine.now();
            let spacing = nanoseconds(spacing_s);
            let free = self.next_call.load(Ordering::Relaxed).max(now);
            let turn = free + (alike - 1) * spacing;
            let next = turn + spacing;
            self.next_call.store(next, Ordering::Relaxed);
            if turn > now {
                self.engine.until(turn).await;
            }
        }
        let interpreted = profile.interpreted().filter(|_| self.has_caller);
        let (mean_s, spread) = match &interpreted {
            Some(client) => (client.call_s, client.call_spread.as_ref()),
            None => (function.invoke_latency_s, function.invoke_spread.as_ref()),
        };
        let seconds = mean_s * self.draws.factor(spread);
        self.engine.seconds(seconds).await;
    }

    /// Returns the seconds of placing and starting a sandbox, and of its init.
    pub(crate) fn sandbox_s(&self, profile: &Profile<f64>) -> (f64, f64) {
        let function = &profile.function;
        let init_s = match profile.interpreted() {
            Some(client) => client.init_s,
            None => function.init_s,
        };
        let placed = self.draws.factor(function.cold_start_spread.as_ref());
        let ready = self.draws.factor(function.init_spread.as_ref());
        (function.cold_start_s * placed, init_s * ready)
    }
}
