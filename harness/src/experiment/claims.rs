//! The claims of an experiment, with which its results are compared.

use epochcost_systems as systems;

use super::decode::decode;
use super::document::{Document, Node, Value};
use super::error::ExperimentError;
use crate::chain::chain;
use crate::claims::{Claim, ClaimKind, Selector, fill, matches, tolerance};
use crate::published::{self, Columns, Ledger};
use crate::rows::{OwnModel, Row};
use crate::suggest::did_you_mean;

/// Reads and checks the claims of a document, but for their cells.
///
/// # Errors
/// The first claim that states nothing that could be checked, or that is marked
/// as `not_run` and could be run; then, the first that contradicts another.
pub fn claims(document: &Document, own: &[OwnModel]) -> Result<Vec<Claim>, ExperimentError> {
    let Some(node) = document.root.get("claims") else {
        return Ok(Vec::new());
    };
    let Value::List(items) = &node.value else {
        let claims: Vec<Claim> = decode(document, node)?;
        return Ok(claims);
    };
    let claims: Vec<Claim> = items
        .iter()
        .map(|item| claim(document, item, own))
        .collect::<Result<_, _>>()?;
    check_together(document, items, &claims)?;
    Ok(claims)
}

/// Checks what the claims of a file say together: each has its own sentence,
/// a consequence follows from published claims, and all are of one paper.
fn check_together(
    document: &Document,
    nodes: &[Node],
    claims: &[Claim],
) -> Result<(), ExperimentError> {
    let mut paper: Option<&str> = None;
    for (index, (node, claim)) in nodes.iter().zip(claims).enumerate() {
        if claims[..index]
            .iter()
            .any(|other| other.claim == claim.claim)
        {
            let problem = format!("two claims are {:?}", claim.claim);
            let remedy = "say in each what it claims that the other does not";
            return Err(document.error(node.origin_of("claim"), problem, remedy));
        }
        for base in &claim.of {
            let found = claims.iter().find(|other| other.claim == *base);
            if found.is_none_or(|found| found.kind != ClaimKind::Published) {
                let known: Vec<&str> = (claims.iter())
                    .filter(|other| other.kind == ClaimKind::Published)
                    .map(|other| other.claim.as_str())
                    .collect();
                let problem = format!("no published claim of this file is {base:?}");
                let remedy = did_you_mean(base, &known);
                return Err(document.error(node.origin_of("of"), problem, remedy));
            }
        }
        // A simulation's constants confirm nothing of the paper that they are
        // fitted to: which paper that is must not be for a claim to choose.
        match (paper, claim.paper()) {
            (None, own) => paper = own,
            (Some(paper), Some(own)) if own != paper => {
                let problem = format!("the claim is of {own:?}, and others here of {paper:?}");
                let remedy = "name in `source` the paper, a comma and the table or section; claims \
                              of different papers are in different files";
                return Err(document.error(node.origin_of("source"), problem, remedy));
            }
            _ => {}
        }
    }
    Ok(())
}

