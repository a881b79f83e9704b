//! What the log makes of a trial.

use std::collections::BTreeSet;

use super::log::Seen;
use crate::metering::TrialOutcome;

/// The outcome of a trial of which `seen` is in the log, `known` invocations were
/// made at least, and `repeated` lines came more than once.
pub(super) fn outcome(
    seen: &[Seen],
    known: usize,
    repeated: u64,
    mut failure: Option<String>,
) -> TrialOutcome {
    let (mut outcome, mut requests) = (TrialOutcome::default(), BTreeSet::new());
    let (mut unreported, mut again) = (Vec::new(), Vec::new());
    for one in seen {
        if !requests.insert(one.request_id.as_str()) {
            again.push(one.request_id.as_str());
            // Paid for, but no second source of its records.
            outcome.invocations.extend(one.invocation());
            continue;
        }
        match one.invocation() {
            Some(invocation) => outcome.invocations.push(invocation),
            None => unreported.push(one.request_id.as_str()),
        }
        outcome.records.extend(one.records.iter().cloned());
        if let Some(error) = &one.unreadable {
            failure.get_or_insert_with(|| format!("a record cannot be read: {error}"));
        }
    }
    let found = requests.len() - unreported.len();
    let all = requests.len().max(known);
    if found == all {
        outcome.warnings.push(format!(
            "REPORT lines of all {all} invocations were found in CloudWatch Logs"
        ));
    } else {
        failure.get_or_insert_with(|| {
            format!(
                "CloudWatch Logs has REPORT lines of {found} of {all} invocations; not of [{}]",
                unreported.join(", ")
            )
        });
    }
    if !again.is_empty() {
        outcome.warnings.push(format!(
            "Lambda ran again, under the same request: {}",
            again.join(", ")
        ));
    }
    if repeated > 0 {
        outcome.warnings.push(format!(
            "CloudWatch Logs delivered {repeated} lines more than once"
        ));
    }
    outcome
        .invocations
        .sort_by(|a, b| a.ended_s.total_cmp(&b.ended_s));
    let started_s = seen
        .iter()
        .map(|seen| seen.started_s)
        .min_by(f64::total_cmp);
    let ended_s = outcome.invocations.last().map(|last| last.ended_s);
    outcome.started_s = started_s.unwrap_or_default();
    outcome.wall_s = ended_s.unwrap_or_default() - outcome.started_s;
    outcome.wall_s = outcome.wall_s.max(0.0);
    outcome.failure = failure;
    outcome
}
