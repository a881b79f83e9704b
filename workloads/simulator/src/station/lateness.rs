//! How late workers are behind the one that stands for them, where single events are drawn.
//!
//! A worker that stands for n others runs once, with its own draws. Each of the others would have
//! drawn its own times for the same events, and what it writes would appear at its own time. Who waits for
//! the slowest of them must wait for the slowest of n draws: what the worker writes for another one appears
//! later, or sooner, by the difference of their sums. Sooner is possible as far as the worker is [ahead] of its
//! own time.
//!
//! [ahead]: super::lead

use std::ops::Range;

use epochcost_kernels::hash;

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
    /// The workers whose first the worker goes ahead to; none if it does not.
    others: Range<usize>,
    /// Sums of the first events less their means, by these workers, seconds.
    sums_s: Vec<f64>,
    /// Smallest normal number of these workers since the last release.
    least: Option<f64>,
}

/// A table of quantiles that was drawn from.
struct Table {
    /// Its address, by which it is known again.
    address: usize,
    spread: Spread,
    variance: f64,
}

impl Lateness {
    /// Makes the lateness of a worker that goes ahead to the first of `others`.
    pub(crate) fn new(seed: u64, others: Range<usize>) -> Self {
        Self {
            seed,
            sums_s: vec![0.0; others.len()],
            others,
            least: None,
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
            let event = self.events.len() as u64;
            self.events.push((table, mean_s));
            let seeds: Vec<u64> = self.others.clone().map(|one| self.seed_of(one)).collect();
            for (sum_s, seed) in self.sums_s.iter_mut().zip(seeds) {
                *sum_s += mean_s * (self.tables[table].spread.at(unit(seed, event)) - 1.0);
            }
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
        self.sums_s.fill(0.0);
        self.least = None;
        self.count = 0;
        (self.variance, self.own_s) = (0.0, 0.0);
    }

    /// Returns whether the next read begins to wait for what others write.
    pub(crate) fn has_written(&self) -> bool {
        self.has_written
    }

    /// Returns whether the worker goes ahead of its own time.
    pub(crate) fn goes_ahead(&self) -> bool {
        !self.others.is_empty()
    }

    fn seed_of(&self, other: usize) -> u64 {
        hash::mix(hash::mix(self.seed, self.releases), other as u64)
    }

    /// Returns how much later worker `other` comes to this point, nanoseconds; negative if it comes
    /// sooner.
    pub(crate) fn of(&self, other: usize) -> i64 {
        if self.variance <= 0.0 {
            return 0;
        }
        let seed = self.seed_of(other);
        let sum_s: f64 = if self.count <= SINGLE_EVENTS {
            let events = self.events.iter().enumerate();
            events
                .map(|(event, (table, mean_s))| {
                    let factor = self.tables[*table].spread.at(unit(seed, event as u64));
                    mean_s * (factor - 1.0)
                })
                .sum()
        } else {
            self.variance.sqrt() * normal(seed)
        };
        let late_s = sum_s - self.own_s;
        let late = i64::try_from(nanoseconds(late_s.abs())).unwrap_or(i64::MAX);
        if late_s < 0.0 { -late } else { late }
    }

    /// Returns how much sooner than the worker the first of the others comes to this point,
    /// nanoseconds; 0 if the worker is the first.
    pub(crate) fn lead(&mut self) -> u64 {
        if self.others.is_empty() || self.variance <= 0.0 {
            return 0;
        }
        let least_s = if self.count <= SINGLE_EVENTS {
            self.sums_s.iter().copied().fold(f64::INFINITY, f64::min)
        } else {
            let least = self.least.unwrap_or_else(|| {
                let normals = self.others.clone().map(|one| normal(self.seed_of(one)));
                normals.fold(f64::INFINITY, f64::min)
            });
            self.least = Some(least);
            self.variance.sqrt() * least
        };
        nanoseconds((self.own_s - least_s).max(0.0))
    }
}

/// Returns draw number `event` of `seed`, 0 to 1.
fn unit(seed: u64, event: u64) -> f64 {
    f64::from(hash::unit_f32(hash::mix(seed, event)))
}

/// Returns the normal number of `seed` (Box and Muller 1958).
fn normal(seed: u64) -> f64 {
    let radius = (-2.0 * (1.0 - unit(seed, 0)).ln()).sqrt();
    radius * (std::f64::consts::TAU * unit(seed, 1)).cos()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn even() -> Spread {
        Spread {
            quantiles: vec![[0.0, 0.5], [1.0, 1.5]],
            source: "a test".into(),
            date: "2026-11-22".into(),
        }
    }

    /// The last of n workers is late by the largest of n draws less the worker's own, and the first
    /// is ahead of it by the smallest, whether events are few or many.
    #[test]
    fn the_last_and_the_first_of_n_are_the_largest_and_smallest_of_n_draws() {
        for count in [1, 4, 100] {
            let (mut last_s, mut first_s, rounds) = (0.0, 0.0, 400);
            for round in 0..rounds {
                let mut lateness = Lateness::new(round, 0..99);
                // The worker itself is exactly average.
                (0..count).for_each(|_| lateness.note(&even(), 1.0, 1.0));
                let late: Vec<i64> = (0..99).map(|other| lateness.of(other)).collect();
                let (first, last) = (late.iter().min().unwrap(), late.iter().max().unwrap());
                let lead = lateness.lead();
                assert!((first + lead as i64).abs() <= 1, "{first} and {lead}");
                last_s += *last as f64 * 1e-9 / rounds as f64;
                first_s += lead as f64 * 1e-9 / rounds as f64;
            }
            // A uniform table from 0.5 to 1.5 has a variance of 1/12. The largest of 99 uniform draws
            // is 0.99 on average; the largest of 99 normal ones 2.50 standard deviations (Harter 1961).
            let sigma = (f64::from(count) / 12.0).sqrt();
            let expected = match count {
                1 => 0.49,
                _ => 2.5 * sigma,
            };
            let within = if count == 4 { 0.1 } else { 0.05 };
            for mean in [last_s, first_s] {
                assert!(
                    (mean / expected - 1.0).abs() < within,
                    "{count}: {mean} for {expected}"
                );
            }
        }
    }

    #[test]
    fn nobody_is_late_after_a_release_and_none_after_the_slowest_possible() {
        let mut lateness = Lateness::new(3, 0..50);
        lateness.note(&even(), 1.0, 1.5);
        // The worker itself was the slowest possible.
        assert!((0..50).all(|other| lateness.of(other) <= 0));
        lateness.note(&even(), 1.0, 0.5);
        assert!((0..50).any(|other| lateness.of(other) > 0));
        assert!(lateness.lead() > 0);
        lateness.request(false);
        lateness.request(true);
        assert!((0..50).all(|other| lateness.of(other) == 0));
        assert_eq!(lateness.lead(), 0);
    }
}
