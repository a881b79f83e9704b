//! The page of a comparison: what changed from one run to another.

use std::path::Path;

use serde::Serialize;

use super::cell::Cell;
use super::render;
use crate::analysis::comparison::{Change, Comparison, MetricComparison, RowComparison};
use crate::format;
use crate::results::{Manifest, ResultsError, write_whole};

const HTML: &str = include_str!("../../../templates/compare.html");

/// Characters of a hash that are shown.
const HASH: usize = 12;

/// What a page says about a comparison in words.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// The answer: time, cost, and everything else.
    pub answer: &'a [String],
    /// How ratios, thresholds and intervals are to be read.
    pub legend: &'a str,
}

/// Everything that the template shows; texts are not yet escaped.
#[derive(Debug, Serialize)]
struct View<'a> {
    before: Side<'a>,
    after: Side<'a>,
    answer: &'a [String],
    legend: &'a str,
    counts: Vec<Count>,
    notes: Vec<String>,
    /// Whether a line has an interval: simulations have none.
    has_intervals: bool,
    rows: Vec<RowView<'a>>,
}

#[derive(Debug, Serialize)]
struct Side<'a> {
    run_id: &'a str,
    platform: &'a str,
    created: &'a str,
    commit: String,
    worker: String,
}

#[derive(Debug, Serialize)]
struct Count {
    word: &'static str,
    count: usize,
    class: &'static str,
}

#[derive(Debug, Serialize)]
struct RowView<'a> {
    id: &'a str,
    settings: &'a [String],
    /// Metrics that changed, or of which it is not known.
    lines: Vec<Line<'a>>,
    /// The other metrics, by name.
    same: String,
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    metric: &'static str,
    unit: &'static str,
    before: Cell,
    after: Cell,
    ratio: Cell,
    interval: String,
    word: &'static str,
    class: &'static str,
    reason: &'a str,
}

/// Writes the page of a comparison. The same runs always give the same bytes.
///
/// # Errors
/// When the file could not be written.
pub fn write_comparison(
    path: &Path,
    runs: [&Manifest; 2],
    comparison: &Comparison,
    words: Words<'_>,
) -> Result<(), ResultsError> {
    let [before, after] = runs.map(Side::of);
    let only = [
        ("first", &comparison.only_before),
        ("second", &comparison.only_after),
    ];
    let only = only.into_iter().filter(|(_, ids)| !ids.is_empty());
    let only = only.map(|(run, ids)| format!("Only in the {run} run: {}.", ids.join(", ")));
    let rows: Vec<RowView<'_>> = comparison.rows.iter().map(RowView::of).collect();
    let mut lines = rows.iter().flat_map(|row| &row.lines);
    let view = View {
        before,
        after,
        answer: words.answer,
        legend: words.legend,
        counts: counts(comparison),
        notes: only.chain(comparison.notes.iter().cloned()).collect(),
        has_intervals: lines.any(|line| !line.interval.is_empty()),
        rows,
    };
    write_whole(path, render("compare.html", HTML, &view)?.as_bytes())
}

impl<'a> Side<'a> {
    fn of(manifest: &'a Manifest) -> Self {
        let short = |hash: Option<&str>| {
            let hash = hash.map(|hash| hash.chars().take(HASH).collect());
            hash.unwrap_or_else(|| format::UNKNOWN.to_owned())
        };
        Self {
            run_id: &manifest.run_id,
            platform: &manifest.platform,
            created: &manifest.created,
            commit: short(manifest.git.as_ref().and_then(|git| git.commit.as_deref())),
            worker: short(manifest.worker_sha256.as_deref()),
        }
    }
}

/// Returns how many metrics have each word.
fn counts(comparison: &Comparison) -> Vec<Count> {
    let metrics = || comparison.rows.iter().flat_map(|row| &row.metrics);
    let class_of = |word| {
        let found = metrics().find(|metric| metric.word == word);
        found.map_or("plain", class)
    };
    let counts = comparison.counts().into_iter();
    let counts = counts.map(|(word, count)| Count {
        word,
        count,
        class: class_of(word),
    });
    counts.collect()
}

/// Returns the colour of a change. Less time, cost or memory is good; whether more accuracy is,
/// its metric does not say.
fn class(metric: &MetricComparison) -> &'static str {
    let is_learned = metric.metric.is_learned();
    match metric.change {
        Change::Less if !is_learned => "good",
        Change::More if !is_learned => "bad",
        Change::Less | Change::More => "fair",
        Change::Undecided => "open",
        Change::Same | Change::NotComparable => "none",
    }
}

impl<'a> RowView<'a> {
    fn of(row: &'a RowComparison) -> Self {
        let is_same = |metric: &&MetricComparison| metric.change == Change::Same;
        let (same, others): (Vec<_>, Vec<_>) = row.metrics.iter().partition(is_same);
        let same: Vec<&str> = same.iter().map(|metric| metric.metric.name()).collect();
        Self {
            id: &row.id,
            settings: &row.settings,
            lines: others.into_iter().map(Line::of).collect(),
            same: same.join(", "),
        }
    }
}

impl<'a> Line<'a> {
    fn of(metric: &'a MetricComparison) -> Self {
        let number = |value| Cell::of(value, format::number);
        Self {
            metric: metric.metric.name(),
            unit: metric.unit,
            before: number(metric.before),
            after: number(metric.after),
            ratio: number(metric.ratio),
            interval: metric.interval.map_or_else(String::new, |[low, high]| {
                format!("{} to {}", format::number(low), format::number(high))
            }),
            word: metric.word,
            class: class(metric),
            reason: &metric.reason,
        }
    }
}
