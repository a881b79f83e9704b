//! What came of one instance of a statement.

use serde::Serialize;

use crate::format;
use crate::formula::{Compared, FormulaError, Holds, Input, Instance, value_at};
use crate::published::{Kind, Note, Paper, PublishedError, Statement, When};

/// What came of a statement, or of one instance of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The paper's own figures support it.
    Agrees,
    /// They contradict it.
    Differs,
    /// The paper does not print what it would be told from.
    CannotBeChecked,
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// The number, in its own unit.
    pub value: f64,
    /// Unit; empty for numbers without one and for products.
    pub unit: String,
    /// The row that a function over a key chose.
    pub row: Option<String>,
}

/// Two numbers, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The first.
    pub left: Side,
    /// `<`, `<=`, `>`, `>=`, `=` or `~`.
    pub op: &'static str,
    /// The second.
    pub right: Side,
    /// The left one over the right one, in one unit.
    pub ratio: Option<f64>,
    /// Whether it is true; null if it is judged in neither reading of a time.
    pub holds: Option<bool>,
    /// Of `=` and `~`: whether rounding of the printed digits explains the whole difference.
    pub within_rounding: Option<bool>,
}

/// One number of those that a formula reads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Source {
    /// Column with the values of its keys, or name.
    pub name: String,
    /// Value.
    pub value: f64,
    /// `file:line:column` of a published figure, the column by its name, or where else it
    /// comes from.
    pub place: String,
}

/// One instance of a statement, judged by the paper's own figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The paper, by the name of its folder.
    pub paper: String,
    /// Authors and year.
    #[serde(skip)]
    pub cite: String,
    /// Table, figure or section.
    pub place: String,
    /// The statement's name.
    pub statement: String,
    /// What the statement is.
    pub kind: Kind,
    /// Rank of the sentence; 0 for what is no sentence of the paper.
    pub weight: u8,
    /// What it says.
    pub says: String,
    /// Its line: `file:line:column`, the column by its name.
    pub source: String,
    /// The formula, if there is one.
    pub formula: Option<String>,
    /// Values of the free keys.
    pub row: String,
    /// What is compared: one, but for `or`; none without a formula.
    pub compared: Vec<Comparison>,
    /// The numbers that were read.
    pub inputs: Vec<Source>,
    /// What came of it.
    pub outcome: Outcome,
    /// Why it cannot be checked, or not all of it.
    pub why: Option<String>,
    /// Remarks of the paper's folder.
    pub notes: Vec<String>,
}

/// A statement with what came of all of its instances.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// The paper, by the name of its folder.
    pub paper: String,
    /// Authors and year.
    #[serde(skip)]
    pub cite: String,
    /// The statement's name.
    pub statement: String,
    /// Table, figure or section.
    pub place: String,
    /// What it is.
    pub kind: Kind,
    /// Rank of the sentence.
    pub weight: u8,
    /// What it says.
    pub says: String,
    /// `agrees` if every instance does, `differs` if one does.
    pub outcome: Outcome,
    /// Instances that agree.
    pub held: usize,
    /// All instances that can be checked.
    pub counted: usize,
}

/// Returns the statements of findings, in their order.
pub fn marks(findings: &[Finding]) -> Vec<Mark> {
    let mut marks: Vec<Mark> = Vec::new();
    for finding in findings {
        let is_its =
            |mark: &Mark| (&mark.paper, &mark.statement) == (&finding.paper, &finding.statement);
        let index = marks.iter().position(is_its).unwrap_or_else(|| {
            marks.push(Mark {
                paper: finding.paper.clone(),
                cite: finding.cite.clone(),
                statement: finding.statement.clone(),
                place: finding.place.clone(),
                kind: finding.kind,
                weight: finding.weight,
                says: finding.says.clone(),
                outcome: finding.outcome,
                held: 0,
                counted: 0,
            });
            marks.len() - 1
        });
        let mark = &mut marks[index];
        mark.held += usize::from(finding.outcome == Outcome::Agrees);
        mark.counted += usize::from(finding.outcome != Outcome::CannotBeChecked);
        mark.outcome = match (mark.outcome, finding.outcome) {
            (Outcome::Differs, _) | (_, Outcome::Differs) => Outcome::Differs,
            (Outcome::CannotBeChecked, _) | (_, Outcome::CannotBeChecked) => {
                Outcome::CannotBeChecked
            }
            (Outcome::Agrees, Outcome::Agrees) => Outcome::Agrees,
        };
    }
    marks
}

impl Comparison {
    fn of(compared: &Compared) -> Self {
        let side = |side: &crate::formula::Side| Side {
            value: side.value,
            unit: side
                .unit
                .as_ref()
                .map_or(String::new(), |unit| unit.name().to_owned()),
            row: side.row.clone(),
        };
        let (holds, is_rounding) = match compared.holds {
            Holds::Yes => (Some(true), Some(true)),
            Holds::Nearly => (Some(true), Some(false)),
            Holds::No => (Some(false), Some(false)),
            Holds::Unlike => (None, None),
        };
        Self {
            left: side(&compared.left),
            op: compared.op.sign(),
            right: side(&compared.right),
            ratio: compared.ratio,
            holds,
            within_rounding: is_rounding.filter(|_| compared.op.sign() == "="),
        }
    }
}

