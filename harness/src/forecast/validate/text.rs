//! A validation for people.

use super::score::{Compared, Expected, Score, Scored};
use super::{Set, Validated};
use crate::ui::table;

/// Columns of scores.
const SCORES: [&str; 10] = [
    "",
    "cells",
    "MAPE",
    "median error",
    "bias",
    "≤ 10 %",
    "≤ 25 %",
    "≤ 50 %",
    "covered",
    "width",
];

/// Columns of scores over several sets.
const OVER_SETS: [&str; 7] = [
    "",
    "sets",
    "cells",
    "median error",
    "bias",
    "covered",
    "width",
];

/// Columns of targets.
const TARGETS: [&str; 5] = ["target", "limit", "value", "verdict", "expected"];

/// Columns of cells.
const CELLS: [&str; 8] = [
    "series",
    "setting",
    "figure",
    "measured",
    "predicted",
    "ratio",
    "interval",
    "covered",
];

impl Validated {
    /// Returns the comparison as plain text; with `cells`, every cell.
    pub fn text(&self, cells: bool) -> String {
        let sets = self.sets.iter().map(|set| {
            let mut parts = vec![
                format!("{}: {}", set.name, set.description),
                set.stands_on(),
                table(SCORES, &set.scores()),
                set.floor_text(),
                table(TARGETS, &set.verdicts()),
            ];
            if cells {
                parts.push(table(CELLS, &set.cells()));
            }
            parts.join("\n")
        });
        let over = [self.headlines(), self.authors()];
        let over = over.into_iter().flatten();
        let over = over.map(|(title, rows)| format!("{title}\n{}", table(OVER_SETS, &rows)));
        sets.chain(over).collect::<Vec<_>>().join("\n\n")
    }

    /// Returns the scores over sets under their title; `None` of a single set.
    fn headlines(&self) -> Option<(&'static str, Vec<[String; 7]>)> {
        let rows = self.headlines.iter().map(|line| {
            let whose = if line.gave_a_constant {
                "who gave constants"
            } else {
                "who gave none"
            };
            let of = format!("{}, authors {whose}", line.scope.title());
            let figures = [line.median_error, line.bias, line.coverage, line.width];
            over_sets(of, line.sets.to_string(), line.cells, figures)
        });
        (self.sets.len() > 1).then(|| ("Judged cells, each set counts once", rows.collect()))
    }

    /// Returns the scores of each author from the others alone, under their title.
    fn authors(&self) -> Option<(&'static str, Vec<[String; 7]>)> {
        let rows = self.authors.iter().map(|author| {
            let of = format!("{}, {}", author.author, author.scope.title());
            let scored = &author.scored;
            let error = Some(scored.score.median_error);
            let figures = [
                error,
                Some(scored.score.bias),
                scored.coverage,
                scored.width,
            ];
            over_sets(of, "-".to_owned(), scored.cells, figures)
        });
        let title = "Every author from the other authors alone";
        (!self.authors.is_empty()).then(|| (title, rows.collect()))
    }

    /// Returns the comparison as Markdown; with `cells`, every cell.
    pub fn markdown(&self, cells: bool) -> String {
        let sets = self.sets.iter().map(|set| {
            let mut parts = vec![
                format!("## {}\n\n{}. {}", set.name, set.description, set.about),
                set.stands_on(),
                markdown(SCORES, &set.scores()),
                set.floor_text(),
                markdown(TARGETS, &set.verdicts()),
            ];
            if cells {
                parts.push(markdown(CELLS, &set.cells()));
            }
            parts.join("\n\n")
        });
        let over = [self.headlines(), self.authors()];
        let over = over.into_iter().flatten();
        let over =
            over.map(|(title, rows)| format!("## {title}\n\n{}", markdown(OVER_SETS, &rows)));
        sets.chain(over).collect::<Vec<_>>().join("\n\n")
    }
}

