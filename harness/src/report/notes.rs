//! What stands beside a verdict: the kind of its claim, changes of the claim's
//! terms, and the evidence of its explanation.

use crate::analysis::summary::{Change, Verdict};
use crate::claims::{ClaimKind, Evidence, Known};
use crate::format;

/// Returns the kind of a claim in words, of a consequence with what it follows
/// from; nothing of a published claim.
pub(super) fn kind(verdict: &Verdict) -> String {
    match verdict.kind {
        ClaimKind::Published => String::new(),
        ClaimKind::Consequence => format!("follows from: {}", verdict.of.join("; ")),
        ClaimKind::Check => "check".into(),
        ClaimKind::Own => "own finding".into(),
    }
}

/// Returns one line for each change of the claim's terms, and one for each
/// figure that supports its explanation.
pub(super) fn of(verdict: &Verdict) -> Vec<String> {
    let changes = verdict.changes.iter().map(change);
    // The explanation is given where its verdict is the expected one.
    let is_explained = verdict.expect == Some(verdict.verdict);
    let evidence = verdict.evidence.iter().filter(|_| is_explained);
    changes.chain(evidence.map(support)).collect()
}

/// Returns verdicts in the order in which pages show them: each published claim
/// with its consequences behind it, then own findings, then checks.
pub(super) fn grouped<T>(all: &[T], verdict: impl Fn(&T) -> &Verdict) -> Vec<&T> {
    let follows = |entry: &T, base: &T| verdict(entry).of.first() == Some(&verdict(base).claim);
    let of_kind = |kind: ClaimKind| -> Vec<&T> {
        let entries = all.iter();
        entries
            .filter(|entry| verdict(entry).kind == kind)
            .collect()
    };
    let consequences = of_kind(ClaimKind::Consequence);
    let mut order: Vec<&T> = Vec::new();
    let published = of_kind(ClaimKind::Published);
    for (index, base) in published.iter().enumerate() {
        order.push(base);
        // Behind the last of several verdicts on one claim.
        let is_last = published
            .get(index + 1)
            .is_none_or(|next| verdict(next).claim != verdict(base).claim);
        if is_last {
            order.extend(consequences.iter().filter(|entry| follows(entry, base)));
        }
    }
    let alone = consequences
        .iter()
        .filter(|entry| !published.iter().any(|base| follows(entry, base)));
    order.extend(alone);
    order.extend(of_kind(ClaimKind::Own));
    order.extend(of_kind(ClaimKind::Check));
    order
}

fn change(change: &Change) -> String {
    let known = match change.known {
        Known::Before => "before a result was known",
        Known::After => "after a result was known",
    };
    format!(
        "changed on {}, {known}: {}. Reason: {}",
        change.date,
        change.what.join("; "),
        change.why
    )
}

fn support(evidence: &Evidence) -> String {
    match evidence {
        Evidence::Observed(observed) => {
            let cause = observed.cause.as_ref();
            let cause = cause.map_or(String::new(), |cause| format!(", with {cause}"));
            let unit = observed.unit.as_str();
            format!(
                "evidence: {} {unit}, {}: {}{cause}",
                format::number(observed.figure),
                observed.item,
                observed.claim
            )
            .replace(" ,", ",")
        }
        Evidence::Audited(audited) => format!(
            "evidence: {}, audit of {}: {}, {}",
            format::number(audited.figure),
            audited.paper,
            audited.check,
            audited.row
        ),
        Evidence::Computed(computed) => {
            let cells: Vec<String> = (computed.cells.iter().zip('a'..='z'))
                .map(|(cell, name)| format!("{name} is {cell}"))
                .collect();
            format!(
                "evidence: {} = {}, where {}",
                format::number(computed.figure),
                computed.formula,
                cells.join(", ")
            )
        }
    }
}
