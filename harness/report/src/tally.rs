//! Verdicts over several runs, counted by paper, by origin and by kind of claim: those on
//! measured figures and on simulated ones are never added up.

use epochcost_judge::analysis::counts::Counts;
use epochcost_judge::analysis::items::{How, ItemOverview, papers};
use epochcost_judge::analysis::overview::Overview;
use epochcost_spec::claims::VerdictKind;
use serde::Serialize;

use super::view::{StripItem, strip_of};

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
    /// Origin of the figures.
    pub origin: &'static str,
    /// The kind of claim.
    pub kind: &'static str,
    /// Numbers, in the order of the words.
    pub counts: Vec<usize>,
}

/// Returns the verdicts of items whose figures have one origin, for each origin that occurs.
pub(super) fn by_origin(overview: &Overview) -> Vec<(How, Counts)> {
    let counted = |origin: How| {
        let items = overview.items.iter().filter(|item| item.origin() == origin);
        let items: Vec<&ItemOverview> = items.collect();
        let claims = items.iter().flat_map(|item| &item.claims);
        let counts = Counts::of(claims.map(|claim| (&claim.verdict, claim.unexpected)));
        (!items.is_empty()).then_some((origin, counts))
    };
    How::OF_ITEMS.into_iter().filter_map(counted).collect()
}

/// Returns the verdicts on papers' printed figures and statements, and on own findings; checks in
/// one line; for each origin of figures.
pub(super) fn strips(overview: &Overview) -> Vec<Strip> {
    let run = by_origin(overview).into_iter();
    let run = run.filter(|(origin, _)| *origin != How::NotRun);
    run.flat_map(|(origin, counts)| strips_of(origin.as_str(), &counts))
        .collect()
}

fn strips_of(origin: &str, counts: &Counts) -> Vec<Strip> {
    let titles = [
        ("on printed figures of papers", &counts.figures),
        ("on statements of papers", &counts.statements),
        ("on own findings, which no paper makes", &counts.own),
    ];
    let strips = titles.map(|(title, counts)| Strip {
        title: format!("{origin}, {title}"),
        items: strip_of(counts),
    });
    let checks = counts.checks_hold().map(|checks| Strip {
        title: format!("{origin}, {checks}: invariants of this program"),
        items: strip_of(&counts.checks),
    });
    let strips = strips.into_iter().chain(checks);
    strips.filter(|strip| !strip.items.is_empty()).collect()
}

/// Returns the kinds of verdicts that occur, and the verdicts by paper, origin and kind of claim,
/// without empty lines.
pub(super) fn tally(overview: &Overview) -> (Vec<VerdictKind>, Vec<TallyLine>) {
    let words: Vec<VerdictKind> = overview.counts.all().into_keys().collect();
    // One line for each origin and kind of claim, with its name in the counts.
    let line = |paper: &str, origin: How, place: usize| {
        let items = overview.items.iter().filter(|item| item.paper == paper);
        let items = items.filter(|item| item.origin() == origin);
        let counts = words.iter().map(|kind| {
            let of_item = |item: &ItemOverview| item.counts.named()[place].1.get(kind).copied();
            items.clone().filter_map(of_item).sum()
        });
        TallyLine {
            paper: paper.to_owned(),
            origin: origin.as_str(),
            kind: overview.counts.named()[place].0,
            counts: counts.collect(),
        }
    };
    let kinds = overview.counts.named().len();
    let mut lines = Vec::new();
    for paper in papers(&overview.items) {
        for origin in How::OF_ITEMS {
            lines.extend((0..kinds).map(|place| line(paper, origin, place)));
        }
    }
    lines.retain(|line| line.counts.iter().any(|count| *count > 0));
    (words, lines)
}
