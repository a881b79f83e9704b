//! Draws of single events from their spreads.

use std::sync::atomic::{AtomicU64, Ordering};

use epochcost_kernels::hash;
use epochcost_systems::Task;

use crate::profile::Spread;

/// A stream of draws: the same for the same seed and the same order of events.
pub(crate) struct Draws {
    /// The stream's seed; none: every event takes its mean.
    seed: Option<u64>,
    drawn: AtomicU64,
}

impl Draws {
    /// Makes the stream number `stream` of `seed`.
    pub(crate) fn new(seed: Option<u64>, stream: u64) -> Self {
        Self {
            seed: seed.map(|seed| hash::mix(seed, stream)),
            drawn: AtomicU64::new(0),
        }
    }

    /// Returns the stream's seed, if events are drawn.
    pub(crate) fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// Returns the next event's duration over its mean.
    pub(crate) fn factor(&self, spread: Option<&Spread>) -> f64 {
        let (Some(seed), Some(spread)) = (self.seed, spread) else {
            return 1.0;
        };
        spread.at(unit(seed, self.drawn.fetch_add(1, Ordering::Relaxed)))
    }
}

/// Returns draw number `draw` of `seed`, from 0 to 1.
pub(crate) fn unit(seed: u64, draw: u64) -> f64 {
    f64::from(hash::unit_f32(hash::mix(seed, draw)))
}

/// Returns a seed of its own for `name`.
pub(crate) fn seed_of(seed: u64, name: &str) -> u64 {
    name.bytes().map(u64::from).fold(seed, hash::mix)
}

/// Returns a number for `task`: the job's seed, the function, the worker, the epoch and
/// the batch.
pub(crate) fn stream_of(task: &Task) -> u64 {
    let batch = task.batch.map_or(0, |batch| batch as u64 + 1);
    let numbers = [task.rank as u64, task.epoch as u64, batch];
    let letters = task.function.bytes().map(u64::from);
    numbers
        .into_iter()
        .chain(letters)
        .fold(task.job.seed, hash::mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_depend_on_seed_and_stream_alone_and_need_a_seed() {
        let spread = Spread::of_test(&[[0.0, 0.5], [1.0, 1.5]]);
        let of = |seed, stream| {
            let draws = Draws::new(seed, stream);
            [(); 50].map(|()| draws.factor(Some(&spread)))
        };
        assert_eq!(of(Some(1), 2), of(Some(1), 2));
        assert_ne!(of(Some(1), 2), of(Some(1), 3));
        assert_ne!(of(Some(1), 2), of(Some(2), 2));
        assert_eq!(of(None, 2), [1.0; 50]);
        let mean: f64 = of(Some(1), 2).iter().sum::<f64>() / 50.0;
        assert!((mean - 1.0).abs() < 0.15, "{mean}");
    }
}
