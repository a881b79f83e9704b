//! Verdicts over several runs, counted by paper and by kind of claim.

use serde::Serialize;

use super::view::{StripItem, strip_of};
use crate::analysis::counts::Counts;
use crate::analysis::overview::{ItemOverview, JudgedClaim, Overview};
use crate::claims::{Known, VerdictKind};

/// Verdicts as they were counted before claims had kinds: paper, claims, verdict, number.
const BEFORE: &str = include_str!("../../../results/records/2026-11-22-verdicts-before.csv");

/// Verdicts on claims of one kind, counted.
#[derive(Debug, Serialize)]
pub(super) struct Strip {
    /// What is counted.
    pub title: String,
    /// One for each kind of verdict that occurs.
    pub items: Vec<StripItem>,
}

/// Verdicts of one paper, counted by kind.
#[derive(Debug, Serialize)]
pub(super) struct TallyLine {
    /// The paper.
    pub paper: String,
    /// The kind of claim.
    pub kind: &'static str,
    /// Numbers, in the order of [`VerdictKind::ALL`].
    pub counts: Vec<usize>,
}

/// Returns the verdicts on published values and rankings, and on own findings;
/// checks in one line.
pub(super) fn strips(counts: &Counts) -> Vec<Strip> {
    let titles = [
        (
            "On published values: figures with a band around them",
            &counts.values,
        ),
        (
            "On published rankings: which of two is ahead, whatever the values",
            &counts.rankings,
        ),
        ("On own findings, which no paper makes", &counts.own),
    ];
    let strips = titles.map(|(title, counts)| Strip {
        title: title.to_owned(),
        items: strip_of(counts),
    });
    let checks = counts.checks_hold().map(|checks| Strip {
        title: format!("{checks}: invariants of this program"),
        items: strip_of(&counts.checks),
    });
    let strips = strips.into_iter().chain(checks);
    strips.filter(|strip| !strip.items.is_empty()).collect()
}

/// Returns how many expectations were noted before a result was known.
pub(super) fn expectations(overview: &Overview) -> String {
    let claims = || overview.items.iter().flat_map(|item| &item.claims);
    let noted = |known: Known| {
        let is_so = |claim: &&JudgedClaim| {
            let predicted = claim.verdict.predicted.as_ref();
            claim.verdict.expect.is_some() && predicted.is_some_and(|noted| noted.known == known)
        };
        claims().filter(is_so).count()
    };
    let changed = claims()
        .filter(|claim| !claim.verdict.changes.is_empty())
        .count();
    format!(
        "Expected verdicts: {} were noted before a result was known, {} after. Claims whose terms \
         were changed since, each with the change beside its verdict: {changed}.",
        noted(Known::Before),
        noted(Known::After)
    )
}

/// Returns the verdicts by paper and kind of claim, without empty lines.
pub(super) fn tally(overview: &Overview) -> Vec<TallyLine> {
    let mut papers: Vec<&str> = Vec::new();
    for item in &overview.items {
        if !papers.contains(&&*item.paper) {
            papers.push(&item.paper);
        }
    }
    // One line for each kind of claim, with its name in the counts.
    let line = |paper: &str, place: usize| {
        let items = overview.items.iter().filter(|item| item.paper == paper);
        let counts = VerdictKind::ALL.map(|kind| {
            let of_item = |item: &ItemOverview| item.counts.named()[place].1.get(&kind).copied();
            items.clone().filter_map(of_item).sum()
        });
        TallyLine {
            paper: paper.to_owned(),
            kind: overview.counts.named()[place].0,
            counts: counts.into(),
        }
    };
    papers
        .into_iter()
        .flat_map(|paper| (0..overview.counts.named().len()).map(move |place| (paper, place)))
        .map(|(paper, place)| line(paper, place))
        .filter(|line| line.counts.iter().any(|count| *count > 0))
        .collect()
}

/// Returns the verdicts of the claims before these had kinds, by paper; see [`BEFORE`].
pub(super) fn before() -> Vec<TallyLine> {
    let mut lines: Vec<TallyLine> = Vec::new();
    for entry in BEFORE.lines().skip(1) {
        let mut cells = entry.split(',');
        let mut next = || cells.next().unwrap_or_default();
        let (paper, kind, verdict, number) = (next(), next(), next(), next());
        if !lines
            .last()
            .is_some_and(|line| line.paper == paper && line.kind == kind)
        {
            lines.push(TallyLine {
                paper: paper.to_owned(),
                kind,
                counts: vec![0; VerdictKind::ALL.len()],
            });
        }
        let place = VerdictKind::ALL.map(VerdictKind::as_str);
        let place = place.iter().position(|word| *word == verdict);
        if let (Some(line), Some(place)) = (lines.last_mut(), place) {
            line.counts[place] = number.parse().unwrap_or_default();
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_counts_before_is_read() {
        let lines = before();
        let read: usize = lines.iter().flat_map(|line| &line.counts).sum();
        let written: usize = (BEFORE.lines().skip(1))
            .filter_map(|line| line.rsplit(',').next()?.parse::<usize>().ok())
            .sum();
        assert_eq!(read, written, "{lines:?}");
        assert_eq!(written, 402);
        let values: usize = (lines.iter())
            .filter(|line| line.kind == "values with a published number")
            .map(|line| line.counts[0])
            .sum();
        assert_eq!((VerdictKind::ALL[0], values), (VerdictKind::Reproduced, 10));
    }
}
