//! The claims of an experiment, with which its results are compared.

use epochcost_systems as systems;

use super::decode::decode;
use super::document::{Document, Node, Value};
use super::error::ExperimentError;
use crate::chain::chain;
use crate::claims::{Claim, Selector, fill, matches};
use crate::published;
use crate::rows::{OwnModel, Row};

/// Reads and checks the claims of a document, but for their cells.
///
/// # Errors
/// The first claim that states nothing that could be checked, or that is marked
/// as `not_run` and could be run.
pub fn claims(document: &Document, own: &[OwnModel]) -> Result<Vec<Claim>, ExperimentError> {
    let Some(node) = document.root.get("claims") else {
        return Ok(Vec::new());
    };
    let Value::List(items) = &node.value else {
        let claims: Vec<Claim> = decode(document, node)?;
        return Ok(claims);
    };
    items
        .iter()
        .map(|item| claim(document, item, own))
        .collect()
}

fn claim(document: &Document, node: &Node, own: &[OwnModel]) -> Result<Claim, ExperimentError> {
    let claim: Claim = decode(document, node)?;
    claim.validate().map_err(|error| {
        let origin = match error.field() {
            Some(field) => node.origin_of(field),
            None => node.origin.clone(),
        };
        document.error(origin, error.to_string(), error.remedy())
    })?;
    if claim.not_run.is_some() && claim.metric.is_some() && !names_the_unknown(&claim, own) {
        return Err(document.error(
            node.origin_of("not_run"),
            "every system and model that the claim names exists: it can be run",
            "remove `not_run` and list the systems to run, or name in `select` what does not exist",
        ));
    }
    Ok(claim)
}

/// Whether an experiment may be without systems: there is nothing but claims
/// that cannot be run yet.
pub fn need_no_rows(document: &Document, claims: &[Claim]) -> bool {
    let systems = document.root.get("systems");
    let lists_none = systems.is_none_or(|node| node.value == Value::List(Vec::new()));
    lists_none && !claims.is_empty() && claims.iter().all(|claim| claim.not_run.is_some())
}

/// Whether the claim is of a system or model that there is none of.
fn names_the_unknown(claim: &Claim, own: &[OwnModel]) -> bool {
    let unknown = |selector: &Selector| {
        let system = selector.system.as_deref();
        let model = selector.model.as_deref();
        system.is_some_and(|name| systems::find(name).is_none())
            || model.is_some_and(|name| {
                systems::find_model(name).is_none() && own.iter().all(|own| own.name != name)
            })
    };
    unknown(&claim.select) || claim.over.as_ref().is_some_and(unknown)
}

/// Checks that every cause of a claim is one row of the experiment.
///
/// # Errors
/// The first that selects none, or more than one.
pub fn check_causes(
    document: &Document,
    claims: &[Claim],
    rows: &[Row],
) -> Result<(), ExperimentError> {
    for (index, claim) in claims.iter().enumerate() {
        let selected = rows.iter().filter(|row| matches(&claim.select, row));
        let pairs = selected.flat_map(|row| claim.causes.iter().enumerate().map(move |c| (row, c)));
        for (row, (number, cause)) in pairs {
            let filled = fill(&cause.select, row);
            let found = rows.iter().filter(|row| matches(&filled, row)).count();
            if found != 1 {
                let place = cause_node(document, index, number).unwrap_or(&document.root);
                return Err(document.error(
                    place.origin_of("select"),
                    format!(
                        "{found} rows are {:?} beside the row `{}`",
                        cause.cause, row.id
                    ),
                    "select exactly one: `select: {row: ID}`",
                ));
            }
        }
    }
    Ok(())
}

fn cause_node(document: &Document, claim: usize, cause: usize) -> Option<&Node> {
    let Value::List(claims) = &document.root.get("claims")?.value else {
        return None;
    };
    let Value::List(causes) = &claims.get(claim)?.get("causes")?.value else {
        return None;
    };
    causes.get(cause)
}

/// Compares every published value with the cell that it is quoted from, in the
/// directory `published` beside the file.
///
/// # Errors
/// The first cell that is not there or holds another value.
pub fn check_cells(document: &Document, claims: &[Claim]) -> Result<(), ExperimentError> {
    let Some(Value::List(items)) = document.root.get("claims").map(|node| &node.value) else {
        return Ok(());
    };
    for (node, claim) in items.iter().zip(claims) {
        let Some((cell, quoted)) = claim.cell.as_ref().zip(claim.published) else {
            continue;
        };
        let published = published::number(&document.file, cell).map_err(|error| {
            let remedy =
                "name a cell as FILE:LINE:COLUMN, the line counted from 1 with the heading";
            document.error(node.origin_of("cell"), chain(&error), remedy)
        })?;
        if published != quoted {
            return Err(document.error(
                node.origin_of("published"),
                format!("the claim quotes {quoted}, and the cell {cell} holds {published}"),
                "quote the cell's value in its own unit (`unit` converts what is observed), or \
                 name another cell",
            ));
        }
    }
    Ok(())
}
