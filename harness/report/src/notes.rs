//! The kind of a verdict's claim in words, and the order of verdicts on a page.

use epochcost_judge::analysis::summary::Verdict;
use epochcost_spec::claims::ClaimKind;

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

/// Returns verdicts in the order in which pages show them: statements of papers, then each printed
/// figure with its consequences behind it, then own findings, then checks.
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
    let mut published = of_kind(ClaimKind::Published);
    published.sort_by_key(|entry| verdict(entry).is_on_figure());
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
