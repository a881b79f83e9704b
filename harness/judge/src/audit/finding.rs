//! What came of one instance of a statement.

use std::cmp::Ordering;

use serde::Serialize;

use epochcost_spec::format;
use epochcost_spec::formula::{Compared, FormulaError, Input, Instance, value_at};
use epochcost_spec::published::{Kind, Note, Paper, PublishedError, Statement, When};

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

impl Outcome {
    /// Returns the word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Differs => "differs",
            Self::CannotBeChecked => "cannot be checked",
        }
    }
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
    /// The statement that this is another reading of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reading_of: Option<String>,
    /// What it says.
    pub says: String,
    /// Its line: `file:line:column`, the column by its name.
    pub source: String,
    /// The formula, if there is one.
    pub formula: Option<String>,
    /// Values of the free keys.
    pub row: String,
    /// What is compared: one, but for `or`; none without a formula.
    pub compared: Vec<Compared>,
    /// The numbers that were read.
    pub inputs: Vec<Input>,
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
    /// The statement that this is another reading of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reading_of: Option<String>,
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
pub fn marks<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Vec<Mark> {
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
                reading_of: finding.reading_of.clone(),
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
        // What differs prevails over what cannot be checked, and that over what agrees.
        let order = [Outcome::Differs, Outcome::CannotBeChecked];
        let both = [mark.outcome, finding.outcome];
        let first = order.into_iter().find(|outcome| both.contains(outcome));
        mark.outcome = first.unwrap_or(Outcome::Agrees);
    }
    marks
}

impl Finding {
    /// Creates the finding on one instance of a statement, or on a statement that no printed
    /// figure tells.
    pub(super) fn new(
        paper: &Paper,
        statement: &Statement,
        instance: Option<&Instance>,
        why: Option<String>,
    ) -> Result<Self, PublishedError> {
        let is_unlike = instance.is_some_and(Instance::is_unlike);
        let outcome = match instance {
            Some(instance) if instance.holds() => Outcome::Agrees,
            Some(_) if !is_unlike => Outcome::Differs,
            _ => Outcome::CannotBeChecked,
        };
        let unlike = "one side is wall time, the other a sum of times that passed at once";
        let formula = statement.formula.as_ref();
        Ok(Self {
            paper: paper.name.clone(),
            cite: paper.cite.clone(),
            place: statement.place.clone(),
            statement: statement.id.clone(),
            kind: statement.kind,
            weight: statement.weight,
            reading_of: statement.reading_of.clone(),
            says: statement.says.clone(),
            source: statement.source.clone(),
            formula: formula.map(|formula| formula.text().to_owned()),
            row: instance.map_or(String::new(), row),
            compared: instance.map_or(Vec::new(), |instance| instance.any.clone()),
            inputs: instance.map_or(Vec::new(), |instance| instance.inputs.clone()),
            outcome,
            why: is_unlike.then(|| unlike.to_owned()).or(why),
            notes: notes(paper, statement, outcome, instance)?,
        })
    }

    /// Returns the notes on it, and why it cannot be checked.
    pub fn remarks(&self) -> impl Iterator<Item = &str> {
        let why = self.why.iter().map(String::as_str);
        self.notes.iter().map(String::as_str).chain(why)
    }

    /// Returns how many times the one side is the other, as a distance from equality.
    pub(super) fn distance(&self) -> Option<f64> {
        let ratios = self.compared.iter().map(|one| one.ratio);
        let distances = ratios.map(|ratio| Some(ratio.filter(|ratio| *ratio > 0.0)?.ln().abs()));
        // One true comparison is enough, so that the nearest counts.
        let order = |a: &Option<f64>, b: &Option<f64>| a.partial_cmp(b).unwrap_or(Ordering::Equal);
        distances.min_by(order).flatten()
    }
}

/// Returns the values of the free keys; without one, the first cell that was read.
fn row(instance: &Instance) -> String {
    let values = (instance.at.iter()).map(|(_, value)| value.as_str());
    let values: Vec<&str> = values.collect();
    if !values.is_empty() {
        return values.join(", ");
    }
    let inputs = || instance.inputs.iter().map(|input| &input.name);
    let cell = inputs().find(|name| name.contains('['));
    let first = cell.or_else(|| inputs().next());
    first.cloned().unwrap_or_default()
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
        let is_its = note.experiment.is_empty() && note.about == statement.id;
        is_its && has_outcome && note.rows.iter().all(is_row)
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
        let value = value_at(formula, &paper.grid, at).map_err(failed)?;
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
