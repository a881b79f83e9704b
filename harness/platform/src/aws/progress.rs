//! Progress of a trial's workers, derived from its log alone.

use std::collections::BTreeSet;

use epochcost_systems::{Outcome, Record, named};

use super::log::Seen;

/// Function, rank and epoch that a worker was started for.
pub(super) type Start = (String, usize, usize);

/// Progress of all workers of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WorkerProgress {
    /// Workers are running, or their logs are incomplete; which, in words.
    Running(String),
    /// Every started invocation has succeeded.
    Ended,
    /// An invocation failed that no other invocation waited for; the reason.
    Failed(String),
}

/// Returns the progress of the trial whose first invocations were `first`. A worker
/// whose outcome is to continue at an epoch has started the invocation that does.
pub(super) fn worker_progress(first: &[Start], seen: &[Seen]) -> WorkerProgress {
    let mut expected: BTreeSet<Start> = first.iter().cloned().collect();
    for one in seen {
        if let (Some(task), Some(Ok(Outcome::Continued { epoch }))) = (&one.task, &one.outcome) {
            expected.insert((task.function.clone(), task.rank, *epoch));
        }
    }
    let mut missing = expected.clone();
    let (mut is_open, mut running) = (false, BTreeSet::new());
    for one in seen.iter().filter(|one| !one.is_repeated()) {
        let start = (one.task.as_ref()).map(|task| (task.function.clone(), task.rank, task.epoch));
        if !one.has_ended() {
            is_open = true;
            running.extend(start.clone().map(|(function, rank, _)| (function, rank)));
        }
        match (start, one.failure()) {
            (Some(start), failure) if expected.contains(&start) => {
                if let Some(reason) = failure {
                    let (function, rank, _) = start;
                    return WorkerProgress::Failed(format!(
                        "{function} of worker {rank} failed: {reason}"
                    ));
                }
                if one.has_ended() {
                    missing.remove(&start);
                }
            }
            // It failed before it logged its task.
            (None, Some(reason)) => {
                let id = &one.request_id;
                return WorkerProgress::Failed(format!("the invocation {id} failed: {reason}"));
            }
            // Its caller received its result.
            _ => {}
        }
    }
    if !is_open && missing.is_empty() {
        return WorkerProgress::Ended;
    }
    running.extend(
        missing
            .into_iter()
            .map(|(function, rank, _)| (function, rank)),
    );
    WorkerProgress::Running(if running.is_empty() {
        "an invocation that logged no task".to_owned()
    } else {
        named(running.iter())
    })
}

/// Returns the number of steps among records.
pub(super) fn steps_in(records: &[Record]) -> u64 {
    let is_step = |record: &&Record| matches!(record, Record::Step(_));
    records.iter().filter(is_step).count() as u64
}

/// Returns the number of steps that have ended.
pub(super) fn steps(seen: &[Seen]) -> u64 {
    seen.iter().map(|seen| steps_in(&seen.records)).sum()
}

#[cfg(test)]
mod tests {
    use epochcost_aws::logs::{Line, Streams};

    use super::*;
    use crate::aws::log::read;
    use crate::aws::log::tests::{FINISHED, lines, logged};

    /// Returns the first `count` lines of a sandbox's log of one invocation of worker 0
    /// at `epoch`: its start, task, outcome, end and report.
    fn invocation(id: u128, epoch: usize, outcome: &str, count: usize) -> (String, Vec<Line>) {
        let texts = logged(id, 0, epoch, outcome);
        let lines = lines(&texts[..count], id as i64 * 100);
        (format!("stream-{id}"), lines)
    }

    fn found(invocations: Vec<(String, Vec<Line>)>) -> WorkerProgress {
        let streams: Streams = invocations.into_iter().collect();
        worker_progress(&[("worker".to_owned(), 0, 0)], &read(&streams))
    }

    const REPEATED: &str = r#"{"Ok":"repeated"}"#;
    const CONTINUED: &str = r#"{"Ok":{"continued":{"epoch":1}}}"#;

    #[test]
    fn a_trial_ends_with_the_last_of_its_invocations() {
        let running = || WorkerProgress::Running("worker of worker 0".to_owned());
        assert_eq!(found(vec![]), running());
        for lines in 1..=5 {
            let expected = if lines < 3 {
                running()
            } else {
                WorkerProgress::Ended
            };
            assert_eq!(found(vec![invocation(1, 0, FINISHED, lines)]), expected);
        }
        // It went on in an invocation whose log has not come.
        let first = invocation(1, 0, CONTINUED, 5);
        assert_eq!(found(vec![first.clone()]), running());
        let second = |lines| invocation(2, 1, FINISHED, lines);
        assert_eq!(found(vec![first.clone(), second(2)]), running());
        assert_eq!(found(vec![first, second(5)]), WorkerProgress::Ended);
    }

    /// The first delivery's log may come after that of the second, which did nothing.
    #[test]
    fn a_repeated_delivery_ends_nothing() {
        let again = |lines| invocation(2, 0, REPEATED, lines);
        let running = WorkerProgress::Running("worker of worker 0".to_owned());
        assert_eq!(found(vec![again(5)]), running);
        let first = invocation(1, 0, FINISHED, 5);
        assert_eq!(found(vec![first, again(5)]), WorkerProgress::Ended);
    }

    #[test]
    fn a_failure_is_reported_with_its_worker() {
        let failed = found(vec![invocation(1, 0, r#"{"Err":"no memory"}"#, 5)]);
        let reason = "worker of worker 0 failed: no memory".to_owned();
        assert_eq!(failed, WorkerProgress::Failed(reason));
    }
}
