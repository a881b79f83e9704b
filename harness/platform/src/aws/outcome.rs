//! Outcome of a trial, derived from its log.

use std::collections::BTreeSet;

use epochcost_spec::metering::TrialOutcome;

use super::log::Seen;

/// Returns the outcome of a trial: `seen` are the invocations in its log, `known` is the
/// least number of invocations made, `repeated` the number of duplicate lines.
pub(super) fn outcome(
    seen: &[Seen],
    known: usize,
    repeated: u64,
    mut failure: Option<String>,
) -> TrialOutcome {
    let (mut outcome, mut requests) = (TrialOutcome::default(), BTreeSet::new());
    let (mut unreported, mut again) = (Vec::new(), Vec::new());
    // What worked goes before what found its request taken.
    let (repeated_ones, ones): (Vec<&Seen>, Vec<&Seen>) =
        seen.iter().partition(|one| one.is_repeated());
    for one in ones.into_iter().chain(repeated_ones) {
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

#[cfg(test)]
mod tests {
    use epochcost_aws::logs::{Line, Streams};
    use epochcost_systems::{RECORD_PREFIX, Record};

    use super::*;
    use crate::aws::log::read;
    use crate::aws::log::tests::{lines, logged};

    /// Returns the whole log of one invocation, in which it recorded a warning.
    fn log(says: &str) -> Vec<Line> {
        let record = Record::Warning {
            rank: 0,
            text: says.to_owned(),
        };
        let record = serde_json::to_string(&record).unwrap_or_default();
        let mut texts = logged(1, 0, 0, &format!(r#"{{"Ok":"{says}"}}"#));
        texts.insert(2, format!("{RECORD_PREFIX}{record}"));
        lines(&texts, 0)
    }

    /// Returns the outcome of one invocation per text in `says`, all of one request.
    fn of(says: &[&str], known: usize) -> TrialOutcome {
        let streams: Streams = (says.iter().enumerate())
            .map(|(index, says)| (format!("sandbox-{index}"), log(says)))
            .collect();
        outcome(&read(&streams), known, 0, None)
    }

    #[test]
    fn a_request_that_lambda_ran_again_is_paid_twice_and_counts_once() {
        // Whichever is in the log first.
        for says in [["finished", "repeated"], ["repeated", "finished"]] {
            let outcome = of(&says, 1);
            let records = format!("{:?}", outcome.records);
            assert_eq!(outcome.records.len(), 1, "{says:?}");
            assert!(records.contains("finished"), "{records}");
            assert_eq!(outcome.invocations.len(), 2);
        }
        let outcome = of(&["finished", "finished"], 1);
        assert_eq!(outcome.records.len(), 1);
        assert_eq!(outcome.failure, None);
        let warnings = outcome.warnings.join("\n");
        for says in ["of all 1 invocations", "ran again"] {
            assert!(warnings.contains(says), "{warnings}");
        }
    }

    /// A workflow's invocations are known whether their logs came or not.
    #[test]
    fn what_is_known_to_have_run_and_is_not_in_the_log_fails_the_trial() {
        let outcome = of(&["finished"], 3);
        let failure = outcome.failure.unwrap_or_default();
        assert!(failure.contains("of 1 of 3 invocations"), "{failure}");
    }
}
