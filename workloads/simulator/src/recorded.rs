//! Values of a trained trial that decide times, for timing it again.

use std::collections::BTreeMap;

use epochcost_systems::{Evaluation, StepRecord};

/// Densities of updates and results of evaluations of a trained trial. A simulation of
/// sizes with these in place of values takes the same time as the trial itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// Shares of entries that were sent, by rank, epoch and mini-batch.
    densities: BTreeMap<(usize, usize, Option<usize>), f64>,
    /// Results by split (0 test, 1 validation), epoch and rank.
    evaluations: BTreeMap<(usize, usize, usize), Evaluation>,
}

impl Recorded {
    /// Collects them from a trial's steps and its evaluations: rank, epoch, and the results
    /// on the test split and on the validation split.
    pub fn new<'r>(
        steps: impl IntoIterator<Item = &'r StepRecord>,
        evaluations: impl IntoIterator<Item = (usize, usize, Evaluation, Option<Evaluation>)>,
    ) -> Self {
        let densities = steps.into_iter().filter_map(|step| {
            let place = (step.rank, step.epoch, step.batch);
            Some((place, step.update_density?))
        });
        let evaluations = evaluations.into_iter();
        let by_split = evaluations.flat_map(|(rank, epoch, test, validation)| {
            let splits = [Some(test), validation].into_iter().enumerate();
            splits.filter_map(move |(split, found)| Some(((split, epoch, rank), found?)))
        });
        Self {
            densities: densities.collect(),
            evaluations: by_split.collect(),
        }
    }

    /// Returns the density of the update of a step.
    pub(crate) fn density(&self, rank: usize, epoch: usize, batch: Option<usize>) -> Option<f64> {
        self.densities.get(&(rank, epoch, batch)).copied()
    }

    /// Returns the result on `split` after `epoch` of worker `rank`; where several workers shared one
    /// evaluation, the result of all.
    pub(crate) fn evaluation(&self, split: usize, rank: usize, epoch: usize) -> Option<Evaluation> {
        let own = self.evaluations.get(&(split, epoch, rank));
        let of_epoch = (split, epoch, 0)..=(split, epoch, usize::MAX);
        let mut of_epoch = self.evaluations.range(of_epoch);
        own.or_else(|| of_epoch.next().map(|(_, evaluation)| evaluation))
            .copied()
    }
}
