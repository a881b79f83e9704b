//! REPORT lines from CloudWatch Logs: the cross-check of those in the invocations'
//! answers.
//!
//! Logs are delivered late, sometimes twice, and sometimes not at all. So they are polled
//! until every request is found or the time is over, and missing lines are part of the
//! result.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use crate::{AwsError, Clients};

/// Prefix of every REPORT line.
const HEAD: &str = "REPORT RequestId: ";

/// REPORT lines of the expected requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reports {
    /// Distinct lines of each request, in the order of their times. More than one means
    /// that Lambda ran the same request again.
    pub lines: BTreeMap<String, Vec<String>>,
    /// Requests without a line.
    pub missing: BTreeSet<String>,
    /// Number of lines that were delivered again, letter for letter.
    pub repeated: u64,
    /// Unexpected requests with a line: work that this harness does not know of.
    pub unexpected: BTreeSet<String>,
}

impl Reports {
    /// Creates a result in which all of `expected` is missing.
    fn waiting_for(expected: &BTreeSet<String>) -> Self {
        Self {
            missing: expected.clone(),
            ..Self::default()
        }
    }

    /// Returns the share of requests with a line; 1 if none are expected.
    pub fn coverage(&self) -> f64 {
        match self.lines.len() + self.missing.len() {
            0 => 1.0,
            all => self.lines.len() as f64 / all as f64,
        }
    }

    /// Adds a line of a log if it is a REPORT line.
    fn take(&mut self, line: &str, expected: &BTreeSet<String>) {
        let line = line.trim_end();
        let Some(id) = line
            .strip_prefix(HEAD)
            .and_then(|rest| rest.split('\t').next())
        else {
            return;
        };
        if !expected.contains(id) {
            self.unexpected.insert(id.to_owned());
            return;
        }
        self.missing.remove(id);
        let lines = self.lines.entry(id.to_owned()).or_default();
        if lines.iter().any(|known| known == line) {
            self.repeated += 1;
        } else {
            lines.push(line.to_owned());
        }
    }
}

/// Scope and duration of a search.
#[derive(Clone, Debug)]
pub struct Search<'a> {
    /// Log groups by name.
    pub groups: &'a [String],
    /// Time of the oldest line.
    pub since: Timestamp,
    /// Time limit for late lines.
    pub timeout: Duration,
    /// Polling interval.
    pub interval: Duration,
}

/// Polls logs until every request of `expected` has its line, or the time is over.
///
/// # Errors
/// When the logs cannot be read. Missing lines are no error.
pub async fn collect(
    clients: &Clients,
    search: &Search<'_>,
    expected: &BTreeSet<String>,
) -> Result<Reports, AwsError> {
    let began = Instant::now();
    loop {
        // From the start each time: late lines appear at any position.
        let mut reports = Reports::waiting_for(expected);
        for group in search.groups {
            read(clients, group, search.since, expected, &mut reports).await?;
        }
        let remaining = search.timeout.saturating_sub(began.elapsed());
        if reports.missing.is_empty() || remaining.is_zero() {
            return Ok(reports);
        }
        sleep(search.interval.min(remaining)).await;
    }
}

/// Reads the REPORT lines of one log group.
async fn read(
    clients: &Clients,
    group: &str,
    since: Timestamp,
    expected: &BTreeSet<String>,
    reports: &mut Reports,
) -> Result<(), AwsError> {
    let filter = clients
        .logs
        .filter_log_events()
        .log_group_name(group)
        .start_time(since.as_millisecond())
        .filter_pattern("\"REPORT RequestId\"");
    let mut pages = filter.into_paginator().send();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| AwsError::of(format!("read the log {group}"), error))?;
        for event in page.events() {
            reports.take(event.message().unwrap_or_default(), expected);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str, ms: u32) -> String {
        format!("{HEAD}{id}\tDuration: {ms}.00 ms\tBilled Duration: {ms} ms\t\n")
    }

    fn ids(ids: &[&str]) -> BTreeSet<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn repeated_lines_retries_and_strangers_are_told_apart() {
        let expected = ids(&["a", "b", "c"]);
        let mut reports = Reports::waiting_for(&expected);
        for text in [
            "START RequestId: a Version: $LATEST\n",
            &line("a", 1),
            &line("b", 2),
            &line("a", 1),
            "a function's own REPORT of something\n",
            &line("b", 3),
            &line("z", 4),
        ] {
            reports.take(text, &expected);
        }
        assert_eq!(reports.lines["a"].len(), 1);
        assert_eq!(reports.lines["b"].len(), 2);
        assert_eq!(reports.repeated, 1);
        assert_eq!(reports.missing, ids(&["c"]));
        assert_eq!(reports.unexpected, ids(&["z"]));
        assert!((reports.coverage() - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn nothing_waited_for_is_covered() {
        assert!(Reports::default().coverage() >= 1.0);
    }
}
