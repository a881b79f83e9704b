//! The page of a comparison: what changed from one run to another.

use std::path::Path;

use epochcost_judge::analysis::comparison::{Change, Comparison, MetricComparison, RowComparison};
use epochcost_record::{Manifest, ResultsError};
use epochcost_spec::format;

use super::page::{Page, Section, write_page};
use super::table::{Cell, Table};
use super::view::StripItem;

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
    let only = [
        ("first", &comparison.only_before),
        ("second", &comparison.only_after),
    ];
    let only = only.into_iter().filter(|(_, ids)| !ids.is_empty());
    let only = only.map(|(run, ids)| format!("Only in the {run} run: {}.", ids.join(", ")));
    let [before, after] = runs.map(|manifest| &manifest.run_id);
    let notes = std::iter::once(words.legend.to_owned());
    let own = comparison.notes.iter().cloned();
    let rows = comparison.rows.iter().map(of_row);
    let page = Page {
        title: "What changed".to_owned(),
        about: format!("from {before} to {after}"),
        answer: words.answer.to_vec(),
        strip: counts(comparison),
        notes: notes.chain(only).chain(own).collect(),
        sections: vec![
            Section::of("runs", "The two runs", vec![of_runs(runs)]),
            Section::of("rows", "Row by row", rows.collect()),
        ],
        ..Page::default()
    };
    write_page(path, &page)
}

fn of_runs(runs: [&Manifest; 2]) -> Table {
    let columns = ["run:", "platform:", "begun:", "commit:", "worker:"];
    let mut table = Table::new("Origin of both runs", &columns);
    let short = |hash: Option<&str>| {
        let hash = hash.map(|hash| hash.chars().take(HASH).collect());
        Cell::text(hash.unwrap_or_else(|| format::UNKNOWN.to_owned()))
    };
    for manifest in runs {
        table.row(vec![
            Cell::text(&manifest.run_id),
            Cell::text(&manifest.platform),
            Cell::text(&manifest.created),
            short(manifest.git.as_ref().and_then(|git| git.commit.as_deref())),
            short(manifest.worker_sha256.as_deref()),
        ]);
    }
    table
}

/// Returns the metrics of a row that changed, or of which it is not known; the others are named
/// below them.
fn of_row(row: &RowComparison) -> Table {
    let heading = "metric: | before | after | ratio | interval… | change: | why…";
    let mut table = Table::headed(&row.id, heading);
    table.is_titled = true;
    let number = |value| Cell::of(value, format::number);
    let is_same = |metric: &&MetricComparison| metric.change == Change::Same;
    for metric in row.metrics.iter().filter(|metric| !is_same(metric)) {
        let interval = metric.interval.map_or_else(String::new, |[low, high]| {
            format!("{} to {}", format::number(low), format::number(high))
        });
        table.row(vec![
            Cell::text(metric.metric.name()).above(metric.unit),
            number(metric.before),
            number(metric.after),
            number(metric.ratio),
            Cell::text(interval),
            Cell::badge(class(metric), metric.word),
            Cell::text(&metric.reason),
        ]);
    }
    table.without_silent();
    let different = row.settings.iter();
    let notes = different.map(|setting| format!("set differently: {setting}"));
    table.notes = notes.collect();
    let same = row.metrics.iter().filter(is_same);
    let same: Vec<&str> = same.map(|metric| metric.metric.name()).collect();
    if !same.is_empty() {
        table.notes.push(format!("the same: {}", same.join(", ")));
    }
    table
}

/// Returns how many metrics have each word.
fn counts(comparison: &Comparison) -> Vec<StripItem> {
    let metrics = || comparison.rows.iter().flat_map(|row| &row.metrics);
    let item = |(word, count): (&str, usize)| {
        let found = metrics().find(|metric| metric.word == word);
        StripItem::new((found.map_or("plain", class), ""), count, word)
    };
    comparison.counts().into_iter().map(item).collect()
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
