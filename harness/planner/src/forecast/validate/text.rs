//! A validation for people.

use epochcost_spec::format::number;
use epochcost_spec::ui::table;

use super::cells::{FIGURES, WALL};
use super::score::{Compared, Score, Scored, word};
use super::{Set, Validated};

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

/// A form of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For a terminal.
    Plain,
    /// Markdown.
    Markdown,
}

impl Form {
    fn table<const N: usize>(self, heading: [&str; N], rows: &[[String; N]]) -> String {
        if self == Self::Plain {
            return table(heading, rows);
        }
        let line = |cells: Vec<&str>| format!("| {} |", cells.join(" | "));
        let rows = (rows.iter()).map(|row| line(row.iter().map(String::as_str).collect()));
        let heading = [line(heading.to_vec()), line(vec!["---"; N])];
        heading
            .into_iter()
            .chain(rows)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Returns a title with paragraphs below it.
    fn section(self, title: &str, parts: Vec<String>) -> String {
        let (head, gap) = match self {
            Self::Plain => ("", "\n"),
            Self::Markdown => ("## ", "\n\n"),
        };
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        let all = std::iter::once(format!("{head}{title}")).chain(parts);
        all.collect::<Vec<_>>().join(gap)
    }
}

impl Validated {
    /// Returns the comparison; with `cells`, every cell.
    pub fn shown(&self, form: Form, cells: bool) -> String {
        let sets = self.sets.iter().map(|set| set.shown(form, cells));
        let over = [self.headlines(), self.authors()];
        let over = over.into_iter().flatten();
        let over =
            over.map(|(title, rows)| form.section(title, vec![form.table(OVER_SETS, &rows)]));
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
    fn shown(&self, form: Form, cells: bool) -> String {
        let (title, about) = match form {
            Form::Plain => (
                format!("{}: {}", self.name, self.description),
                String::new(),
            ),
            Form::Markdown => (
                self.name.clone(),
                format!("{}. {}", self.description, self.about),
            ),
        };
        let mut parts = vec![
            about,
            self.stands_on.clone(),
            form.table(SCORES, &self.scores()),
        ];
        if self.figures.is_empty() {
            parts.push(self.floor_text());
        }
        if !self.targets.is_empty() {
            parts.push(form.table(TARGETS, &self.verdicts()));
        }
        // A run is short enough to show every wall time.
        let is_shown = |known: &&Compared| {
            cells || !self.figures.is_empty() && known.statistic == FIGURES[WALL]
        };
        let format = match self.figures.as_slice() {
            [] => |value: f64| format!("{value:.4}"),
            _ => number,
        };
        let shown = self.cells.iter().filter(is_shown);
        let shown: Vec<[String; 8]> = shown.map(|known| cell(known, format)).collect();
        if !shown.is_empty() {
            parts.push(form.table(CELLS, &shown));
        }
        parts.extend(self.notes.iter().cloned());
        form.section(&title, parts)
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
        if !self.figures.is_empty() {
            let figures = self.figures.iter();
            return figures
                .map(|score| whole(score.figure, &score.scored))
                .collect();
        }
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
        let targets = self.targets.iter().map(|target| {
            [
                target.metric.clone(),
                target.limit.clone(),
                target
                    .value
                    .map_or("-".into(), |value| format!("{value:.3}")),
                word(&target.verdict),
                word(&target.expect),
            ]
        });
        targets.collect()
    }
}

fn cell(cell: &Compared, format: fn(f64) -> String) -> [String; 8] {
    let interval = match (cell.low, cell.high) {
        (Some(low), Some(high)) => format!("{} to {}", format(low), format(high)),
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
        format(cell.measured),
        format(cell.predicted),
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
