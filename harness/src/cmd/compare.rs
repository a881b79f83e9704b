//! `compare`: two runs, row by row and metric by metric.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

use epochcost_judge::analysis::comparison::{Change, Comparison, MetricComparison, RowComparison};
use epochcost_judge::analysis::{self, Analysis};
use epochcost_planner::error::Error;
use epochcost_record::{RunDirectory, SchemaVersion, probe_file};
use epochcost_report::{self as report, Words};
use epochcost_spec::claims::Metric;
use epochcost_spec::exit::Exit;
use epochcost_spec::format::{self, wrapped};
use epochcost_spec::ui::{Output, table};

use super::grouped;

/// The version of what `compare --json` prints.
const COMPARE_VERSION: SchemaVersion = SchemaVersion { major: 1, minor: 1 };

/// `compare`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run directory to compare with.
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The run directory that is compared.
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Differences up to this are none, percent.
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = percent)]
    threshold: f64,
    /// Exit with 3 if a metric is any of these, and with 2 if one trial cannot tell.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WORD")]
    fail_on: Vec<Word>,
    /// Also write the comparison as a page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// What a comparison may be asked to fail on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Word {
    /// A time grew.
    Slower,
    /// A time fell.
    Faster,
    /// A cost grew.
    #[value(alias = "dearer")]
    Costlier,
    /// A cost fell.
    Cheaper,
    /// Memory, bytes or a count grew.
    More,
    /// Memory, bytes or a count fell.
    Less,
    /// A loss or an accuracy grew.
    Higher,
    /// A loss or an accuracy fell.
    Lower,
    /// The trials do not decide.
    Undecided,
    /// The runs are not of the same thing.
    NotComparable,
}

impl Word {
    /// Returns whether it is a comparison's word.
    fn is(self, word: &str) -> bool {
        let name = self.to_possible_value();
        name.is_some_and(|name| name.matches(&word.replace(' ', "_"), false))
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(value) if (0.0..=100.0).contains(&value) => Ok(value),
        _ => Err("give a percentage from 0 to 100".to_owned()),
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Compared<'a> {
    schema_version: SchemaVersion,
    before: Side<'a>,
    after: Side<'a>,
    threshold_percent: f64,
    /// Time, cost and everything else, a sentence each.
    answer: [String; 3],
    comparison: &'a Comparison,
}

/// Identity of one of the two runs.
#[derive(Serialize)]
struct Side<'a> {
    run_id: &'a str,
    platform: &'a str,
    created: &'a str,
    worker_sha256: Option<&'a str>,
    commit: Option<&'a str>,
}

impl<'a> Side<'a> {
    fn of(run: &'a RunDirectory) -> Self {
        let manifest = run.manifest();
        Self {
            run_id: &manifest.run_id,
            platform: &manifest.platform,
            created: &manifest.created,
            worker_sha256: manifest.worker_sha256.as_deref(),
            commit: manifest.git.as_ref().and_then(|git| git.commit.as_deref()),
        }
    }
}

/// Says what changed from the first run to the second.
///
/// # Errors
/// When a directory is no run or is damaged, or the runs have no row in common.
pub fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    if let Some(path) = &args.html {
        probe_file(path, "--html")?;
    }
    let (before, first) = opened(&args.before, output)?;
    let (after, second) = opened(&args.after, output)?;
    let runs = [(&before, &first), (&after, &second)];
    let comparison = Comparison::of_runs(runs, args.threshold / 100.0);
    if comparison.rows.is_empty() {
        return Err(Error::NothingSelected(format!(
            "{} and {} have no row of the same id",
            args.before.display(),
            args.after.display()
        )));
    }
    output.text(text(&comparison, args.threshold, output.verbosity > 0));
    let answer = answer(&comparison);
    if let Some(path) = &args.html {
        let words = Words {
            answer: &answer,
            legend: &legend(&comparison, args.threshold).join("; "),
        };
        let manifests = [before.manifest(), after.manifest()];
        report::write_comparison(path, manifests, &comparison, words)?;
        output.message(format_args!("page: {}", path.display()));
    }
    output.json(&Compared {
        schema_version: COMPARE_VERSION,
        before: Side::of(&before),
        after: Side::of(&after),
        threshold_percent: args.threshold,
        answer,
        comparison: &comparison,
    });
    let is_named = |(word, _): &(&str, usize)| args.fail_on.iter().any(|named| named.is(word));
    if comparison.counts().iter().any(is_named) {
        return Ok(Exit::Failed);
    }
    match undecidable(&comparison, &args.fail_on) {
        0 => Ok(Exit::Done),
        count => Err(Error::usage(
            format!(
                "--fail-on cannot decide {count} metrics: a run of fewer than two trials has no interval"
            ),
            "give both runs --trials 5 or more, or --platform sim",
        )),
    }
}

