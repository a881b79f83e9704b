//! Audit of the papers' own figures: their formulas, evaluated over the cells that they print.
//!
//! Everything that is specific to a paper is in its folder; this module turns the instances of
//! its statements into findings.

mod finding;
mod sentence;
pub mod text;

use std::path::{Path, PathBuf};

use epochcost_record::SchemaVersion;
use epochcost_spec::cost::{PriceBook, PriceBookError};
use epochcost_spec::published::{PAPER, Paper, PublishedError, Statement};
use epochcost_spec::shipped;
use epochcost_spec::suggest::did_you_mean;

pub use finding::{Finding, Mark, Outcome, marks};
pub use sentence::{Reading, Sentence, chosen, sentences};

/// The version of what `audit --json` prints.
pub const AUDIT_VERSION: SchemaVersion = SchemaVersion { major: 2, minor: 1 };

/// Why an audit could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The published figures are unusable.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// List prices are unusable.
    #[error(transparent)]
    Prices(#[from] PriceBookError),
    /// A paper is named that is not there.
    #[error("there is no paper `{name}`\n  = help: {remedy}")]
    Unknown {
        /// Name or folder, as given.
        name: String,
        /// Known names, or what is missing.
        remedy: String,
    },
    /// No sentence is at the place, or has the word, that is asked for.
    #[error("there is no sentence{what}\n  = help: {remedy}")]
    NothingChosen {
        /// What is asked for.
        what: String,
        /// Known places.
        remedy: String,
    },
}

/// Reads papers: those named, by the names of shipped ones or as folders, or all shipped ones.
/// `published` is the directory of the tables that papers share, if it is not the shipped one.
///
/// # Errors
/// When a paper is unknown, or a file of it is damaged.
pub fn read(named: &[PathBuf], published: Option<&Path>) -> Result<Vec<Paper>, AuditError> {
    let prices = PriceBook::shipped()?;
    let shipped = |name: &str| shipped::shipped_experiments().join(name);
    let mut wanted: Vec<PathBuf> = Vec::new();
    for name in named {
        let known = names().into_iter().find(|known| name == Path::new(known));
        let folder = match known {
            Some(known) => shipped(known),
            None if name.join(PAPER).is_file() => name.clone(),
            None => return Err(unknown(name)),
        };
        if !wanted.contains(&folder) {
            wanted.push(folder);
        }
    }
    if wanted.is_empty() {
        wanted = names().into_iter().map(shipped).collect();
    }
    let papers = (wanted.iter()).map(|folder| Paper::read(folder, published, &prices));
    Ok(papers.collect::<Result<_, _>>()?)
}

/// Returns the names of the shipped papers.
pub fn names() -> Vec<&'static str> {
    let papers = shipped::files().iter().filter_map(|(file, _)| {
        let folder = file.strip_suffix(PAPER)?.strip_suffix('/')?;
        folder.rsplit('/').next()
    });
    let mut names: Vec<&str> = papers.collect();
    names.sort_unstable();
    names
}

fn unknown(name: &Path) -> AuditError {
    let remedy = if name.is_dir() {
        format!("the folder has no {PAPER}")
    } else {
        let known = did_you_mean(&name.display().to_string(), &names());
        format!("{known}, or name a folder with {PAPER}")
    };
    AuditError::Unknown {
        name: name.display().to_string(),
        remedy,
    }
}

/// Evaluates every statement of these papers.
///
/// # Errors
/// When a formula or a note cannot be evaluated, with its place.
pub fn audit(papers: &[Paper]) -> Result<Vec<Finding>, AuditError> {
    let findings: Vec<Vec<Finding>> = papers.iter().map(of_paper).collect::<Result<_, _>>()?;
    Ok(findings.into_iter().flatten().collect())
}

/// Evaluates every statement of a paper.
///
/// # Errors
/// As [`audit`].
pub fn of_paper(paper: &Paper) -> Result<Vec<Finding>, PublishedError> {
    let findings = (paper.statements.iter()).map(|statement| of_statement(paper, statement));
    let findings: Vec<Vec<Finding>> = findings.collect::<Result<_, _>>()?;
    Ok(findings.into_iter().flatten().collect())
}

/// Returns a finding for each instance of a statement; one, if nothing printed tells it.
fn of_statement(paper: &Paper, statement: &Statement) -> Result<Vec<Finding>, PublishedError> {
    let unsaid = |why| Ok(vec![Finding::new(paper, statement, None, why)?]);
    let Some(formula) = &statement.formula else {
        return unsaid(statement.why.clone());
    };
    match formula.instances(&paper.grid) {
        Ok(instances) => {
            let of = |one| Finding::new(paper, statement, Some(one), statement.why.clone());
            instances.iter().map(of).collect()
        }
        Err(error) if error.is_unprinted => unsaid(Some(error.problem)),
        Err(error) => Err(PublishedError::Formula {
            place: statement.formula_at.clone(),
            error,
        }),
    }
}