fn claim(document: &Document, node: &Node, own: &[OwnModel]) -> Result<Claim, ExperimentError> {
    let claim: Claim = decode(document, node)?;
    let is_own = claim.formula.is_some() || claim.since.is_some();
    if is_own || !claim.kind.is_of_paper() {
        let problem = "what no paper says is no claim of a file";
        let remedy = "write a formula under `findings`, or under `checks`";
        return Err(document.error(node.origin_of("kind"), problem, remedy));
    }
    claim.validate().map_err(|error| {
        let origin = match error.field() {
            Some(field) => node.origin_of(field),
            None => node.origin.clone(),
        };
        document.error(origin, error.to_string(), error.remedy())
    })?;
    if !claim.history.is_empty() {
        let problem = "the history of a claim is read from the ledger";
        return Err(document.error(node.origin_of("history"), problem, "leave `history` out"));
    }
    if claim.excluded.is_some() {
        let problem = "only options of the command exclude a claim, never the file";
        return Err(document.error(node.origin_of("excluded"), problem, "leave `excluded` out"));
    }
    // Only the cell of a published value can be one that no metric observes.
    let can_be_observed = claim.metric.is_some() || claim.cell.is_none();
    if claim.not_run.is_some() && can_be_observed && !names_the_unknown(&claim, own) {
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
pub fn need_no_rows(claims: &[Claim]) -> bool {
    !claims.is_empty() && claims.iter().all(|claim| claim.not_run.is_some())
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

/// Compares every claim with what is published: its value with the cell that it
/// is quoted from, in the directory `published` beside the file, and its paper,
/// metric and tolerance with what is stated about the cell's column.
///
/// # Errors
/// The first cell that is not there or holds another value, and the first claim
/// that contradicts its column.
pub fn check_cells(
    document: &Document,
    claims: &[Claim],
    own: &[OwnModel],
) -> Result<(), ExperimentError> {
    let damaged = |error: published::PublishedError| {
        let remedy = "correct the file `columns.csv`";
        document.error(document.root.origin_of("claims"), chain(&error), remedy)
    };
    let columns = Columns::beside(&document.file).map_err(damaged)?;
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
    let Some(columns) = columns else {
        return Ok(());
    };
    for (node, claim) in items.iter().zip(claims) {
        check_column(document, node, claim, &columns, own)?;
        check_tolerance(document, node, claim, claims, &columns)?;
    }
    Ok(())
}

/// Compares a claim's paper and metric with what is stated about the column of
/// its cell.
fn check_column(
    document: &Document,
    node: &Node,
    claim: &Claim,
    columns: &Columns,
    own: &[OwnModel],
) -> Result<(), ExperimentError> {
    let Some(cell) = &claim.cell else {
        return Ok(());
    };
    if let (Some(paper), Some(own)) = (columns.paper(&cell.file), claim.paper())
        && paper != own
    {
        let problem = format!("the cell {cell} is of {paper:?}, and the source names {own:?}");
        let remedy = format!("write `source: \"{paper}, TABLE OR SECTION\"`");
        return Err(document.error(node.origin_of("source"), problem, remedy));
    }
    let metrics = columns.metrics(cell);
    let names: Vec<&str> = metrics.iter().map(|metric| metric.name()).collect();
    let problem = match claim.metric {
        Some(metric) if metrics.contains(&metric) => return Ok(()),
        Some(metric) => format!("{} does not observe the cell {cell}", metric.name()),
        None if metrics.is_empty() || names_the_unknown(claim, own) => return Ok(()),
        None => format!("the claim names no metric, and the cell {cell} can be observed"),
    };
    let remedy = if names.is_empty() {
        "leave `metric` out and give `not_run`, or add the metric to the column in \
         published/columns.csv"
            .to_owned()
    } else {
        format!(
            "write `metric: {}`, and remove `not_run`",
            names.join("` or `metric: ")
        )
    };
    Err(document.error(node.origin_of("metric"), problem, remedy))
}

/// Compares a claim's tolerance with the policy: that for the conditions of its
/// cell, or of the cell that it is a consequence of.
fn check_tolerance(
    document: &Document,
    node: &Node,
    claim: &Claim,
    claims: &[Claim],
    columns: &Columns,
) -> Result<(), ExperimentError> {
    let is_base = |other: &&Claim| claim.of.first() == Some(&other.claim);
    let base = || claims.iter().find(is_base)?.cell.as_ref();
    let conditions = claim
        .cell
        .as_ref()
        .or_else(base)
        .and_then(|cell| columns.conditions(cell));
    let (Some(metric), Some(conditions), Some(_)) = (claim.metric, conditions, claim.published)
    else {
        return Ok(());
    };
    let policy = tolerance(metric, conditions);
    if claim.tolerance == Some(policy) || claim.band_reason.is_some() {
        return Ok(());
    }
    let problem = match claim.tolerance {
        Some(stated) => format!("the tolerance is {stated}, and that of the policy {policy}"),
        None => format!("the band is not the policy's, which is a tolerance of {policy}"),
    };
    let remedy = format!("write `tolerance: {policy}`, or give the reason in `band_reason`");
    Err(document.error(node.origin_of("tolerance"), problem, remedy))
}

/// Gives every claim its lines of the ledger beside the file.
///
/// # Errors
/// When the ledger is damaged.
pub fn add_history(document: &Document, claims: &mut [Claim]) -> Result<(), ExperimentError> {
    let ledger = Ledger::beside(&document.file).map_err(|error| {
        let place = document.root.origin_of("claims");
        document.error(place, chain(&error), "correct that line of the ledger")
    })?;
    let file = ledger.name_of(&document.file);
    for claim in claims {
        claim.history = ledger.history(&file, &claim.claim);
    }
    Ok(())
}
