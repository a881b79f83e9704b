//! A sandbox's log: platform lines (START, END, REPORT) and, between them, what
//! the function wrote, among it the records that the harness collects.
//!
//! CloudWatch puts both into one stream with nothing to distinguish them, so an
//! invocation is looked up by the request id that its caller got: output that
//! imitates platform lines of another invocation is output.

use epochcost_systems::Record;
pub use epochcost_systems::{LAST_LINE_PREFIX, OUTCOME_PREFIX, RECORD_PREFIX};
use thiserror::Error;
use uuid::Uuid;

use super::report_line::{Report, ReportError};

/// Returns the line that begins an invocation.
pub fn start_line(request_id: Uuid) -> String {
    format!("START RequestId: {request_id} Version: $LATEST")
}

/// Returns the line after an invocation's last output.
pub fn end_line(request_id: Uuid) -> String {
    format!("END RequestId: {request_id}")
}

/// What a log reports of one invocation.
#[derive(Clone, Debug, PartialEq)]
pub struct InvocationLog<'a> {
    /// What the function wrote.
    pub output: &'a [String],
    /// The figures.
    pub report: Report,
}

/// Why an invocation's log is unusable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LogError {
    /// A platform line is missing.
    #[error("the log of {request_id} has no {what} line")]
    Missing {
        /// The invocation.
        request_id: Uuid,
        /// `START`, `END` or `REPORT`.
        what: &'static str,
    },
    /// The REPORT line is not Lambda's.
    #[error(transparent)]
    Report(#[from] ReportError),
}

/// Finds one invocation in a sandbox's log, which may hold others before and
/// after it.
///
/// A sandbox serves one invocation at a time, so its output lies between its
/// first START and its last END line; the REPORT line is the last one after
/// that.
///
/// # Errors
/// When a platform line is missing or the REPORT line is malformed.
pub fn invocation(lines: &[String], request_id: Uuid) -> Result<InvocationLog<'_>, LogError> {
    let missing = |what| LogError::Missing { request_id, what };
    let start = start_line(request_id);
    let start = lines.iter().position(|line| *line == start);
    let (_, lines) = lines.split_at(start.ok_or_else(|| missing("START"))? + 1);
    let end = end_line(request_id);
    let end = lines.iter().rposition(|line| line.trim_end() == end);
    let (output, lines) = lines.split_at(end.ok_or_else(|| missing("END"))?);
    let head = format!("REPORT RequestId: {request_id}\t");
    let report = lines.iter().rfind(|line| line.starts_with(&head));
    let report = report.ok_or_else(|| missing("REPORT"))?.parse()?;
    Ok(InvocationLog { output, report })
}

/// Returns the record on a line of output, if it carries one.
///
/// # Errors
/// When the line carries something that is no record.
pub fn record(line: &str) -> Option<Result<Record, serde_json::Error>> {
    line.strip_prefix(RECORD_PREFIX).map(serde_json::from_str)
}

/// Returns the last `count` lines of output that are for people.
pub fn tail(output: &[String], count: usize) -> Vec<&str> {
    let lines = output.iter().map(|line| line.trim_end());
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("EPOCHCOST"));
    let mut lines: Vec<&str> = lines.rev().take(count).collect();
    lines.reverse();
    lines
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn report(id: u128, billed_ms: u64) -> Report {
        Report {
            request_id: Uuid::from_u128(id),
            duration_ms: 1.5,
            billed_ms,
            memory_mb: 128,
            peak_memory_mb: 55,
            init_ms: None,
            status: None,
        }
    }

    /// What a function may write: text with colons and tabs, and imitations of
    /// platform lines of invocations that are not its own (ids from 1,000).
    fn output() -> impl Strategy<Value = Vec<String>> {
        let fake = |id: u128| Uuid::from_u128(1_000 + id);
        vec(
            prop_oneof![
                "[\\t: A-Za-z0-9.]{0,40}",
                (0u128..3).prop_map(move |id| start_line(fake(id))),
                (0u128..3).prop_map(move |id| end_line(fake(id))),
                (0u128..3, any::<u64>()).prop_map(|(id, ms)| report(1_000 + id, ms).to_string()),
                Just("REPORT RequestId: \tDuration: 1 ms".to_owned()),
                Just("Duration: 1.00 ms\tBilled Duration: 1 ms".to_owned()),
            ],
            0..12,
        )
    }

    proptest! {
        #[test]
        fn every_invocation_is_found_with_its_own_output(outputs in vec(output(), 1..5)) {
            let mut lines = Vec::new();
            for (id, output) in outputs.iter().enumerate() {
                let request_id = Uuid::from_u128(id as u128);
                lines.push(start_line(request_id));
                lines.extend(output.iter().cloned());
                lines.push(end_line(request_id));
                lines.push(report(id as u128, id as u64).to_string());
            }
            for (id, output) in outputs.iter().enumerate() {
                let found = invocation(&lines, Uuid::from_u128(id as u128)).unwrap();
                prop_assert_eq!(found.output, output.as_slice());
                prop_assert_eq!(found.report, report(id as u128, id as u64));
            }
        }

        #[test]
        fn a_cut_log_is_an_error(output in output(), missing in 0usize..3) {
            let id = Uuid::from_u128(1);
            let mut lines = vec![start_line(id)];
            lines.extend(output);
            lines.push(end_line(id));
            lines.push(report(1, 1).to_string());
            let at = [0, lines.len() - 2, lines.len() - 1][missing];
            lines.remove(at);
            let what = ["START", "END", "REPORT"][missing];
            prop_assert_eq!(
                invocation(&lines, id),
                Err(LogError::Missing { request_id: id, what })
            );
        }
    }

    #[test]
    fn records_are_told_from_other_output() {
        let record_line = r#"{"warning":{"rank":1,"text":"a\tb: c"}}"#;
        let read = record(&format!("{RECORD_PREFIX}{record_line}"));
        let (rank, text) = (1, "a\tb: c".into());
        assert_eq!(read.unwrap().unwrap(), Record::Warning { rank, text });
        assert!(record("EPOCHCOST {}").is_none());
        assert!(record(&format!("{RECORD_PREFIX}{{}}")).unwrap().is_err());
    }

    #[test]
    fn a_tail_leaves_out_what_is_not_for_people() {
        let lines = ["a", "", "EPOCHCOST\t{}", "b\n", "c"].map(str::to_owned);
        assert_eq!(tail(&lines, 2), ["b", "c"]);
    }
}
