//! What a run and a reproduction print on the terminal: the answer, a table, and
//! what a reader must know of it.

use std::collections::BTreeMap;

use super::rows::{DIVERGED, Spent, fidelity_differs, marked};
use super::tally::{agreements, by_origin};
use super::view::{class_and_sign, excluded, warnings_title};
use crate::analysis::answer::Answer;
use crate::analysis::counts::Counts;
use crate::analysis::findings::is_too_short;
use crate::analysis::names::{MINIMUM, legend, names};
use crate::analysis::overview::Overview;
use crate::analysis::summary::RowSummary;
use crate::analysis::warnings::Warning;
use crate::analysis::{Analysis, RowAnalysis};
use crate::claims::VerdictKind;
use crate::format::{self, UNKNOWN, wrapped};

/// Lines that warnings take.
const WARNING_LINES: usize = 3;

/// The text of a row's cell.
type CellOf = dyn Fn(&RowSummary, &RowAnalysis) -> String;

/// A column of the table of rows.
struct Column {
    title: String,
    cell: Box<CellOf>,
    /// Columns of the lowest rank are left out first where the table is too wide.
    rank: usize,
}

impl Column {
    fn new(
        title: &str,
        rank: usize,
        cell: impl Fn(&RowSummary, &RowAnalysis) -> String + 'static,
    ) -> Self {
        Self {
            title: title.to_owned(),
            cell: Box::new(cell),
            rank,
        }
    }
}

/// Returns the columns behind the row's name, in their order. Seconds and dollars have one
/// basis: to the target accuracy, beside those of the whole trial, or per epoch.
fn columns(target: Option<f64>) -> Vec<Column> {
    let number = |value: Option<f64>| format::or_unknown(value, format::number);
    let basis = target.map(|target| format!(" to {}", format::goal(target)));
    let basis = basis.as_deref().unwrap_or("/epoch");
    let mut columns = vec![
        Column::new(&format!("s{basis}"), 10, |row, analysis| {
            format::estimate(Spent::of(row, analysis).seconds)
        }),
        Column::new(&format!("${basis}"), 10, |row, analysis| {
            marked(row, Spent::of(row, analysis).usd, format::number)
        }),
        Column::new(&format!("paper's ${basis}"), 4, move |row, analysis| {
            number(Spent::of(row, analysis).paper_usd)
        }),
    ];
    if target.is_some() {
        columns.push(Column::new("total s", 5, move |row, analysis| {
            number(Spent::of(row, analysis).total_s)
        }));
        columns.push(Column::new("total $", 5, |row, _| {
            marked(row, row.cost_full_usd, format::number)
        }));
    } else {
        columns.push(Column::new("compute s", 5, move |row, _| {
            number(row.stage_seconds.compute_gradients)
        }));
        columns.push(Column::new("sync s", 6, move |row, _| {
            number(row.stage_seconds.synchronise)
        }));
    }
    columns.extend([
        Column::new("exchanged", 7, |row, _| {
            format::or_unknown(row.traffic.bytes(), format::bytes)
        }),
        Column::new("loss", 2, move |row, _| match row.diverged_trials {
            0 => number(row.train_loss),
            _ => DIVERGED.to_owned(),
        }),
        Column::new("accuracy", 8, |row, _| {
            format::or_unknown(row.accuracy, format::percent)
        }),
        Column::new("replicas", 3, |row, _| match row.replicas_identical {
            Some(true) => "identical".into(),
            Some(false) => "differ".into(),
            None => UNKNOWN.into(),
        }),
        Column::new("trials", 9, |row, _| row.outcomes()),
    ]);
    columns
}

/// Returns the answer, a table of the rows that is no wider than `width`, and a
/// line for each row that is infeasible and each verdict that is not as expected.
pub fn terminal_table(analysis: &Analysis, width: Option<usize>) -> String {
    let summary = &analysis.summary;
    let rows = &summary.rows;
    let mut text = answer(&summary.answer);
    let (table, left_out) = rows_table(analysis, width);
    text.push_str(&table);
    for (name, row) in names(rows).into_iter().zip(rows) {
        if let Some(why) = &row.infeasible {
            text.push_str(&format!("\n{name}: {why}"));
        }
    }
    // What the figures are, and what was compared with them.
    let misses = analysis.misses.as_ref();
    let has_findings = !summary.answer.findings.is_empty();
    let marks = legend([table.as_str()].into_iter());
    let notes = marks.into_iter().map(Some).chain([
        left_out,
        misses.map(|misses| wrapped("", &format!("Every figure is simulated. {misses}"))),
        (summary
            .verdicts
            .iter()
            .any(|verdict| verdict.kind.is_of_paper()))
        .then(|| summary.agreements.sentence()),
        summary.counts.checks_hold().filter(|_| !has_findings),
        Some(excluded(&summary.excluded)).filter(|text| !text.is_empty()),
    ]);
    for note in notes.flatten() {
        text.push_str(&format!("\n{note}"));
    }
    let unexpected = summary.verdicts.iter().filter(|verdict| !verdict.holds());
    for verdict in unexpected {
        let row = verdict.row.as_deref().unwrap_or("no row");
        text.push_str(&format!(
            "\n{}: {} ({row}): {}",
            verdict.verdict, verdict.claim, verdict.reason
        ));
    }
    text
}

