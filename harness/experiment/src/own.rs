//! Checks and findings of an experiment: formulas over its rows.

use epochcost_spec::claims::own::{self, OverRows};
use epochcost_spec::claims::{Claim, ClaimKind, VerdictKind};
use epochcost_spec::formula::{Formula, FormulaError};
use epochcost_spec::rows::Row;
use schemars::JsonSchema;
use serde::Deserialize;

use super::decode::decode;
use super::document::{Document, Node};
use super::error::ExperimentError;

/// Fields of an experiment that are read here, with what their entries are.
pub(super) const FIELDS: [(&str, ClaimKind); 2] =
    [("checks", ClaimKind::Check), ("findings", ClaimKind::Own)];

/// What an experiment of this project shows.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Finding {
    /// Sentence.
    says: String,
    /// Formula over the rows, as of `checks`.
    formula: String,
    /// Commit since which it fails; any other verdict then ends the run with 3.
    fails_since: Option<String>,
    /// Commit since which trials or draws do not decide it.
    open_since: Option<String>,
}

/// Reads the checks and findings of a document.
///
/// # Errors
/// The first that is no formula, or that is there twice.
pub(super) fn read(document: &Document, claims: &mut Vec<Claim>) -> Result<(), ExperimentError> {
    for (field, kind) in FIELDS {
        for node in document.list(field)? {
            let finding = match kind {
                ClaimKind::Check => {
                    let formula: String = decode(document, node)?;
                    Finding {
                        says: formula.clone(),
                        formula,
                        fails_since: None,
                        open_since: None,
                    }
                }
                _ => decode(document, node)?,
            };
            let claim = claim(kind, finding).map_err(|error| refused(document, node, error))?;
            if claims.iter().any(|other| other.claim == claim.claim) {
                let problem = format!("two claims are {:?}", claim.claim);
                let remedy = "say in each what it claims that the other does not";
                return Err(document.error(node.origin_of("says"), problem, remedy));
            }
            claims.push(claim);
        }
    }
    Ok(())
}

fn claim(kind: ClaimKind, finding: Finding) -> Result<Claim, FormulaError> {
    let formula = Formula::parse(&finding.formula)?;
    let (metric, target) = own::first_figure(&formula).unzip();
    let (expect, since) = match (finding.fails_since, finding.open_since) {
        // Fewer trials, as the quick form has, may leave open what fails.
        (_, Some(since)) => (VerdictKind::Open, Some(since)),
        (Some(since), None) => (VerdictKind::Fails, Some(since)),
        (None, None) => (VerdictKind::Holds, None),
    };
    Ok(Claim {
        claim: finding.says,
        kind,
        target: target.flatten().or_else(|| own::least_accuracy(&formula)),
        metric,
        expect: Some(expect),
        since,
        formula: Some(finding.formula),
        ..Claim::default()
    })
}

/// Checks that every check and finding compares what rows have.
///
/// # Errors
/// The first that names what is no row or metric, or compares nothing.
pub(super) fn check(
    document: &Document,
    claims: &[Claim],
    rows: &[&Row],
) -> Result<(), ExperimentError> {
    for (field, kind) in FIELDS {
        let own = claims
            .iter()
            .filter(|claim| claim.kind == kind && claim.formula.is_some());
        for (node, claim) in document.list(field)?.iter().zip(own) {
            let formula = claim.formula.as_deref().unwrap_or_default();
            OverRows::check(formula, rows).map_err(|error| refused(document, node, error))?;
        }
    }
    Ok(())
}

/// Returns the error of the field `formula` of a node.
pub(super) fn refused(document: &Document, node: &Node, error: FormulaError) -> ExperimentError {
    let (column, problem) = (error.column(), error.problem);
    let problem = format!("column {column} of the formula: {problem}");
    document.error(node.origin_of("formula"), problem, error.remedy)
}
