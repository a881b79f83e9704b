//! What a trial that ended well lacks of what its row asked for: no figure is silent about it.

use std::collections::{BTreeMap, BTreeSet};

use epochcost_spec::metering::TrialOutcome;
use epochcost_systems::{Job, Record};

use super::rows::steps;

/// Begins the sentences: readers see them before all other warnings.
pub const INCOMPLETE: &str = "incomplete: ";

/// Epochs and functions that a sentence names.
const MOST_NAMED: usize = 5;

/// Returns what is missing, a sentence each: samples of an evaluation against its split, epochs
/// that were trained and not evaluated, invocations that failed.
pub(super) fn missing(job: &Job, outcome: &TrialOutcome) -> Vec<String> {
    if outcome.failure.is_some() {
        return Vec::new();
    }
    let of_all = [
        partly_evaluated(job, outcome),
        not_evaluated(job, outcome),
        failed(outcome),
    ];
    let sentences = of_all.into_iter().flatten();
    let sentences = sentences.map(|sentence| format!("{INCOMPLETE}{sentence}"));
    sentences.collect()
}

/// Evaluations of fewer samples than the test split has.
fn partly_evaluated(job: &Job, outcome: &TrialOutcome) -> Option<String> {
    let all = job.data.test_samples;
    let fewer = evaluations(outcome).filter(|(_, samples)| *samples < all);
    let fewer: BTreeMap<usize, usize> = fewer.collect();
    let least = fewer.values().min()?;
    let epochs = epochs(fewer.keys());
    Some(format!(
        "the accuracy after {epochs} is that over {least} of {all} test samples: functions that did not \
         report are left out"
    ))
}

/// Returns epochs that were evaluated, with the samples of each evaluation.
fn evaluations(outcome: &TrialOutcome) -> impl Iterator<Item = (usize, usize)> {
    outcome.records.iter().filter_map(|record| match record {
        Record::Evaluated {
            epoch, evaluation, ..
        } => Some((*epoch, evaluation.samples)),
        _ => None,
    })
}

/// Epochs after which the row wanted an evaluation, and none was made though they were trained.
/// A simulation of sizes trains nothing.
fn not_evaluated(job: &Job, outcome: &TrialOutcome) -> Option<String> {
    let is_trained = steps(outcome).any(|step| step.loss.is_some());
    if !is_trained || outcome.divergence().is_some() {
        return None;
    }
    let trained = steps(outcome).map(|step| step.epoch).max()?;
    let evaluated: BTreeSet<usize> = evaluations(outcome).map(|(epoch, _)| epoch).collect();
    let wanted = (0..=trained).filter(|epoch| job.evaluates_after(*epoch));
    let missing: BTreeSet<usize> = wanted.filter(|epoch| !evaluated.contains(epoch)).collect();
    let last = missing.last()?;
    let of = match evaluated.last() {
        None => "there is no accuracy".to_owned(),
        Some(known) if known < last => {
            format!("the final accuracy is that after epoch {}", known + 1)
        }
        Some(_) => "a time to an accuracy may be too long".to_owned(),
    };
    let missing = epochs(missing.iter());
    Some(format!("{of}: nothing was evaluated after {missing}"))
}

/// Invocations that failed and were not called again, in a trial that ended well.
fn failed(outcome: &TrialOutcome) -> Option<String> {
    let calls = &outcome.invocations;
    let failed = (calls.iter())
        .filter_map(|call| Some((call, call.error.as_ref()?)))
        .filter(|(call, _)| !calls.iter().any(|other| other.repeats(call)));
    let mut named: BTreeMap<String, u64> = BTreeMap::new();
    for (call, error) in failed {
        let what = format!("{} of worker {}: {error}", call.function, call.rank);
        *named.entry(what).or_default() += call.alike;
    }
    let count: u64 = named.values().sum();
    let what = match count {
        0 => return None,
        1 => "a function that failed and was".to_owned(),
        several => format!("{several} functions that failed and were"),
    };
    let named = first_of(named.keys().cloned().collect(), "; ", ", and");
    Some(format!(
        "what {what} not called again did is missing ({named})"
    ))
}

/// Returns the first of many names, and how many more there are.
fn first_of(mut names: Vec<String>, separator: &str, and: &str) -> String {
    let more = match names.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!("{and} {more} more"),
    };
    names.truncate(MOST_NAMED);
    names.join(separator) + &more
}

/// Returns numbers of epochs, from 1, in words.
fn epochs<'a>(epochs: impl Iterator<Item = &'a usize>) -> String {
    let numbers: Vec<String> = epochs.map(|epoch| (epoch + 1).to_string()).collect();
    let plural = if numbers.len() == 1 { "" } else { "s" };
    format!("epoch{plural} {}", first_of(numbers, ", ", " and"))
}