/// Returns the answer, a sentence a line, with an empty line behind it.
pub(super) fn answer(answer: &Answer) -> String {
    let sentences = answer.sentences().into_iter();
    let mut text: String = sentences
        .map(|sentence| format!("{}\n", wrapped("", sentence)))
        .collect();
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// Returns warnings in three lines at most: the rest is counted, and `place` says
/// where it is.
pub fn terminal_warnings(warnings: &[Warning], place: &str) -> Vec<String> {
    let shown = match warnings.len() {
        few if few <= WARNING_LINES => few,
        _ => WARNING_LINES - 1,
    };
    let mut lines: Vec<String> = (warnings.iter().take(shown))
        .map(|warning| format!("warning: {}", warning.line()))
        .collect();
    let rest = warnings.len() - shown;
    if rest > 0 {
        let all = warnings_title(warnings);
        lines.push(format!("warning: {rest} more kinds ({all}): {place}"));
    }
    lines
}

/// Returns the table, and which columns it leaves out to fit.
fn rows_table(analysis: &Analysis, width: Option<usize>) -> (String, Option<String>) {
    let (rows, target) = (&analysis.summary.rows, analysis.summary.target_accuracy);
    let names = names(rows);
    let mut columns = columns(target);
    if fidelity_differs(rows) {
        columns.insert(0, Column::new("fidelity", 1, |row, _| row.described()));
    }
    // A column without a figure says nothing, and one of chance says less.
    let lines = || rows.iter().zip(&analysis.rows);
    let is_known = |column: &Column| lines().any(|(row, of)| (column.cell)(row, of) != UNKNOWN);
    let is_chance = |column: &Column| ["loss", "accuracy"].contains(&column.title.as_str());
    let is_short = is_too_short(rows, target);
    columns
        .retain(|column| (rows.is_empty() || is_known(column)) && !(is_short && is_chance(column)));
    let mut left_out: Vec<String> = Vec::new();
    loop {
        let table = table(lines(), &names, &columns);
        let widest = table.lines().map(|line| line.chars().count()).max();
        let fits = width.is_none_or(|width| widest.unwrap_or(0) <= width);
        if fits || columns.len() < 3 {
            let note = (!left_out.is_empty()).then(|| {
                let names = left_out.join(", ");
                format!("--wide also shows {names}")
            });
            return (table, note);
        }
        // Columns that belong together have one rank.
        let least = columns.iter().map(|column| column.rank).min();
        let (out, kept): (Vec<Column>, Vec<Column>) = columns
            .into_iter()
            .partition(|column| Some(column.rank) == least);
        left_out.extend(out.into_iter().map(|column| column.title));
        columns = kept;
    }
}

fn table<'r>(
    rows: impl Iterator<Item = (&'r RowSummary, &'r RowAnalysis)>,
    names: &[String],
    columns: &[Column],
) -> String {
    let titles = columns.iter().map(|column| column.title.clone());
    let mut lines: Vec<Vec<String>> =
        vec![std::iter::once("system".to_owned()).chain(titles).collect()];
    for (name, (row, analysis)) in names.iter().zip(rows) {
        let cells = columns.iter().map(|column| (column.cell)(row, analysis));
        lines.push(std::iter::once(name.clone()).chain(cells).collect());
    }
    // A mark stands behind a column of figures, so that their digits line up.
    for column in 1..=columns.len() {
        if lines.iter().any(|line| line[column].ends_with(MINIMUM)) {
            let unmarked = lines
                .iter_mut()
                .filter(|line| !line[column].ends_with(MINIMUM));
            unmarked.for_each(|line| line[column].push_str("  "));
        }
    }
    let text = columns
        .first()
        .is_some_and(|first| first.title == "fidelity");
    aligned(&lines, 1 + usize::from(text))
}

