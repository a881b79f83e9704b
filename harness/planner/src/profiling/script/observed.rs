//! What a run of the user's program reported, and what its operations come to.

use std::collections::BTreeMap;

use epochcost_simulator::profile::median;

use super::lines::{Described, Work};

/// What a run reported.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    /// Seconds of each counted step: whole, in the optimizer, waiting for data, and, of the
    /// rest, for a core.
    pub(super) steps: Vec<[f64; 4]>,
    /// Kind of each counted step.
    pub(super) kinds: Vec<u64>,
    /// Steps of each kind, all but the first, which may do what no other does.
    pub(super) seen: BTreeMap<u64, f64>,
    /// Seconds beside each counted step, of evaluation as it seems.
    pub(super) apart: Vec<f64>,
    /// Samples of each step that named them.
    pub(super) samples: Vec<f64>,
    /// Most memory, MB.
    pub(super) peak_mb: Option<f64>,
    /// The model, if the program described it.
    pub(super) model: Option<Described>,
    /// Steps whose operations were counted.
    pub(super) work: Vec<Work>,
    /// Seconds and samples of evaluations.
    pub(super) evaluation: [f64; 2],
    /// Steps until the program ended by itself, warm-up among them.
    pub(super) ended_after: Option<usize>,
    /// Operations per second of a product of matrices on one thread.
    pub(super) rate: Option<f64>,
    /// Remarks.
    pub(super) notes: Vec<String>,
}

/// Kinds of steps counted once from which on their operations are a sample of what varies.
const SAMPLED: usize = 4;
/// Ratio of the most samples of a step to the fewest from which they vary.
const VARIED: f64 = 1.5;

impl Observed {
    /// Returns the fewest and the most samples of a step, where they vary.
    pub(super) fn varied(&self) -> Option<(f64, f64)> {
        let least = self.samples.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.samples.iter().copied().fold(0.0, f64::max);
        (most > VARIED * least).then_some((least, most))
    }

    /// Returns the samples of a step: their median, or their mean where they vary.
    pub(super) fn typical_samples(&self) -> Option<f64> {
        match self.varied() {
            Some(_) => Some(self.samples.iter().sum::<f64>() / self.samples.len() as f64),
            None => median(&self.samples),
        }
    }

    /// Returns how many steps of a kind there were.
    pub(super) fn seen(&self, kind: u64) -> f64 {
        self.seen.get(&kind).copied().unwrap_or(0.0)
    }

    /// Returns the mean operations of a step and its samples, each kind as often as it was seen.
    pub(super) fn operations(&self) -> Option<(f64, Option<f64>)> {
        let is_seen = self.work.iter().any(|work| self.seen(work.kind) > 0.0);
        let (mut total, mut flops, mut samples) = (0.0, 0.0, Some(0.0));
        for work in &self.work {
            let counted = self.work.iter().filter(|other| other.kind == work.kind);
            let weight = if is_seen {
                self.seen(work.kind) / counted.count() as f64
            } else {
                1.0
            };
            total += weight;
            flops += weight * work.flops;
            let both = samples.zip(work.samples);
            samples = both.map(|(sum, own)| sum + weight * own);
        }
        (total > 0.0).then(|| (flops / total, samples.map(|samples| samples / total)))
    }

    /// Returns how far the operations of a sample may be off, relative to them: twice the standard
    /// error of their mean, by the spread within kinds of steps and among kinds counted once.
    pub(super) fn operations_error(&self) -> Option<f64> {
        let mut kinds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for work in &self.work {
            let own = kinds.entry(work.kind).or_default();
            own.push(work.flops / work.samples.unwrap_or(1.0));
        }
        let (mut once, mut groups) = ((0.0, Vec::new()), Vec::new());
        for (kind, own) in kinds {
            if own.len() == 1 {
                once.0 += self.seen(kind);
                once.1.extend(own);
            } else {
                groups.push((self.seen(kind), own));
            }
        }
        // Two or three kinds are what a program does in turn, and more are a sample.
        if once.1.len() >= SAMPLED {
            groups.push(once);
        }
        let total: f64 = groups.iter().map(|(steps, _)| steps).sum();
        let (mut mean, mut variance) = (0.0, 0.0);
        for (steps, own) in groups {
            let (share, counted) = (steps / total, own.len() as f64);
            let middle = own.iter().sum::<f64>() / counted;
            let squares: f64 = own.iter().map(|one| (one - middle).powi(2)).sum();
            mean += share * middle;
            variance += share.powi(2) * squares / (counted * (counted - 1.0));
        }
        (mean > 0.0).then(|| 2.0 * variance.sqrt() / mean)
    }

    /// Returns the ratio of mean passes to those of kinds of steps whose operations were counted.
    pub(super) fn beyond_counted(&self) -> Option<f64> {
        let mean = |is_one: &dyn Fn(u64) -> bool| {
            let steps = self.steps.iter().zip(&self.kinds);
            let passes: Vec<f64> = steps
                .filter(|(_, kind)| is_one(**kind))
                .map(|([whole, optimizer, data, queue], _)| whole - optimizer - data - queue)
                .collect();
            (!passes.is_empty()).then(|| passes.iter().sum::<f64>() / passes.len() as f64)
        };
        let counted = mean(&|kind| self.work.iter().any(|work| work.kind == kind))?;
        Some(mean(&|_| true)? / counted)
    }
}
