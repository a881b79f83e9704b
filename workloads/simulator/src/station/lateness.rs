//! How late workers are behind the one that stands for them, where single events are drawn.
//!
//! A worker that stands for n others runs once, with its own draws. Each of the others would have
//! drawn its own times for the same events, and what it writes would appear at its own time. Who waits for
//! the slowest of them must wait for the slowest of n draws: what the worker writes for a slower one appears
//! later by the difference of their sums. What it writes for a faster one appears with its own, so that the last of
//! a group is that of n draws, and the first that of the worker.

use epochcost_kernels::hash;

use crate::draws::unit;
use crate::engine::nanoseconds;
use crate::profile::Spread;

/// Number of events up to which the sum of another worker is drawn event by event; that of more
/// is normal.
const SINGLE_EVENTS: usize = 16;

/// The events of a worker since others last released it, and how far their sum was from its mean.
pub(crate) struct Lateness {
    seed: u64,
    /// Number of times that it was released.
    releases: u64,
    has_written: bool,
    /// The first events: the table of each, and its mean, seconds.
    events: Vec<(usize, f64)>,
    count: usize,
    /// Variance of the sum, seconds².
    variance: f64,
    /// The worker's own sum less its mean, seconds.
    own_s: f64,
    /// Tables that were drawn from.
    tables: Vec<Table>,
}

/// A table of quantiles that was drawn from.
struct Table {
    /// Its address, by which it is known again.
    address: usize,
    spread: Spread,
    variance: f64,
}

impl Lateness {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            releases: 0,
            has_written: false,
            events: Vec::new(),
            count: 0,
            variance: 0.0,
            own_s: 0.0,
            tables: Vec::new(),
        }
    }

    /// Notes an event of `mean_s` on average that took the worker `factor` times as long.
    pub(crate) fn note(&mut self, spread: &Spread, mean_s: f64, factor: f64) {
        let address = std::ptr::from_ref(spread).addr();
        let known = self
            .tables
            .iter()
            .position(|table| table.address == address);
        let table = known.unwrap_or_else(|| {
            self.tables.push(Table {
                address,
                spread: spread.clone(),
                variance: spread.variance(),
            });
            self.tables.len() - 1
        });
        if self.events.len() < SINGLE_EVENTS {
            self.events.push((table, mean_s));
        }
        self.count += 1;
        self.variance += mean_s * mean_s * self.tables[table].variance;
        self.own_s += mean_s * (factor - 1.0);
    }

    /// Notes a request: the first read after a write begins to wait for what others write.
    pub(crate) fn request(&mut self, is_read: bool) {
        if is_read && self.has_written {
            self.release();
        }
        self.has_written = !is_read;
    }

    /// Notes that the worker got what it waited for, as all others did.
    pub(crate) fn release(&mut self) {
        self.releases += 1;
        self.has_written = false;
        self.events.clear();
        self.count = 0;
        (self.variance, self.own_s) = (0.0, 0.0);
    }

    /// Returns how much later worker `other` comes to this point, nanoseconds; 0 if it comes sooner.
    pub(crate) fn of(&self, other: usize) -> u64 {
        if self.variance <= 0.0 {
            return 0;
        }
        let seed = hash::mix(hash::mix(self.seed, self.releases), other as u64);
        let unit = |event| unit(seed, event);
        let sum_s: f64 = if self.count <= SINGLE_EVENTS {
            let events = self.events.iter().enumerate();
            events
                .map(|(event, (table, mean_s))| {
                    let factor = self.tables[*table].spread.at(unit(event as u64));
                    mean_s * (factor - 1.0)
                })
                .sum()
        } else {
            // Box and Muller (1958).
            let radius = (-2.0 * (1.0 - unit(0)).ln()).sqrt();
            self.variance.sqrt() * radius * (std::f64::consts::TAU * unit(1)).cos()
        };
        nanoseconds((sum_s - self.own_s).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn even() -> Spread {
        Spread::of_test(&[[0.0, 0.5], [1.0, 1.5]])
    }

    /// The last of n workers is late by the largest of n draws less the worker's own, whether
    /// events are few or many.
    #[test]
    fn the_last_of_n_is_late_by_the_largest_of_n_draws() {
        for count in [1, 4, 100] {
            let (mut mean, rounds) = (0.0, 400);
            for round in 0..rounds {
                let mut lateness = Lateness::new(round);
                // The worker itself is exactly average.
                (0..count).for_each(|_| lateness.note(&even(), 1.0, 1.0));
                let last = (0..99).map(|other| lateness.of(other)).max();
                mean += last.unwrap_or_default() as f64 * 1e-9 / rounds as f64;
            }
            // A uniform table from 0.5 to 1.5 has a variance of 1/12. The largest of 99 uniform draws
            // is 0.99 on average; the largest of 99 normal ones 2.50 standard deviations (Harter 1961).
            let sigma = (f64::from(count) / 12.0).sqrt();
            let expected = match count {
                1 => 0.49,
                _ => 2.5 * sigma,
            };
            let within = if count == 4 { 0.1 } else { 0.05 };
            assert!(
                (mean / expected - 1.0).abs() < within,
                "{count}: {mean} for {expected}"
            );
        }
    }

    #[test]
    fn nobody_is_late_after_a_release_and_none_is_before_the_worker() {
        let mut lateness = Lateness::new(3);
        lateness.note(&even(), 1.0, 1.5);
        // The worker itself was the slowest possible.
        assert!((0..50).all(|other| lateness.of(other) == 0));
        lateness.note(&even(), 1.0, 0.5);
        assert!((0..50).any(|other| lateness.of(other) > 0));
        lateness.request(false);
        lateness.request(true);
        assert!((0..50).all(|other| lateness.of(other) == 0));
    }
}
