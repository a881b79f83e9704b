//! REPORT lines from CloudWatch Logs: the cross-check of those that came back
//! with each invocation's answer.
//!
//! Logs are delivered late, sometimes twice, and sometimes not at all. So they
//! are read again until every request is found or patience ends, and what is
//! missing is part of the result.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use crate::{AwsError, Clients};

/// What every REPORT line begins with.
const HEAD: &str = "REPORT RequestId: ";

/// REPORT lines of the requests that were waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reports {
    /// The different lines of each request, in the order of their times. More
    /// than one says that Lambda ran the same request again.
    pub lines: BTreeMap<String, Vec<String>>,
    /// Requests without a line.
    pub missing: BTreeSet<String>,
    /// Lines that were delivered once more, the same to the letter.
    pub repeated: u64,
    /// Requests with a line that nobody waited for: work that this harness
    /// does not know of.
    pub unexpected: BTreeSet<String>,
}

impl Reports {
    /// Nothing is found yet of `expected`.
    fn waiting_for(expected: &BTreeSet<String>) -> Self {
        Self {
            missing: expected.clone(),
            ..Self::default()
        }
    }

    /// The share of requests with a line; of none, all.
    pub fn coverage(&self) -> f64 {
        match self.lines.len() + self.missing.len() {
            0 => 1.0,
            all => self.lines.len() as f64 / all as f64,
        }
    }

    /// Takes one line of a log; others than REPORT lines are skipped.
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
        let known = self.lines.entry(id.to_owned()).or_default();
        match known.iter().any(|known| known == line) {
            true => self.repeated += 1,
            false => known.push(line.to_owned()),
        }
    }
}

/// Where, since when, and for how long to look.
#[derive(Clone, Debug)]
pub struct Search<'a> {
    /// Log groups.
    pub groups: &'a [String],
    /// No line is older.
    pub since: Timestamp,
    /// How long lines may take.
    pub patience: Duration,
    /// From one look to the next.
    pub interval: Duration,
}

/// Reads logs until every request of `expected` has its line, or patience ends.
///
/// # Errors
/// When the logs cannot be read. Lines that do not come are no error.
pub async fn collect(
    clients: &Clients,
    search: &Search<'_>,
    expected: &BTreeSet<String>,
) -> Result<Reports, AwsError> {
    let began = Instant::now();
    loop {
        // From the start each time: a line may come late into any place.
        let mut reports = Reports::waiting_for(expected);
        for group in search.groups {
            read(clients, group, search.since, expected, &mut reports).await?;
        }
        let left = search.patience.saturating_sub(began.elapsed());
        if reports.missing.is_empty() || left.is_zero() {
            return Ok(reports);
        }
        sleep(search.interval.min(left)).await;
    }
}

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
