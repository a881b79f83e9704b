//! Whole log streams from CloudWatch Logs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::error::Cause;
use crate::{AwsError, Clients};

/// Line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Time of the line, milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// Text without the line break.
    pub text: String,
}

/// Log streams by name, with distinct lines in the order of their times.
pub type Streams = BTreeMap<String, Vec<Line>>;

/// Reader that polls log groups, in which lines appear late, at any position, and more
/// than once.
#[derive(Debug, Default)]
pub struct LogReader {
    streams: Streams,
    /// Ids of the lines read so far.
    known: BTreeSet<String>,
    repeated: u64,
    /// Time of each group's newest line, milliseconds since the Unix epoch.
    newest_ms: BTreeMap<String, i64>,
    /// Time of the next read of all lines; the first one is of all.
    whole_at: Option<Instant>,
}

/// Milliseconds before a group's newest line from which [`LogReader::read_new`] reads: CloudWatch
/// delivers most lines late by seconds.
const LATE_MS: i64 = 60_000;
/// Interval of reads of all lines, which find those that are later still; longer where they take
/// more than a tenth of it.
const WHOLE_INTERVAL: Duration = Duration::from_secs(60);

impl LogReader {
    /// Returns everything read so far.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Returns the number of lines that one answer of the service repeated.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Reads what is likely to be new in `groups`: lines from a minute before the newest known
    /// one of each, and once a minute all. A group that CloudWatch refuses for want of patience is
    /// read at the next time: its limit is few requests per second and account.
    ///
    /// # Errors
    /// When the logs cannot be read for another reason.
    pub async fn read_new(
        &mut self,
        clients: &Clients,
        groups: &[String],
        since: Timestamp,
    ) -> Result<(), AwsError> {
        let began = Instant::now();
        for (group, from) in self.windows(groups, since, began) {
            match self.read_group(clients, group, from).await {
                Err(error) if error.cause() == Some(Cause::Throttled) => {}
                read => read?,
            }
        }
        if self.whole_at.is_none_or(|at| at <= began) {
            let pause = WHOLE_INTERVAL.max(began.elapsed() * 10);
            self.whole_at = Some(began + pause);
        }
        Ok(())
    }

    /// Returns the time from which each group is read at `now`.
    fn windows<'a>(
        &self,
        groups: &'a [String],
        since: Timestamp,
        now: Instant,
    ) -> Vec<(&'a String, Timestamp)> {
        let is_whole = self.whole_at.is_none_or(|at| at <= now);
        let newest = |group: &String| self.newest_ms.get(group).filter(|_| !is_whole);
        let from = |group: &String| {
            let from = newest(group)?.saturating_sub(LATE_MS);
            Some(Timestamp::from_millisecond(from).ok()?.max(since))
        };
        (groups.iter())
            .map(|group| (group, from(group).unwrap_or(since)))
            .collect()
    }

    /// Reads all current lines of `groups` since `since`; returns whether there are new
    /// ones.
    ///
    /// # Errors
    /// When the logs cannot be read.
    pub async fn read(
        &mut self,
        clients: &Clients,
        groups: &[String],
        since: Timestamp,
    ) -> Result<bool, AwsError> {
        let before = self.known.len();
        for group in groups {
            self.read_group(clients, group, since).await?;
        }
        Ok(self.known.len() > before)
    }

    /// Reads the current lines of one group.
    async fn read_group(
        &mut self,
        clients: &Clients,
        group: &str,
        since: Timestamp,
    ) -> Result<(), AwsError> {
        let mut pages = clients
            .logs
            .filter_log_events()
            .log_group_name(group)
            .start_time(since.as_millisecond())
            .into_paginator()
            .send();
        let (mut seen, mut newest_ms) = (BTreeSet::new(), i64::MIN);
        while let Some(page) = pages.next().await {
            let page =
                match page.map_err(|error| AwsError::of(format!("read the log {group}"), error)) {
                    // Removed with its function, or not created yet.
                    Err(error) if error.cause() == Some(Cause::NotFound) => return Ok(()),
                    page => page?,
                };
            for event in page.events() {
                let (Some(id), Some(stream)) = (event.event_id(), event.log_stream_name()) else {
                    continue;
                };
                self.take(&mut seen, id, stream, event.timestamp(), event.message());
                newest_ms = newest_ms.max(event.timestamp().unwrap_or_default());
            }
        }
        // Pages that are missing may have earlier lines.
        let newest = self.newest_ms.entry(group.to_owned()).or_insert(newest_ms);
        *newest = newest_ms.max(*newest);
        Ok(())
    }

    /// Adds a line in the order of times unless it is known; `seen` are the ids of this
    /// answer.
    fn take(
        &mut self,
        seen: &mut BTreeSet<String>,
        id: &str,
        stream: &str,
        at_ms: Option<i64>,
        text: Option<&str>,
    ) {
        if !seen.insert(id.to_owned()) {
            self.repeated += 1;
            return;
        }
        if !self.known.insert(id.to_owned()) {
            return;
        }
        let at_ms = at_ms.unwrap_or_default();
        let lines = self.streams.entry(stream.to_owned()).or_default();
        // After all lines that are not younger: lines of one time keep their order.
        let place = lines.partition_point(|line| line.at_ms <= at_ms);
        let text = text.unwrap_or_default().trim_end_matches(['\n', '\r']);
        let text = text.to_owned();
        lines.insert(place, Line { at_ms, text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No group moves the window of another, and lines that are late by more than the window are
    /// read with all.
    #[test]
    fn every_group_has_its_own_window_until_all_is_read() {
        let groups = ["slow".to_owned(), "fast".to_owned()];
        let (since, now) = (Timestamp::UNIX_EPOCH, Instant::now());
        let mut reader = LogReader::default();
        let from = |reader: &LogReader, now| -> Vec<i64> {
            let windows = reader.windows(&groups, since, now);
            let from = windows.iter().map(|(_, from)| from.as_millisecond());
            from.collect()
        };
        assert_eq!(from(&reader, now), [0, 0]);
        reader.whole_at = Some(now + WHOLE_INTERVAL);
        let known = [("slow", 70_000), ("fast", 500_000)];
        reader.newest_ms = known.map(|(group, at)| (group.to_owned(), at)).into();
        assert_eq!(from(&reader, now), [10_000, 440_000]);
        assert_eq!(from(&reader, now + WHOLE_INTERVAL), [0, 0]);
    }

    #[test]
    fn late_and_repeated_lines_find_their_place_once() {
        let mut reader = LogReader::default();
        let first = [("1", 10, "b"), ("2", 20, "d\n"), ("1", 10, "b")];
        // The next poll finds the first two again, and two more.
        let next = [
            ("1", 10, "b"),
            ("3", 5, "a"),
            ("4", 10, "c"),
            ("2", 20, "d"),
        ];
        for poll in [&first[..], &next] {
            let mut seen = BTreeSet::new();
            for (id, at_ms, text) in poll {
                reader.take(&mut seen, id, "s", Some(*at_ms), Some(text));
            }
            assert_eq!(reader.repeated(), 1);
        }
        let lines = &reader.streams()["s"];
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["a", "b", "c", "d"]);
    }
}