impl Finding {
    /// Creates the finding on one instance.
    pub(super) fn of(
        paper: &Paper,
        statement: &Statement,
        instance: &Instance,
    ) -> Result<Self, PublishedError> {
        let outcome = match (instance.holds(), instance.is_unlike()) {
            (true, _) => Outcome::Agrees,
            (_, true) => Outcome::CannotBeChecked,
            _ => Outcome::Differs,
        };
        let row = match instance.at.as_slice() {
            // Without a free key, the first cell names it.
            [] => {
                let inputs = || instance.inputs.iter().map(|input| input.name.as_str());
                let cell = inputs().find(|name| name.contains('['));
                cell.or_else(|| inputs().next())
                    .unwrap_or_default()
                    .to_owned()
            }
            at => {
                let values: Vec<&str> = at.iter().map(|(_, value)| value.as_str()).collect();
                values.join(", ")
            }
        };
        let mut why = statement.why.clone();
        if instance.is_unlike() {
            why =
                Some("one side is wall time, the other a sum of times that passed at once".into());
        }
        Ok(Self {
            row,
            compared: instance.any.iter().map(Comparison::of).collect(),
            inputs: instance.inputs.iter().map(Source::of).collect(),
            notes: notes(paper, statement, outcome, Some(instance))?,
            outcome,
            why,
            ..Self::empty(paper, statement)
        })
    }

    /// Creates the finding on a statement that no printed figure tells.
    pub(super) fn unsaid(
        paper: &Paper,
        statement: &Statement,
        why: Option<String>,
    ) -> Result<Self, PublishedError> {
        Ok(Self {
            notes: notes(paper, statement, Outcome::CannotBeChecked, None)?,
            why,
            ..Self::empty(paper, statement)
        })
    }

    fn empty(paper: &Paper, statement: &Statement) -> Self {
        Self {
            paper: paper.name.clone(),
            cite: paper.cite.clone(),
            place: statement.place.clone(),
            statement: statement.id.clone(),
            kind: statement.kind,
            weight: statement.weight,
            says: statement.says.clone(),
            source: statement.source.clone(),
            formula: statement
                .formula
                .as_ref()
                .map(|formula| formula.text().to_owned()),
            row: String::new(),
            compared: Vec::new(),
            inputs: Vec::new(),
            outcome: Outcome::CannotBeChecked,
            why: None,
            notes: Vec::new(),
        }
    }

    /// Returns how many times the one side is the other, as a distance from equality.
    pub(super) fn distance(&self) -> Option<f64> {
        let ratios = self
            .compared
            .iter()
            .map(|one| one.ratio.filter(|ratio| *ratio > 0.0));
        let distances = ratios.map(|ratio| ratio.map(|ratio| ratio.ln().abs()));
        // One true comparison is enough, so that the nearest counts.
        distances
            .min_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal))
            .flatten()
    }
}

impl Source {
    fn of(input: &Input) -> Self {
        Self {
            name: input.name.clone(),
            value: input.value,
            place: input.place.clone(),
        }
    }
}

/// Returns the notes on an instance, with the values of their formulas.
fn notes(
    paper: &Paper,
    statement: &Statement,
    outcome: Outcome,
    instance: Option<&Instance>,
) -> Result<Vec<String>, PublishedError> {
    let at = instance.map_or(&[][..], |instance| &instance.at);
    let is_about = |note: &&Note| {
        let has_outcome = match note.when {
            When::Always => true,
            When::Differs => outcome == Outcome::Differs,
            When::Agrees => outcome == Outcome::Agrees,
        };
        let is_row = |row: &String| at.iter().any(|(_, value)| value == row);
        note.about == statement.id && has_outcome && note.rows.iter().all(is_row)
    };
    let about = paper.notes.iter().filter(is_about);
    about.map(|note| filled(paper, note, at)).collect()
}

/// Returns a note's text with the value of each formula in braces.
fn filled(paper: &Paper, note: &Note, at: &[(String, String)]) -> Result<String, PublishedError> {
    let mut text = String::new();
    let mut rest = note.text.as_str();
    while let Some((before, behind)) = rest.split_once('{') {
        let failed = |error: FormulaError| PublishedError::Formula {
            place: note.place.clone(),
            error,
        };
        let Some((formula, behind)) = behind.split_once('}') else {
            return Err(PublishedError::Table {
                place: note.place.clone(),
                reason: "a brace is opened and not closed".to_owned(),
            });
        };
        let (value, _) = value_at(formula, &paper.grid, at).map_err(failed)?;
        text.push_str(before);
        text.push_str(&noted(value));
        rest = behind;
    }
    text.push_str(rest);
    Ok(text)
}

/// Returns a number of a note: counts whole, others with four significant digits.
fn noted(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 1000.0 {
        return format::count(value.round());
    }
    let decimals = (3.0 - value.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
