//! The table that ends a run on the terminal.

use std::collections::BTreeMap;

use super::names::names;
use super::view::class_and_sign;
use crate::analysis::Analysis;
use crate::analysis::counts::Counts;
use crate::analysis::overview::Overview;
use crate::analysis::summary::RowSummary;
use crate::claims::VerdictKind;
use crate::format;

/// A column: its heading, and its cell of a row.
type Column = (&'static str, fn(&RowSummary) -> String);

const COLUMNS: [Column; 9] = [
    ("s/epoch", |row| format::estimate(row.seconds_per_epoch)),
    ("compute s", |row| {
        format::or_unknown(row.stage_seconds.compute_gradients, format::number)
    }),
    ("sync s", |row| {
        format::or_unknown(row.stage_seconds.synchronise, format::number)
    }),
    ("$ paper", |row| {
        format::or_unknown(row.cost_paper_usd, format::number)
    }),
    ("$ full", |row| {
        format::or_unknown(row.cost_full_usd, format::number)
    }),
    ("exchanged", |row| {
        format::or_unknown(row.traffic.bytes(), format::bytes)
    }),
    ("loss", |row| {
        format::or_unknown(row.train_loss, format::number)
    }),
    ("accuracy", |row| {
        format::or_unknown(row.accuracy, format::percent)
    }),
    ("replicas", |row| match row.replicas_identical {
        Some(true) => "identical".into(),
        Some(false) => "differ".into(),
        None => format::UNKNOWN.into(),
    }),
];

/// Returns a plain-text table of the rows, and a line for each row that is
/// infeasible and each verdict that is not as expected.
pub fn terminal_table(analysis: &Analysis) -> String {
    let rows = &analysis.summary.rows;
    // A line per row.
    let mut lines: Vec<Vec<String>> = vec![heading()];
    for (name, row) in names(rows).into_iter().zip(rows) {
        let mut line = vec![name, row.fidelity.as_str().to_owned()];
        line.extend(COLUMNS.iter().map(|(_, cell)| cell(row)));
        line.push(match (row.trials, row.failed_trials, &row.infeasible) {
            (_, 0, Some(_)) => "infeasible".into(),
            (trials, 0, None) => trials.to_string(),
            (trials, failed, _) => format!("{trials}, {failed} failed"),
        });
        lines.push(line);
    }
    let mut text = aligned(&lines);
    for (name, row) in names(rows).into_iter().zip(rows) {
        if let Some(why) = &row.infeasible {
            text.push_str(&format!("\n{name}: {why}"));
        }
    }
    if let Some(profile) = &analysis.summary.profile {
        text.push_str(&format!("\nevery figure is simulated, on {profile}"));
    }
    let summary = &analysis.summary;
    if summary
        .verdicts
        .iter()
        .any(|verdict| verdict.kind.is_of_paper())
    {
        text.push_str(&format!("\n{}", summary.agreements.sentence()));
    }
    if let Some(checks) = summary.counts.checks_hold() {
        text.push_str(&format!("\n{checks}"));
    }
    for verdict in analysis
        .summary
        .verdicts
        .iter()
        .filter(|verdict| !verdict.holds())
    {
        let row = verdict.row.as_deref().unwrap_or("no row");
        text.push_str(&format!(
            "\n{}: {} ({row}): {}",
            verdict.verdict, verdict.claim, verdict.reason
        ));
    }
    text
}

/// Returns a plain-text table of the items with their verdicts by kind, and a
/// line for each item that is not done and each verdict that is not as
/// expected.
pub fn terminal_overview(overview: &Overview) -> String {
    // A line per item, and their sum.
    let kinds = VerdictKind::ALL.map(|kind| class_and_sign(kind).1.to_owned());
    let mut lines: Vec<Vec<String>> = vec![
        (["item", "state"].map(str::to_owned).into_iter())
            .chain(kinds)
            .chain(["trials".to_owned()])
            .collect(),
    ];
    for item in &overview.items {
        let state = match (&item.run, item.platform.as_deref()) {
            (Some(_), Some(platform)) => format!("{}, {platform}", item.state.as_str()),
            _ => item.state.as_str().to_owned(),
        };
        let mut line = vec![item.id.clone(), state];
        line.extend(by_kind(&item.counts));
        line.push(match item.failed_trials {
            0 => item.trials.to_string(),
            failed => format!("{}, {failed} failed", item.trials),
        });
        lines.push(line);
    }
    let mut all = vec!["all".to_owned(), String::new()];
    all.extend(by_kind(&overview.counts));
    let trials: usize = overview.items.iter().map(|item| item.trials).sum();
    all.push(trials.to_string());
    lines.push(all);
    let mut text = aligned(&lines);
    if let Some(record) = &overview.record {
        text.push_str(&format!("\n{}\n", record.text()));
    }
    // The signs' meaning, items that are not done, unexpected verdicts.
    let legend = VerdictKind::ALL.map(|kind| format!("{} {kind}", class_and_sign(kind).1));
    text.push_str(&format!("\n{}", legend.join("  ")));
    text.push_str(&format!("\n{}", overview.agreements.sentence()));
    for (name, counts) in overview.counts.named() {
        let of_kind: Vec<String> = (counts.iter())
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        if !of_kind.is_empty() {
            text.push_str(&format!("\n{name}: {}", of_kind.join(", ")));
        }
    }
    for item in &overview.items {
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

/// Returns the number of verdicts of each kind, on claims of every kind; nothing
/// where there are none.
fn by_kind(counts: &Counts) -> [String; VerdictKind::ALL.len()] {
    VerdictKind::ALL.map(|kind| {
        let of = |counts: &BTreeMap<VerdictKind, usize>| counts.get(&kind).copied().unwrap_or(0);
        match counts
            .named()
            .map(|(_, counts)| of(counts))
            .iter()
            .sum::<usize>()
        {
            0 => String::new(),
            count => count.to_string(),
        }
    })
}

fn heading() -> Vec<String> {
    let names = COLUMNS.iter().map(|(name, _)| *name);
    ["system", "fidelity"]
        .into_iter()
        .chain(names)
        .chain(["trials"])
        .map(str::to_owned)
        .collect()
}

/// Aligns text to the left and figures to the right.
fn aligned(lines: &[Vec<String>]) -> String {
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
        if column < 2 {
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
