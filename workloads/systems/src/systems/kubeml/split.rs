//! How the data are divided: documents of samples over functions, intervals of
//! documents between two merges, mini-batches of an interval.

use std::ops::Range;

use epochcost_kernels::chunk::chunk_range;

use super::Settings;
use crate::Job;

/// Division of the data over the functions of one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    samples: usize,
    document: usize,
    functions: usize,
    /// Documents between two merges; `None`: all of a function's.
    interval: Option<usize>,
    batch: usize,
}

impl Split {
    /// Divides the training samples that the job uses, W·B·b.
    pub(super) fn new(job: &Job, settings: &Settings, functions: usize) -> Self {
        let batch = job.batch_size;
        let document = settings.document_samples;
        Self {
            samples: job.workers * job.batches_per_worker * batch,
            document,
            functions,
            interval: usize::try_from(settings.k)
                .ok()
                .map(|k| k.saturating_mul(batch).div_ceil(document).max(1)),
            batch,
        }
    }

    /// Divides the samples of a split that is evaluated, as one interval and one mini-batch.
    pub(super) fn of(samples: usize, settings: &Settings, functions: usize) -> Self {
        Self {
            samples,
            document: settings.document_samples,
            functions,
            interval: None,
            batch: samples,
        }
    }

    /// Documents in all: the last may be shorter.
    pub(super) fn documents(&self) -> usize {
        self.samples.div_ceil(self.document)
    }

    /// The documents of a function: contiguous, the first ones get one more.
    fn documents_of(&self, function: usize) -> Range<usize> {
        chunk_range(self.documents(), self.functions, function)
    }

    /// The samples of a function.
    pub(super) fn samples_of(&self, function: usize) -> Range<usize> {
        self.samples_in(self.documents_of(function))
    }

    fn samples_in(&self, documents: Range<usize>) -> Range<usize> {
        let sample = |document: usize| (document * self.document).min(self.samples);
        sample(documents.start)..sample(documents.end)
    }

    /// J_f: how many intervals a function has.
    pub(super) fn intervals_of(&self, function: usize) -> usize {
        let documents = self.documents_of(function).len();
        documents.div_ceil(self.interval.unwrap_or(documents).max(1))
    }

    /// J: merges of the epoch, as many as the first function has intervals.
    pub(super) fn merges(&self) -> usize {
        self.intervals_of(0)
    }

    /// Intervals that every function has: no function has fewer documents than the last.
    pub(super) fn shared(&self) -> usize {
        self.intervals_of(self.functions.saturating_sub(1))
    }

    /// ΣJ_f: over all functions.
    pub(super) fn intervals(&self) -> usize {
        (0..self.functions)
            .map(|function| self.intervals_of(function))
            .sum()
    }

    /// The samples of an interval of a function.
    pub(super) fn interval(&self, function: usize, interval: usize) -> Range<usize> {
        let documents = self.documents_of(function);
        let length = self.interval.unwrap_or(documents.len());
        let start = documents.start + interval * length;
        self.samples_in(start..(start + length).min(documents.end))
    }

    /// Mini-batches of an interval; the last may be smaller.
    pub(super) fn batches(&self, samples: &Range<usize>) -> Vec<Range<usize>> {
        let end = samples.end;
        samples
            .clone()
            .step_by(self.batch)
            .map(|start| start..(start + self.batch).min(end))
            .collect()
    }
}

/// Places in the training split of an epoch's samples `samples`: epochs, which use W·B·b
/// samples each, go through the split in turn. The second range is empty unless the first
/// ends with the split.
pub(super) fn in_turn(job: &Job, epoch: usize, samples: &Range<usize>) -> [Range<usize>; 2] {
    let used = job.workers * job.batches_per_worker * job.batch_size;
    let all = job.data.train_samples.max(used).max(1);
    let start = (epoch * used + samples.start) % all;
    let end = start + samples.len();
    [start..end.min(all), 0..end.saturating_sub(all)]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn split(samples: usize, functions: usize, k: Option<usize>, batch: usize) -> Split {
        Split {
            samples,
            document: 64,
            functions,
            interval: k.map(|k: usize| (k * batch).div_ceil(64)),
            batch,
        }
    }

    proptest! {
        /// PROTOCOL's rules: D = ⌈samples / 64⌉ documents, contiguous, the first D mod N
        /// functions get one more; ⌈b·K / 64⌉ documents per interval; ⌈D_f / s⌉ intervals.
        #[test]
        fn every_sample_is_used_once_in_order(
            samples in 1usize..5_000, functions in 1usize..17, k in 0usize..40, batch in 1usize..300,
        ) {
            let k = (k > 0).then_some(k);
            let split = split(samples, functions, k, batch);
            let documents = samples.div_ceil(64);
            let mut next = 0;
            let (mut merges, mut shared) = (0, usize::MAX);
            prop_assert_eq!(split.documents(), documents);
            for function in 0..functions {
                let first = next;
                let own = documents / functions + usize::from(function < documents % functions);
                let expected = match k {
                    None => usize::from(own > 0),
                    Some(k) => own.div_ceil((batch * k).div_ceil(64)),
                };
                prop_assert_eq!(split.intervals_of(function), expected);
                (merges, shared) = (merges.max(expected), shared.min(expected));
                for interval in 0..expected {
                    let range = split.interval(function, interval);
                    for batch_range in split.batches(&range) {
                        prop_assert_eq!(batch_range.start, next);
                        prop_assert!(batch_range.len() <= batch && !batch_range.is_empty());
                        next = batch_range.end;
                    }
                    prop_assert_eq!(next, range.end);
                }
                prop_assert_eq!(split.samples_of(function), first..next);
            }
            prop_assert_eq!(next, samples);
            prop_assert_eq!((split.merges(), split.shared()), (merges, shared));
        }
    }
}
