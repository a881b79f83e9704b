//! The kind of a verdict's claim and the causes of its gap in words, and the order of verdicts on
//! a page.

use epochcost_judge::analysis::Effect;
use epochcost_judge::analysis::summary::Verdict;
use epochcost_spec::claims::ClaimKind;
use epochcost_spec::format::{self, UNKNOWN};

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
        let is_of = |entry: &&T| verdict(entry).kind == kind;
        all.iter().filter(is_of).collect()
    };
    let consequences = of_kind(ClaimKind::Consequence);
    let mut order: Vec<&T> = Vec::new();
    let mut published = of_kind(ClaimKind::Published);
    published.sort_by_key(|entry| verdict(entry).is_on_figure());
    for (index, base) in published.iter().enumerate() {
        order.push(base);
        // Behind the last of several verdicts on one claim.
        let next = published.get(index + 1);
        let is_last = next.is_none_or(|next| verdict(next).claim != verdict(base).claim);
        if is_last {
            order.extend(consequences.iter().filter(|entry| follows(entry, base)));
        }
    }
    let is_alone = |entry: &&&T| !published.iter().any(|base| follows(entry, base));
    order.extend(consequences.iter().filter(is_alone));
    order.extend(of_kind(ClaimKind::Own));
    order.extend(of_kind(ClaimKind::Check));
    order
}

/// Returns one line of a verdict's causes: the figure with the cause, what it
/// changes, and how much of the gap that is.
pub(super) fn cause(effect: &Effect, value: impl Fn(f64) -> String) -> String {
    let Some(observed) = effect.observed else {
        return format!("{}: {UNKNOWN}", effect.cause);
    };
    let share = effect.share.map_or(String::new(), |share| {
        format!(", {} of the gap", format::percent(share))
    });
    let change = effect.change.map_or(String::new(), |change| {
        let sign = if change < 0.0 { "−" } else { "+" };
        format!(" ({sign}{}{share})", value(change.abs()))
    });
    format!("{}: {}{change}", effect.cause, value(observed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_value_change_and_share() {
        let mut effect = Effect {
            cause: "log rewritten".into(),
            row: Some("r".into()),
            observed: Some(30.0),
            observed_ci95: None,
            change: Some(-10.0),
            share: Some(-0.25),
        };
        let seconds = |value: f64| format!("{value} s");
        let whole = "log rewritten: 30 s (−10 s, -25.0 % of the gap)";
        assert_eq!(cause(&effect, seconds), whole);
        effect.share = None;
        assert_eq!(cause(&effect, seconds), "log rewritten: 30 s (−10 s)");
        effect.observed = None;
        assert_eq!(cause(&effect, seconds), "log rewritten: –");
    }
}