/// Returns how many metrics could have changed as `words` say, had both runs more than one trial.
fn undecidable(comparison: &Comparison, words: &[Word]) -> usize {
    let metrics = comparison.rows.iter().flat_map(|row| &row.metrics);
    let is_asked_for = |metric: &MetricComparison| {
        let possible = CHANGES.map(|change| change.word(metric.metric));
        (words.iter()).any(|word| possible.iter().any(|possible| word.is(possible)))
    };
    let undecided =
        metrics.filter(|metric| metric.change == Change::Undecided && is_asked_for(metric));
    let few = undecided.filter(|metric| metric.trials.iter().any(|count| *count < 2));
    few.count()
}

/// Opens a run and summarises it; prints its warnings.
fn opened(path: &std::path::Path, output: Output) -> Result<(RunDirectory, Analysis), Error> {
    let run = RunDirectory::open_whole(path)?;
    let analysis = analysis::summarise(&run)?;
    for warning in analysis.warnings() {
        let line = warning.line();
        output.detail(format_args!("{}: warning: {line}", path.display()));
    }
    Ok((run, analysis))
}

/// The comparison for people. Without `all`, metrics that are the same are
/// named only.
fn text(comparison: &Comparison, threshold: f64, all: bool) -> String {
    let answer = answer(comparison).into_iter();
    let answer: Vec<String> = answer.map(|sentence| wrapped("", &sentence)).collect();
    // Rows of which nothing changed are named only.
    let is_same = |row: &&RowComparison| {
        let mut metrics = row.metrics.iter();
        row.settings.is_empty() && metrics.all(|metric| metric.change == Change::Same)
    };
    let rows = comparison.rows.iter().filter(|row| all || !is_same(row));
    let rows = rows.map(|row| of_row(row, all));
    let mut parts: Vec<String> = std::iter::once(answer.join("\n")).chain(rows).collect();
    let same = comparison.rows.iter().filter(is_same);
    let same: Vec<&str> = same.map(|row| row.id.as_str()).collect();
    if !all && !same.is_empty() {
        parts.push(wrapped("same: ", &same.join(", ")));
    }
    for (run, ids) in [
        ("first", &comparison.only_before),
        ("second", &comparison.only_after),
    ] {
        if !ids.is_empty() {
            parts.push(format!("only in the {run} run: {}", ids.join(", ")));
        }
    }
    let notes = comparison.notes.iter();
    let notes: Vec<String> = notes.map(|note| wrapped("note: ", note)).collect();
    if !notes.is_empty() {
        parts.push(notes.join("\n"));
    }
    let mut last = vec![counted_words(comparison.counts())];
    last.extend(legend(comparison, threshold));
    parts.push(last.join("\n"));
    parts.join("\n\n")
}

/// Returns how ratios, threshold and intervals are to be read.
fn legend(comparison: &Comparison, threshold: f64) -> Vec<String> {
    let mut legend = vec![format!(
        "ratios are of means, the second run over the first; differences up to {threshold} % are \
         none"
    )];
    if comparison.intervals > 0 {
        legend.push(format!(
            "{} intervals of {:.2} % each: all cover together in 95 % of comparisons",
            comparison.intervals,
            comparison.confidence * 100.0
        ));
    }
    legend
}

/// Returns the comparison in three sentences: time, cost, and everything else.
fn answer(comparison: &Comparison) -> [String; 3] {
    let of = |metric: Metric| -> Vec<(&str, &MetricComparison)> {
        let rows = comparison.rows.iter();
        rows.filter_map(|row| {
            let found = row.metrics.iter().find(|known| known.metric == metric)?;
            Some((row.id.as_str(), found))
        })
        .collect()
    };
    let known = [Metric::SecondsPerEpoch, Metric::CostFullUsd];
    let rest = comparison.rows.iter().flat_map(|row| &row.metrics);
    let rest = rest.filter(|metric| !known.contains(&metric.metric));
    [
        sentence("Time", &of(known[0])),
        sentence("Cost with everything billed", &of(known[1])),
        of_others(&rest.collect::<Vec<_>>()),
    ]
}

