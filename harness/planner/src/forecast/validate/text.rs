//! A validation for people.

use epochcost_spec::format::number;

use super::cells::{FIGURES, WALL};
use super::score::{Compared, Scored, word};
use super::{Set, Validated};
use crate::columns::{Column, table};

/// A form of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For a terminal.
    Plain,
    /// Markdown.
    Markdown,
}

impl Form {
    fn table<T, const N: usize>(self, items: &[T], columns: [Column<'_, T, String>; N]) -> String {
        if self == Self::Plain {
            return table(items, columns);
        }
        let line = |cells: [String; N]| format!("| {} |", cells.join(" | "));
        let heading = columns.map(|(heading, _)| heading.to_owned());
        let rows = items.iter().map(|item| columns.map(|(_, cell)| cell(item)));
        let all = [heading, [(); N].map(|()| "---".to_owned())]
            .into_iter()
            .chain(rows);
        all.map(line).collect::<Vec<_>>().join("\n")
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
        let over = over.map(|(title, lines)| form.section(title, vec![over_sets(form, &lines)]));
        sets.chain(over).collect::<Vec<_>>().join("\n\n")
    }

    /// Returns the scores over sets under their title; `None` of a single set.
    fn headlines(&self) -> Option<(&'static str, Vec<OverSets>)> {
        let lines = self.headlines.iter().map(|line| {
            let whose = if line.gave_a_constant {
                "who gave constants"
            } else {
                "who gave none"
            };
            OverSets {
                of: format!("{}, authors {whose}", line.scope.title()),
                sets: line.sets.to_string(),
                cells: line.cells,
                figures: [line.median_error, line.bias, line.coverage, line.width],
            }
        });
        (self.sets.len() > 1).then(|| ("Judged cells, each set counts once", lines.collect()))
    }

    /// Returns the scores of each author from the others alone, under their title.
    fn authors(&self) -> Option<(&'static str, Vec<OverSets>)> {
        let lines = self.authors.iter().map(|author| {
            let scored = &author.scored;
            let [error, bias] = [scored.score.median_error, scored.score.bias].map(Some);
            OverSets {
                of: format!("{}, {}", author.author, author.scope.title()),
                sets: "-".to_owned(),
                cells: scored.cells,
                figures: [error, bias, scored.coverage, scored.width],
            }
        });
        let title = "Every author from the other authors alone";
        (!self.authors.is_empty()).then(|| (title, lines.collect()))
    }
}

/// A line of scores over several sets.
struct OverSets {
    of: String,
    sets: String,
    cells: usize,
    /// Error, bias, share covered, width.
    figures: [Option<f64>; 4],
}

fn over_sets(form: Form, lines: &[OverSets]) -> String {
    let figure = |line: &OverSets, place: usize, text: fn(f64) -> String| {
        line.figures[place].map_or_else(|| "-".to_owned(), text)
    };
    form.table(
        lines,
        [
            ("", &|line| line.of.clone()),
            ("sets", &|line| line.sets.clone()),
            ("cells", &|line| line.cells.to_string()),
            ("median error", &|line| figure(line, 0, percent)),
            ("bias", &|line| figure(line, 1, signed)),
            ("covered", &|line| figure(line, 2, percent)),
            ("width", &|line| figure(line, 3, hundredths)),
        ],
    )
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
        let mut parts = vec![about, self.stands_on.clone(), scores(form, &self.scores())];
        if self.figures.is_empty() {
            parts.push(self.floor_text());
        }
        if !self.targets.is_empty() {
            let value =
                |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.3}"));
            parts.push(form.table(
                &self.targets,
                [
                    ("target", &|target| target.metric.clone()),
                    ("limit", &|target| target.limit.clone()),
                    ("value", &|target| value(target.value)),
                    ("verdict", &|target| word(&target.verdict)),
                    ("expected", &|target| word(&target.expect)),
                ],
            ));
        }
        // A run is short enough to show every wall time.
        let is_shown = |known: &&Compared| {
            cells || !self.figures.is_empty() && known.statistic == FIGURES[WALL]
        };
        let format = match self.figures.as_slice() {
            [] => |value: f64| format!("{value:.4}"),
            _ => number,
        };
        let shown: Vec<&Compared> = self.cells.iter().filter(is_shown).collect();
        if !shown.is_empty() {
            let interval = |cell: &Compared| match (cell.low, cell.high) {
                (Some(low), Some(high)) => format!("{} to {}", format(low), format(high)),
                _ => "-".to_owned(),
            };
            parts.push(form.table(
                &shown,
                [
                    ("series", &|cell| cell.series.clone()),
                    ("setting", &|cell| cell.setting.clone()),
                    ("figure", &|cell| cell.statistic.clone()),
                    ("measured", &|cell| format(cell.measured)),
                    ("predicted", &|cell| format(cell.predicted)),
                    ("ratio", &|cell| format!("{:.2}", cell.ratio())),
                    ("interval", &|cell| interval(cell)),
                    ("covered", &|cell| covered(cell).to_owned()),
                ],
            ));
        }
        parts.extend(self.notes.iter().cloned());
        form.section(&title, parts)
    }

    fn floor_text(&self) -> String {
        match self.floor.map(percent) {
            Some(floor) => format!(
                "other series of the same setting predict a judged cell with a median error of {floor}"
            ),
            None => "no setting was measured twice: the error that no model can avoid is not known"
                .into(),
        }
    }

    /// Returns the names of scores with them.
    fn scores(&self) -> Vec<(String, Scored)> {
        if !self.figures.is_empty() {
            let figures = self.figures.iter();
            return figures
                .map(|score| (score.figure.to_owned(), score.scored))
                .collect();
        }
        let fitted = self
            .fitted
            .iter()
            .map(|scored| ("series of the fit".to_owned(), *scored));
        let judged = [("judged".to_owned(), self.judged)];
        let without = self.without.iter().map(|without| {
            let scored = Scored {
                cells: self.judged.cells,
                score: without.judged,
                coverage: None,
                width: None,
            };
            (format!("judged, without {}", without.refinement), scored)
        });
        fitted.chain(judged).chain(without).collect()
    }
}

fn covered(cell: &Compared) -> &'static str {
    match (cell.is_fitted, cell.is_covered()) {
        (true, _) => "fit",
        (false, Some(true)) => "yes",
        (false, Some(false)) => "no",
        (false, None) => "-",
    }
}

fn scores(form: Form, scores: &[(String, Scored)]) -> String {
    let or_none = |figure: Option<f64>, text: fn(f64) -> String| figure.map_or("-".into(), text);
    form.table(
        scores,
        [
            ("", &|(name, _)| name.clone()),
            ("cells", &|(_, of)| of.cells.to_string()),
            ("MAPE", &|(_, of)| percent(of.score.mape)),
            ("median error", &|(_, of)| percent(of.score.median_error)),
            ("bias", &|(_, of)| signed(of.score.bias)),
            ("≤ 10 %", &|(_, of)| percent(of.score.within_10)),
            ("≤ 25 %", &|(_, of)| percent(of.score.within_25)),
            ("≤ 50 %", &|(_, of)| percent(of.score.within_50)),
            ("covered", &|(_, of)| or_none(of.coverage, percent)),
            ("width", &|(_, of)| or_none(of.width, hundredths)),
        ],
    )
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn hundredths(width: f64) -> String {
    format!("{width:.2}")
}

fn signed(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}
