//! Promises that every trial keeps, whatever happened to it.

use std::collections::BTreeSet;

use epochcost_channels::Traffic;
use epochcost_record::{TrialRow, steps};
use epochcost_spec::metering::TrialOutcome;
use epochcost_spec::rows::{Fault, TrialPlan};
use epochcost_systems::StepRecord;

use super::schedule::{is_small, stops};

/// What is known of a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// Its row.
    pub trial: TrialRow,
    /// Its steps, in any order.
    pub steps: Vec<StepRecord>,
}

impl Observed {
    pub(super) fn of(plan: &TrialPlan, outcome: &TrialOutcome) -> Self {
        Self {
            trial: TrialRow::new(plan, outcome),
            steps: steps(outcome).cloned().collect(),
        }
    }

    /// Returns the trial, or why it failed.
    pub(super) fn ended(self) -> Result<Self, String> {
        self.trial.failure.clone().map_or(Ok(self), Err)
    }

    /// Returns the first promise that a trial with `faults` broke; `whole` is the trial of its row
    /// without any.
    pub fn broken(&self, faults: &[Fault], whole: &Self) -> Option<String> {
        let happened = faults.iter().zip(&self.trial.faults);
        let happened = happened.filter(|(_, times)| **times > 0);
        let happened: Vec<&Fault> = happened.map(|(fault, _)| fault).collect();
        // A worker may send no message after a place; a run warns of it.
        let missed = faults.iter().filter(|fault| !happened.contains(fault));
        let may_miss: Vec<&Fault> = missed.filter(|fault| fault.kind.is_of_message()).collect();
        if faults.len() == 1 && happened.is_empty() && may_miss.is_empty() {
            return Some("a fault did not happen at a place that its worker reaches".into());
        }
        let is_caused = happened.iter().any(|fault| !is_small(fault));
        if let Some(reason) = &self.trial.failure {
            let mut stuck = ["deadlock", "virtual time stands still"].iter();
            if stuck.any(|end| reason.starts_with(end)) {
                return Some(format!("no worker could go on: {reason}"));
            }
            if !reason.contains(" of worker ") {
                return Some(format!("a failure that names no worker: {reason}"));
            }
            return (!is_caused).then(|| "a failure without a cause".into());
        }
        if self.warns(whole, &may_miss) {
            return (!is_caused).then(|| "a warning without a cause".into());
        }
        if happened.iter().any(|fault| stops(fault)) {
            return Some("a success that does not say what a stopped worker left out".into());
        }
        if self.figures() != whole.figures() {
            return Some("a success with other figures than without faults".into());
        }
        self.disagree().or_else(|| self.sent_less(whole))
    }

    /// Whether it says what it lacks of the trial without faults; that a fault did not happen is no lack.
    fn warns(&self, whole: &Self, missed: &[&Fault]) -> bool {
        let missed: Vec<String> = missed.iter().map(|fault| fault.did_not_happen()).collect();
        let known = |warning| whole.trial.warnings.contains(warning) || missed.contains(warning);
        !self.trial.warnings.iter().all(known)
    }

    /// Steps and evaluations; with their values where replicas are identical, and timing decides none.
    fn figures(&self) -> BTreeSet<String> {
        let is_exact = self.trial.replicas_may_differ.is_none();
        let steps = self.steps.iter().map(|step| {
            let values = is_exact.then_some((step.loss, &step.parameters_digest));
            let place = (&step.function, step.rank, step.epoch, step.batch, values);
            format!("{place:?}")
        });
        let evaluations = self.trial.evaluations.iter().map(|row| {
            let values = is_exact.then_some((row.evaluation.correct, row.evaluation.loss));
            let place = (row.rank, row.epoch, row.evaluation.samples, values);
            format!("{place:?}")
        });
        steps.chain(evaluations).collect()
    }

    /// Whether replicas that must be identical are not after the last update.
    fn disagree(&self) -> Option<String> {
        let updates = (self.steps.iter()).filter_map(|step| {
            let digest = step.parameters_digest.as_ref()?;
            Some(((step.epoch, step.batch), digest))
        });
        let last = updates.clone().map(|(place, _)| place).max();
        let digests = updates.filter(|(place, _)| Some(*place) == last);
        let digests: BTreeSet<_> = digests.map(|(_, digest)| digest).collect();
        let is_broken = self.trial.replicas_may_differ.is_none() && digests.len() > 1;
        is_broken.then(|| "replicas differ".into())
    }

    /// Whether workers sent less than without faults, though they did the same.
    fn sent_less(&self, whole: &Self) -> Option<String> {
        let sent = |of: &Self| {
            let mut sum = Traffic::default();
            for step in &of.steps {
                sum += step.traffic.exchange.total();
            }
            [sum.puts, sum.messages, sum.bytes_up]
        };
        let mut pairs = sent(self).into_iter().zip(sent(whole));
        let less = pairs.any(|(sent, expected)| sent < expected);
        let is_broken = self.trial.replicas_may_differ.is_none() && less;
        is_broken.then(|| "the same figures from less traffic".into())
    }
}
