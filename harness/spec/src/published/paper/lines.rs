//! `statements.csv` and `notes.csv`: what a paper says, and remarks on it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::super::{PublishedError, Row, Table};
use crate::formula::{Formula, Grid};
use crate::suggest::{did_you_mean, listed};

/// What a statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A cell that follows from others: a consequence.
    Follows,
    /// An order of figures.
    Ranking,
    /// A figure.
    Value,
    /// How the paper's experiments were made.
    SetUp,
    /// Why something is as it is.
    Cause,
    /// What a drawing shows.
    Drawing,
    /// No sentence of the paper: whether its figures fit together, or are possible.
    Check,
}

impl Kind {
    const NAMED: [(&'static str, Self); 6] = [
        ("ranking", Self::Ranking),
        ("value", Self::Value),
        ("set-up", Self::SetUp),
        ("cause", Self::Cause),
        ("drawing", Self::Drawing),
        ("check", Self::Check),
    ];
}

/// A sentence of a paper, in our words, or what follows within a table.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Name within the paper.
    pub id: String,
    /// Where the paper says it.
    pub place: String,
    /// What it is.
    pub kind: Kind,
    /// Rank of a sentence, 1 for a conclusion; 0 for what is no sentence of the paper.
    pub weight: u8,
    /// The statement that this is another reading of.
    pub reading_of: Option<String>,
    /// What it says.
    pub says: String,
    /// The same as a formula, if a formula can say it.
    pub formula: Option<Formula>,
    /// Why no formula says it, or not all of it.
    pub why: Option<String>,
    /// Why no simulation of it can come out otherwise, whatever its constants.
    pub cannot_fail: Option<String>,
    /// Its line: `file:line:column`, the column by its name.
    pub source: String,
    /// Where the formula begins: `file:line:character`.
    pub formula_at: String,
}

impl Statement {
    /// Creates what follows within a table.
    pub(super) fn follows(id: String, place: &str, formula: Formula, at: String) -> Self {
        Self {
            says: id.replace('-', " "),
            id,
            place: place.to_owned(),
            kind: Kind::Follows,
            weight: 0,
            reading_of: None,
            formula: Some(formula),
            why: None,
            cannot_fail: None,
            source: at.clone(),
            formula_at: at,
        }
    }
}

/// The findings that a note is shown with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// All of its statement.
    Always,
    /// Those that differ.
    Differs,
    /// Those that agree.
    Agrees,
}

/// A remark on a statement, with formulas in braces; or on a claim of an experiment.
#[derive(Clone, Debug)]
pub struct Note {
    /// The experiment, by its file's name; empty for remarks on the paper's own numbers.
    pub experiment: String,
    /// The statement's or column's name.
    pub about: String,
    /// Values of keys of the instances that it is about; all of them, if there is none.
    pub rows: Vec<String>,
    /// Outcomes that it is about.
    pub when: When,
    /// The text.
    pub text: String,
    /// Where the text begins: `file:line:character`.
    pub place: String,
}

fn refused(row: Row<'_>, column: &str, reason: impl Into<String>) -> PublishedError {
    PublishedError::table(row.place_of(column), reason)
}