/// Returns how many metrics are the same, changed, undecided and not comparable. What is
/// undecided may be equal: it is no change.
fn of_others(metrics: &[&MetricComparison]) -> String {
    let count = |changes: &[Change]| {
        let found = metrics
            .iter()
            .filter(|metric| changes.contains(&metric.change));
        found.count()
    };
    let counts = [
        ("the same", count(&[Change::Same])),
        ("changed", count(&CHANGES)),
        ("undecided", count(&[Change::Undecided])),
        ("not comparable", count(&[Change::NotComparable])),
    ];
    let all = metrics.len();
    if counts[0].1 == all {
        return format!("All other metrics are the same ({all} compared).");
    }
    let counts = counts.into_iter().filter(|(_, count)| *count > 0);
    format!("Of {all} other metrics: {}.", counted_words(counts))
}

/// Returns words, each after its count.
fn counted_words<'a>(counts: impl IntoIterator<Item = (&'a str, usize)>) -> String {
    let counted = counts
        .into_iter()
        .map(|(word, count)| format!("{count} {word}"));
    counted.collect::<Vec<_>>().join(", ")
}

/// Findings that a metric has changed.
const CHANGES: [Change; 2] = [Change::Less, Change::More];

/// Returns how a metric changed over the rows, with the row that changed most.
fn sentence(name: &str, rows: &[(&str, &MetricComparison)]) -> String {
    let words = grouped(rows.iter().map(|(_, metric)| (metric.word, ())));
    let counted = words.into_iter().map(|(word, of)| (word, of.len()));
    let counted = counted_words(counted);
    let distance = |metric: &MetricComparison| metric.ratio.map_or(0.0, |ratio| ratio.ln().abs());
    let changed = rows
        .iter()
        .filter(|(_, metric)| CHANGES.contains(&metric.change));
    let most = changed.max_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b)));
    let most = most.map_or(String::new(), |(id, metric)| {
        let ratio = format::or_unknown(metric.ratio, format::number);
        format!("; most in {id}, {ratio} times what it was")
    });
    match rows.len() {
        0 => format!("{name}: not compared."),
        rows => format!("{name}: of {rows} rows {counted}{most}."),
    }
}

fn of_row(row: &RowComparison, all: bool) -> String {
    let mut lines = vec![row.id.clone()];
    for setting in &row.settings {
        lines.push(wrapped("  ", &format!("set differently: {setting}")));
    }
    let is_shown = |metric: &&MetricComparison| all || metric.change != Change::Same;
    let shown: Vec<&MetricComparison> = row.metrics.iter().filter(is_shown).collect();
    if !shown.is_empty() {
        let heading = ["", "metric", "before", "after", "ratio (interval)", ""];
        let cells: Vec<[String; 6]> = shown.iter().map(|metric| cells(metric)).collect();
        lines.push(table(heading, &cells));
    }
    lines.extend(reasons(&shown));
    let same = row.metrics.iter().filter(|metric| !is_shown(metric));
    let same: Vec<String> = same.map(|metric| name(metric.metric)).collect();
    if !same.is_empty() {
        lines.push(wrapped("  ", &format!("same: {}", same.join(", "))));
    }
    lines.join("\n")
}

/// Why metrics are undecided or not comparable: each reason once, with the
/// metrics that have it.
fn reasons(shown: &[&MetricComparison]) -> Vec<String> {
    let has_reason = |metric: &&&MetricComparison| {
        matches!(metric.change, Change::Undecided | Change::NotComparable)
    };
    let reasons = shown.iter().filter(has_reason);
    let reasons = grouped(reasons.map(|metric| (&metric.reason, name(metric.metric))));
    (reasons.into_iter())
        .map(|(reason, names)| wrapped("  ", &format!("{}: {reason}", names.join(", "))))
        .collect()
}

fn cells(metric: &MetricComparison) -> [String; 6] {
    let value = |value: Option<f64>| format::or_unknown(value, format::number);
    let mut ratio = value(metric.ratio);
    if let (Some(_), Some(ends)) = (metric.ratio, metric.interval) {
        let [low, high] = ends.map(format::number);
        ratio = format!("{ratio} ({low} to {high})");
    }
    [
        " ".to_owned(),
        name(metric.metric),
        value(metric.before),
        value(metric.after),
        ratio,
        metric.word.to_owned(),
    ]
}

/// A metric's name, as experiments write it.
fn name(metric: Metric) -> String {
    let name = serde_json::to_value(metric).unwrap_or_default();
    name.as_str().unwrap_or_default().to_owned()
}
