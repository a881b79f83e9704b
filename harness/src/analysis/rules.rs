//! The rules by which an observed value becomes a verdict, whatever it was read
//! from.

use epochcost_simulator::profile::FittedTo;

use super::leads;
use super::verdicts::compare;
use crate::claims::{Claim, Estimate, Metric, VerdictKind, paper_of};

/// Reason for which one training decides no ranking by learning.
pub(super) const ONE_SEED: &str =
    "one seed: how far training differs from seed to seed is not known";

/// What decides a verdict beside the claim and the observed value.
#[derive(Clone, Debug, Default)]
pub struct Circumstances {
    /// Verdict of the draws of a simulated ranking, which takes the place of the
    /// comparison with the band.
    pub decided: Option<(VerdictKind, String)>,
    /// Whether trials sample the ranges of a simulation's constants.
    pub is_sampled: bool,
    /// Dataset that was trained on, if it is a generated one.
    pub generated: Option<String>,
    /// The one machine that times belong to, if they are of no cloud.
    pub machine: Option<String>,
    /// What the figures of a simulation rest on.
    pub fits: Vec<Fit>,
    /// Published cells that no constant was fitted to.
    pub held_out: Vec<String>,
    /// Test images by which the first of two ranked rows leads; none of other claims.
    pub lead: Option<Estimate>,
    /// Whether one of the rows was trained with one seed only.
    pub is_one_seed: bool,
}

/// A number of a simulation that was fitted to published figures.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The constant's path, or the compute profile.
    pub what: String,
    /// The figures; none if it is not recorded which.
    pub to: Option<FittedTo>,
    /// Figures that rest on it.
    pub rests: Rests,
}

/// Figures that rest on a number of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rests {
    /// Times, and what is computed from them.
    Times,
    /// Times of workers, which fetch data and keep state beside the exchange:
    /// all but those of functions that average or update alone.
    WorkerTimes,
    /// Times of workers that compute gradients, and peak memory.
    Computing,
}

/// What a claim's figure rests on.
enum Basis {
    /// Nothing of the claim's paper, or constants that leave the claim's cell out.
    Independent,
    /// The published figure itself, or one that it follows from.
    Itself(String),
    /// Other figures of the same paper.
    SamePaper(String),
}

/// Returns the verdict on `claim` and its reason. `claims` are those of the run,
/// among them those that a consequence follows from.
pub fn decide(
    claim: &Claim,
    claims: &[Claim],
    observed: Estimate,
    at: &Circumstances,
) -> (VerdictKind, String) {
    if let Some(reason) = incomparable(claim, observed, at) {
        return (VerdictKind::Undecided, reason);
    }
    let (kind, reason) = compared(claim, observed, at);
    let kind = kind.for_kind(claim.kind);
    let put_in = claim.put_in.as_ref().filter(|_| kind.agrees());
    match (basis(claim, claims, at), put_in) {
        (Basis::Itself(what), _) => (VerdictKind::ByConstruction, format!("{what}; {reason}")),
        (Basis::SamePaper(what), _) if kind.agrees() => {
            (VerdictKind::ByConstruction, format!("{what}; {reason}"))
        }
        (_, Some(what)) => (VerdictKind::ByConstruction, format!("{what}; {reason}")),
        _ => (kind, reason),
    }
}

/// Returns what draws, leads or the band decide, whatever the figure rests on.
fn compared(claim: &Claim, observed: Estimate, at: &Circumstances) -> (VerdictKind, String) {
    // Another processor's rounding can turn what one seed says.
    let is_by_learning = claim.metric == Some(Metric::TimeToAccuracy);
    if is_by_learning && claim.is_ranking() && at.is_one_seed {
        return (VerdictKind::Undecided, ONE_SEED.into());
    }
    match (&at.decided, at.lead) {
        (Some(decided), _) => decided.clone(),
        (None, Some(lead)) => leads::decide(lead),
        (None, None) => compare(claim, observed, at.is_sampled),
    }
}

/// Returns why the observed figure is not one that the published can be compared
/// with, whatever both are, if it is not.
pub fn incomparable(claim: &Claim, observed: Estimate, at: &Circumstances) -> Option<String> {
    let metric = claim.metric?;
    if let Some(dataset) = &at.generated
        && metric.is_learned()
        && claim.kind.is_of_paper()
    {
        let there = compared(claim, observed, at).0;
        return Some(on_generated(claim, there, dataset));
    }
    let machine = at.machine.as_ref()?;
    if claim.is_ranking() && metric.is_share_of_processor() {
        let there = as_published(compared(claim, observed, at).0);
        return Some(format!(
            "a use of the processor of {machine}, which depends on what else it computes{there}"
        ));
    }
    if claim.published.is_none() || !metric.is_of_machine() {
        return None;
    }
    let what = match metric.unit() {
        "USD" => "a cost computed from seconds",
        "MB" => "memory of the programs",
        "%" => "a use of the processor",
        _ => "a time",
    };
    let reason = format!("{what} of {machine}: not comparable with one published for AWS");
    Some(reason)
}

/// Returns what the claim's figure rests on; claims that no paper makes are not
/// counted as a paper's, and rest on what they say.
fn basis(claim: &Claim, claims: &[Claim], at: &Circumstances) -> Basis {
    let Some(metric) = claim.metric.filter(|_| claim.kind.is_of_paper()) else {
        return Basis::Independent;
    };
    let rests = |fit: &&Fit| match fit.rests {
        Rests::Times => metric.is_timed(),
        Rests::WorkerTimes => metric.is_timed() && metric.stands_on_compute(),
        Rests::Computing => metric.stands_on_compute(),
    };
    // The claim's own cell, and those that it follows from.
    let bases = claims
        .iter()
        .filter(|other| claim.of.contains(&other.claim));
    let cells: Vec<String> = (std::iter::once(claim).chain(bases))
        .filter_map(|claim| claim.cell.as_ref().map(ToString::to_string))
        .collect();
    let is_held_out = !cells.is_empty() && cells.iter().all(|cell| at.held_out.contains(cell));
    let mut same_paper = None;
    for fit in at.fits.iter().filter(rests) {
        let Some(to) = &fit.to else {
            return Basis::Itself(format!("computed from published durations ({})", fit.what));
        };
        if cells.iter().any(|cell| to.cells.contains(cell)) {
            return Basis::Itself(format!("{} is fitted to it ({})", fit.what, to.source));
        }
        if claim.paper() == Some(paper_of(&to.source)) && !is_held_out {
            same_paper.get_or_insert_with(|| {
                format!(
                    "{} is fitted to other figures of the same paper ({})",
                    fit.what, to.source
                )
            });
        }
    }
    same_paper.map_or(Basis::Independent, Basis::SamePaper)
}

/// Explains why figures on the original data, rankings included, cannot be
/// compared with those of training on other data; and which way they fall there.
fn on_generated(claim: &Claim, there: VerdictKind, dataset: &str) -> String {
    let there = match claim.published {
        Some(_) => "",
        None => as_published(there),
    };
    format!(
        "trained on {dataset}, a generated set: not comparable with what is published for the \
         original data{there}"
    )
}

/// Says which way a ranking falls where it decides nothing.
fn as_published(there: VerdictKind) -> &'static str {
    match there {
        VerdictKind::Reproduced => "; there it is as published",
        VerdictKind::NotReproduced | VerdictKind::DirectionOnly => "; there it is not as published",
        _ => "; there it is undecided",
    }
}