/// Reads the statements of a file.
pub(super) fn statements(table: &Table) -> Result<Vec<Statement>, PublishedError> {
    table.refuse_repeated(&["id"])?;
    let mut all = Vec::new();
    for row in table.rows() {
        let optional = |column: &str| -> Result<Option<String>, PublishedError> {
            Ok(Some(row.text(column)?.to_owned()).filter(|text| !text.is_empty()))
        };
        let kind = row.text("kind")?;
        let named = Kind::NAMED.iter().find(|(name, _)| *name == kind);
        let Some((_, kind)) = named else {
            let names: Vec<&str> = Kind::NAMED.iter().map(|(name, _)| *name).collect();
            let reason = format!("there is no kind {kind:?}: write {}", listed(&names));
            return Err(refused(row, "kind", reason));
        };
        let weight = row.text("weight")?.parse::<u8>().ok();
        let weight = weight.filter(|weight| *weight <= 3);
        let weight = weight.ok_or_else(|| refused(row, "weight", "write 0, 1, 2 or 3"));
        let formula_at = row.content_of("formula");
        let formula = optional("formula")?.map(|text| Formula::parse(&text));
        let formula = formula.transpose().map_err(|error| {
            let place = formula_at.clone();
            PublishedError::Formula { place, error }
        })?;
        let why = optional("why")?;
        if formula.is_none() && why.is_none() {
            let reason = "write a formula, or under `why` what no formula can say";
            return Err(refused(row, "formula", reason));
        }
        all.push(Statement {
            id: row.text("id")?.to_owned(),
            place: row.text("place")?.to_owned(),
            kind: *kind,
            weight: weight?,
            reading_of: optional("reading_of")?,
            says: row.text("says")?.to_owned(),
            formula,
            why,
            cannot_fail: optional("cannot_fail").unwrap_or_default(),
            source: row.cell("says"),
            formula_at,
        });
    }
    for (row, statement) in table.rows().zip(&all) {
        let Some(other) = &statement.reading_of else {
            continue;
        };
        let Some(of) = all.iter().find(|one| one.id == *other) else {
            let ids: BTreeSet<&str> = all.iter().map(|one| one.id.as_str()).collect();
            let known = did_you_mean(other, &Vec::from_iter(ids));
            let reason = format!("there is no statement {other:?}: {known}");
            return Err(refused(row, "reading_of", reason));
        };
        let places = |one: &Statement| -> BTreeSet<String> {
            let places = one.place.split(';');
            places.map(|place| place.trim().to_owned()).collect()
        };
        if let Some(root) = &of.reading_of {
            let reason = format!("{other:?} is a reading of {root:?} itself: name that one");
            return Err(refused(row, "reading_of", reason));
        }
        if places(statement).is_disjoint(&places(of)) {
            let reason = format!(
                "{other:?} has other places: what is said elsewhere, also otherwise, is a statement of its own"
            );
            return Err(refused(row, "reading_of", reason));
        }
    }
    Ok(all)
}

/// Refuses two statements of one name or one formula.
pub(super) fn refuse_repeated(statements: &[Statement]) -> Result<(), PublishedError> {
    let mut ids = BTreeMap::new();
    let mut formulas = BTreeMap::new();
    for statement in statements {
        let text = statement.formula.as_ref().map(|formula| {
            let words: Vec<&str> = formula.text().split_whitespace().collect();
            words.join(" ")
        });
        let of_name = ids.insert(&statement.id, statement);
        let repeated = of_name.map(|other| ("name", other)).or_else(|| {
            let other = formulas.insert(text?, statement)?;
            Some(("formula", other))
        });
        if let Some((what, Statement { id, source, .. })) = repeated {
            let reason = format!(
                "the {what} is that of `{id}` in {source}: merge the two, with both places"
            );
            return Err(PublishedError::table(statement.source.clone(), reason));
        }
    }
    Ok(())
}

/// Reads the notes of a file: `about` is a statement's name, with rows in brackets.
pub(super) fn notes(
    table: &Table,
    statements: &[Statement],
    grid: &Grid,
) -> Result<Vec<Note>, PublishedError> {
    let mut all = Vec::new();
    for row in table.rows() {
        let about = row.text("about")?;
        let bracket = about
            .strip_suffix(']')
            .and_then(|about| about.split_once('['));
        let id = bracket.map_or(about, |(id, _)| id);
        let rows = bracket.into_iter().flat_map(|(_, rows)| rows.split(','));
        let experiment = row.optional("experiment").unwrap_or_default();
        let is_known = statements.iter().any(|statement| statement.id == id);
        if !is_known && experiment.is_empty() {
            let known: Vec<&str> = statements.iter().map(|one| one.id.as_str()).collect();
            let reason = format!("there is no statement {id:?}: {}", did_you_mean(id, &known));
            return Err(refused(row, "about", reason));
        }
        let when = match row.text("when")? {
            "" => When::Always,
            "differs" => When::Differs,
            "agrees" => When::Agrees,
            other => {
                let reason = format!("{other:?} is no outcome: write differs, agrees or nothing");
                return Err(refused(row, "when", reason));
            }
        };
        all.push(Note {
            experiment: experiment.to_owned(),
            about: id.to_owned(),
            rows: rows
                .map(|one| grid.canonical(one.trim()).to_owned())
                .collect(),
            when,
            text: row.text("note")?.to_owned(),
            place: row.content_of("note"),
        });
    }
    Ok(all)
}
