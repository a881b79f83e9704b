//! Sums over the steps of a trial.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::record::{PurposeTraffic, StageSeconds, StepRecord, Waits};

/// Sums over all steps of a trial, each as often as there are workers alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Steps that ended.
    pub steps: u64,
    /// Seconds per function and stage.
    pub seconds: BTreeMap<String, StageSeconds>,
    /// All traffic, sent and received.
    pub traffic: PurposeTraffic,
    /// Polls that found nothing.
    pub waits: Waits,
    /// Objects in the store.
    #[serde(default)]
    pub kept: Kept,
    /// First start and last end of the steps of each epoch, seconds.
    pub epochs: BTreeMap<usize, (f64, f64)>,
}

/// Objects that steps left in the store, and bytes over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Bytes that are there after the last step: written less removed.
    pub bytes: f64,
    /// Byte-seconds up to the end of the last step.
    pub byte_s: f64,
    /// End of the last step, seconds.
    pub until_s: f64,
}

impl Kept {
    fn note(&mut self, step: &StepRecord) {
        let ended_s = step.ended_s();
        if ended_s > self.until_s {
            self.byte_s += self.bytes * (ended_s - self.until_s);
            self.until_s = ended_s;
        }
        let alike = step.alike as f64;
        self.bytes += alike * step.net_bytes();
        self.byte_s += alike * step.stored_byte_s(self.until_s);
    }

    /// Returns the byte-seconds up to `until_s`, or to the end of the last step if that is later; at
    /// least 0.
    pub fn byte_s(&self, until_s: f64) -> f64 {
        (self.byte_s + self.bytes * (until_s - self.until_s).max(0.0)).max(0.0)
    }
}

impl Totals {
    /// Adds a step that ended.
    pub fn note(&mut self, step: &StepRecord) {
        self.steps += step.alike;
        let seconds = step.seconds.times(step.alike);
        match self.seconds.get_mut(&step.function) {
            Some(sum) => *sum += seconds,
            None => {
                self.seconds.insert(step.function.clone(), seconds);
            }
        }
        self.traffic += step.traffic.times(step.alike);
        self.waits += step.waits.times(step.alike);
        self.kept.note(step);
        let epoch = self.epochs.entry(step.epoch);
        let (first, last) = epoch.or_insert((f64::INFINITY, f64::NEG_INFINITY));
        *first = first.min(step.started_s);
        *last = last.max(step.ended_s());
    }

    /// Returns the sums over `steps`.
    pub fn of<'r>(steps: impl IntoIterator<Item = &'r StepRecord>) -> Self {
        let mut totals = Self::default();
        for step in steps {
            totals.note(step);
        }
        totals
    }

    /// Returns the seconds of all functions but `coordinators`, whose time is no worker's.
    pub fn of_workers(&self, coordinators: &[&str]) -> StageSeconds {
        let mut sum = StageSeconds::default();
        for (function, seconds) in &self.seconds {
            if !coordinators.contains(&function.as_str()) {
                sum += *seconds;
            }
        }
        sum
    }
}