/// Returns a line of scores over several sets: error, bias, share covered, width.
fn over_sets(of: String, sets: String, cells: usize, figures: [Option<f64>; 4]) -> [String; 7] {
    let [error, bias, coverage, width] = figures;
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        of,
        sets,
        cells.to_string(),
        or_none(error.map(percent)),
        or_none(bias.map(|bias| format!("{:+.1} %", bias * 100.0))),
        or_none(coverage.map(percent)),
        or_none(width.map(|width| format!("{width:.2}"))),
    ]
}

impl Set {
    fn stands_on(&self) -> String {
        let sources = self.sources.iter().map(|source| {
            format!(
                "{} @{} ({}), {}",
                source.repository, source.commit, source.licence, source.path
            )
        });
        let split = if self.is_held_out {
            "held out whole"
        } else {
            "split by series"
        };
        let sources = sources.collect::<Vec<_>>().join("; ");
        format!("profile {}; {split}; {sources}", self.profile)
    }

    fn floor_text(&self) -> String {
        self.floor.map_or_else(
            || "no setting was measured twice: the error that no model can avoid is not known".into(),
            |floor| {
                format!(
                    "other series of the same setting predict a judged cell with a median error of {}",
                    percent(floor)
                )
            },
        )
    }

    fn scores(&self) -> Vec<[String; 10]> {
        let fitted = self
            .fitted
            .iter()
            .map(|scored| whole("series of the fit", scored));
        let judged = [whole("judged", &self.judged)];
        let without = self.without.iter().map(|without| {
            let name = format!("judged, without {}", without.refinement);
            line(&name, self.judged.cells, &without.judged, None, None)
        });
        fitted.chain(judged).chain(without).collect()
    }

    fn verdicts(&self) -> Vec<[String; 5]> {
        let word = |expected: Expected| match expected {
            Expected::Holds => "holds".to_owned(),
            Expected::Fails => "fails".to_owned(),
        };
        let targets = self.targets.iter().map(|target| {
            [
                target.metric.to_owned(),
                target.limit.clone(),
                target
                    .value
                    .map_or("-".into(), |value| format!("{value:.3}")),
                word(target.verdict),
                word(target.expect),
            ]
        });
        targets.collect()
    }

    fn cells(&self) -> Vec<[String; 8]> {
        self.cells.iter().map(cell).collect()
    }
}

fn cell(cell: &Compared) -> [String; 8] {
    let interval = match (cell.low, cell.high) {
        (Some(low), Some(high)) => format!("{low:.4} to {high:.4}"),
        _ => "-".to_owned(),
    };
    let covered = match (cell.is_fitted, cell.is_covered()) {
        (true, _) => "fit",
        (false, Some(true)) => "yes",
        (false, Some(false)) => "no",
        (false, None) => "-",
    };
    [
        cell.series.clone(),
        cell.setting.clone(),
        cell.statistic.clone(),
        format!("{:.4}", cell.measured),
        format!("{:.4}", cell.predicted),
        format!("{:.2}", cell.ratio()),
        interval,
        covered.to_owned(),
    ]
}

fn whole(name: &str, scored: &Scored) -> [String; 10] {
    line(
        name,
        scored.cells,
        &scored.score,
        scored.coverage,
        scored.width,
    )
}

fn line(
    name: &str,
    cells: usize,
    score: &Score,
    coverage: Option<f64>,
    width: Option<f64>,
) -> [String; 10] {
    [
        name.to_owned(),
        cells.to_string(),
        percent(score.mape),
        percent(score.median_error),
        format!("{:+.1} %", score.bias * 100.0),
        percent(score.within_10),
        percent(score.within_25),
        percent(score.within_50),
        coverage.map_or("-".into(), percent),
        width.map_or("-".into(), |width| format!("{width:.2}")),
    ]
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn markdown<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let line = |cells: Vec<&str>| format!("| {} |", cells.join(" | "));
    let mut lines = vec![line(heading.to_vec()), line(vec!["---"; N])];
    lines.extend(
        rows.iter()
            .map(|row| line(row.iter().map(String::as_str).collect())),
    );
    lines.join("\n")
}
