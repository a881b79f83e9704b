//! Seeded pseudo-random draws for one sample.

use epochcost_kernels::hash;

/// A stream of pseudo-random draws: the hashes of 0, 1, 2, … under one key.
///
/// Every sample has a stream of its own, so that a sample depends on the seed,
/// its split and its index alone, never on the number of samples before it.
pub(crate) struct Draws {
    key: u64,
    next: u64,
}

impl Draws {
    pub(crate) fn new(key: u64) -> Self {
        Self { key, next: 0 }
    }

    fn bits(&mut self) -> u64 {
        let bits = hash::mix(self.key, self.next);
        self.next += 1;
        bits
    }

    /// Draws from `[low, high)`, uniformly on a grid of 2²⁴ values.
    pub(crate) fn uniform(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * hash::unit_f32(self.bits())
    }

    /// Draws true with probability `probability`.
    pub(crate) fn chance(&mut self, probability: f32) -> bool {
        hash::unit_f32(self.bits()) < probability
    }

    /// Draws from a bell-shaped distribution of mean 0 and variance 1: the sum of four 16-bit
    /// uniform draws, centred and scaled. Integers are summed, so it is exact.
    pub(crate) fn bell(&mut self) -> f32 {
        /// Half of the largest sum.
        const CENTRE: i32 = 2 * 0xFFFF;
        /// The standard deviation of the sum, 65,536 · √(4/12).
        const DEVIATION: f32 = 37_837.23;
        let bits = self.bits();
        let sum: i32 = (0..4).map(|i| (bits >> (16 * i) & 0xFFFF) as i32).sum();
        (sum - CENTRE) as f32 / DEVIATION
    }
}