/// Returns the answer, a plain-text table of the items with their verdicts by kind,
/// and a line for each item that is not done and each verdict that is not as
/// expected.
pub fn terminal_overview(overview: &Overview) -> String {
    let mut text = answer(&overview.answer);
    text.push_str(&items_table(overview));
    if let Some(record) = &overview.record {
        text.push_str(&format!("\n{}\n", record.text()));
    }
    // The signs' meaning, items that are not done, unexpected verdicts.
    let legend = occurring(&overview.counts)
        .into_iter()
        .map(|kind| format!("{} {kind}", class_and_sign(kind).1));
    let legend: Vec<String> = legend.collect();
    text.push_str(&format!("\n{}", legend.join("  ")));
    text.push_str(&format!("\n{}", agreements(overview)));
    for misses in overview.misses() {
        text.push_str(&format!("\n{}", wrapped("", &misses)));
    }
    for (origin, counts) in by_origin(overview) {
        for (name, counts) in counts.named() {
            let of_kind: Vec<String> = (counts.iter())
                .map(|(kind, count)| format!("{count} {kind}"))
                .collect();
            if !of_kind.is_empty() {
                let origin = origin.as_str();
                text.push_str(&format!("\n{origin}, {name}: {}", of_kind.join(", ")));
            }
        }
    }
    for item in overview.asked_for() {
        if let Some(why) = &item.why {
            text.push_str(&format!("\n{} ({}): {why}", item.id, item.state.as_str()));
        }
        for claim in item.claims.iter().filter(|claim| claim.unexpected) {
            let verdict = &claim.verdict;
            let expected = verdict
                .expect
                .map_or_else(String::new, |kind| format!(", expected {kind}"));
            text.push_str(&format!(
                "\n{}: {}{expected}: {}: {}",
                item.id, verdict.verdict, verdict.claim, verdict.reason
            ));
        }
    }
    text
}

/// Returns a line per item, and sums of those of one origin.
fn items_table(overview: &Overview) -> String {
    let kinds = occurring(&overview.counts);
    let signs = kinds.iter().map(|kind| class_and_sign(*kind).1.to_owned());
    let mut lines: Vec<Vec<String>> = vec![
        (["item", "state"].map(str::to_owned).into_iter())
            .chain(signs)
            .chain(["trials".to_owned()])
            .collect(),
    ];
    for item in &overview.items {
        let state = match (&item.run, item.platform.as_deref()) {
            (Some(_), Some(platform)) => format!("{}, {platform}", item.state.as_str()),
            _ => item.state.as_str().to_owned(),
        };
        let mut line = vec![item.id.clone(), state];
        line.extend(by_kind(&item.counts, &kinds));
        line.push(match item.failed_trials {
            0 => item.trials.to_string(),
            failed => format!("{}, {failed} failed", item.trials),
        });
        lines.push(line);
    }
    for (origin, counts) in by_origin(overview) {
        let mut all = vec![format!("all {}", origin.as_str()), String::new()];
        all.extend(by_kind(&counts, &kinds));
        let items = overview.items.iter().filter(|item| item.origin() == origin);
        let trials: usize = items.map(|item| item.trials).sum();
        all.push(trials.to_string());
        lines.push(all);
    }
    aligned(&lines, 2)
}

/// Returns the kinds of verdict that occur.
fn occurring(counts: &Counts) -> Vec<VerdictKind> {
    let occurs = |kind: &VerdictKind| count(counts, *kind) > 0;
    VerdictKind::ALL.into_iter().filter(occurs).collect()
}

fn count(counts: &Counts, kind: VerdictKind) -> usize {
    let of = |counts: &BTreeMap<VerdictKind, usize>| counts.get(&kind).copied().unwrap_or(0);
    counts.named().map(|(_, counts)| of(counts)).iter().sum()
}

/// Returns the number of verdicts of each kind, on claims of every kind; nothing
/// where there are none.
fn by_kind(counts: &Counts, kinds: &[VerdictKind]) -> Vec<String> {
    let text = |kind: &VerdictKind| match count(counts, *kind) {
        0 => String::new(),
        count => count.to_string(),
    };
    kinds.iter().map(text).collect()
}

/// Aligns the first columns, `texts` of them, to the left and figures to the right.
fn aligned(lines: &[Vec<String>], texts: usize) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            lines
                .iter()
                .map(|line| line[column].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let pad = |column: usize, cell: &str| {
        let fill = " ".repeat(widths[column] - cell.chars().count());
        if column < texts {
            format!("{cell}{fill}")
        } else {
            format!("{fill}{cell}")
        }
    };
    lines
        .iter()
        .map(|line| {
            let cells = line
                .iter()
                .enumerate()
                .map(|(column, cell)| pad(column, cell));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(text: &str) -> Warning {
        Warning {
            text: text.to_owned(),
            rows: vec!["a".to_owned()],
            times: 2,
        }
    }

    #[test]
    fn warnings_take_three_lines_at_most() {
        let warnings: Vec<Warning> = ["w", "x", "y", "z"].map(warning).into();
        assert_eq!(terminal_warnings(&warnings[..3], "p").len(), 3);
        let lines = terminal_warnings(&warnings, "p");
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[2], "warning: 2 more kinds (8 warnings of 4 kinds): p");
        assert!(terminal_warnings(&[], "p").is_empty());
    }
}
