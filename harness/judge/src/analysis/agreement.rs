//! Rankings over draws of a simulation's constants: which figures a draw keeps, how many
//! draws agree with a claim, and the verdict.
//!
//! Draw k gives the same constants to every row, so that a ratio within one draw compares
//! two rows on one platform.

use std::collections::BTreeMap;

use epochcost_record::PlannedRow;
use epochcost_spec::claims::own::{OverRows, Place};
use epochcost_spec::claims::{Claim, Estimate, Metric, VerdictKind};
use epochcost_spec::rows::Row;
use serde::{Deserialize, Serialize};

use super::{RowAnalysis, TrialAnalysis};

pub use epochcost_spec::claims::own::Figure;

/// Percent of the draws that must hold for a comparison to agree.
const AGREES_PERCENT: usize = 95;

/// Percent of the draws up to which a comparison differs.
const DIFFERS_PERCENT: usize = 5;

/// Draws of a simulation's constants that agree with a ranking.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// Number of draws.
    pub draws: usize,
    /// Draws in which the ranking holds.
    pub agree: usize,
    /// Draws in which a row has no such figure; they count against both decisions.
    pub without_figure: usize,
    /// Draws in which the ranking holds, as a share of all, 0 to 1.
    pub share: f64,
    /// 2.5th and 97.5th percentile of the ratio over the draws that have one.
    pub interval: Option<[f64; 2]>,
}

impl Agreement {
    /// Counts the draws in which a formula holds, each with the ratio that it compares first, if
    /// that is a number.
    pub fn over(found: impl Iterator<Item = Option<(bool, Option<f64>)>>) -> Self {
        let found: Vec<Option<(bool, Option<f64>)>> = found.collect();
        let with_figure = || found.iter().flatten();
        let ratios: Vec<f64> = with_figure().filter_map(|(_, ratio)| *ratio).collect();
        let agree = with_figure().filter(|(holds, _)| *holds).count();
        Self {
            draws: found.len(),
            agree,
            without_figure: found.len() - with_figure().count(),
            share: agree as f64 / found.len().max(1) as f64,
            interval: Estimate::of_samples(&ratios).ci95,
        }
    }

    /// Returns what the draws decide, in whole numbers: no rounding moves an edge.
    pub fn kind(&self) -> VerdictKind {
        let most = self.agree + self.without_figure;
        if self.draws == 0 {
            VerdictKind::Open
        } else if 100 * self.agree >= AGREES_PERCENT * self.draws {
            VerdictKind::Agrees
        } else if 100 * most <= DIFFERS_PERCENT * self.draws {
            VerdictKind::Differs
        } else {
            VerdictKind::Open
        }
    }

    /// Returns what the draws decide where the figures are equal in some: these count against both
    /// decisions, since the simulation does not tell the figures apart.
    pub fn with_ties(&self, tied: usize) -> (VerdictKind, String) {
        let untold = Self {
            without_figure: self.without_figure + tied,
            ..*self
        };
        let (draws, reason) = (self.draws, self.reason());
        let reason = format!("the figures are equal in {tied} of {draws} draws; {reason}");
        (untold.kind(), reason)
    }

    /// Returns the standard error of the share: the part of it that is chance in a number
    /// of draws.
    fn standard_error(&self) -> f64 {
        (self.share * (1.0 - self.share) / self.draws.max(1) as f64).sqrt()
    }

    /// Returns the edge that the share is within two standard errors of, in percent.
    fn close_edge(&self) -> Option<usize> {
        let edges = [AGREES_PERCENT, DIFFERS_PERCENT];
        let reach = 2.0 * self.standard_error();
        let mut edges = edges.into_iter();
        edges.find(|edge| (self.share - *edge as f64 / 100.0).abs() < reach)
    }

    /// Returns it as a sentence.
    fn reason(&self) -> String {
        let (agree, draws, percent) = (self.agree, self.draws, 100.0 * self.share);
        let lacking = match self.without_figure {
            0 => String::new(),
            lacking => format!(", and {lacking} draws have no figure"),
        };
        let open = match self.kind() {
            VerdictKind::Open => {
                format!(": decided from {AGREES_PERCENT} % on, or up to {DIFFERS_PERCENT} %")
            }
            _ => String::new(),
        };
        let close = self.close_edge().map_or_else(String::new, |edge| {
            let error = 100.0 * self.standard_error();
            format!("; {edge} % is within two standard errors ({error:.1} points each)")
        });
        format!(
            "holds in {agree} of {draws} draws of the profile's constants \
             ({percent:.1} %){lacking}{open}{close}"
        )
    }
}

/// Returns the verdict that an agreement decides; undecided where the rows have no draws.
pub fn verdict(agreement: Result<Agreement, String>) -> (VerdictKind, String) {
    match agreement {
        Ok(agreement) => (agreement.kind(), agreement.reason()),
        Err(reason) => (VerdictKind::Open, reason),
    }
}

/// Returns a row's figure in each draw, or why it has none.
pub(super) fn values(
    row: &RowAnalysis,
    (metric, target): Figure,
) -> Result<&[Option<f64>], String> {
    let id = &row.planned.row.id;
    let drawn = row.draws.as_ref();
    let drawn = drawn.ok_or_else(|| format!("there are no draws of {id}"))?;
    if let Some(refused) = &drawn.refused {
        return Err(format!("{id} has no draws: {refused}"));
    }
    let found = drawn.values(metric, target);
    found.ok_or_else(|| format!("the draws of {id} do not have this figure"))
}

fn is_of_training(metric: Metric) -> bool {
    use Metric::{Accuracy, ReplicasIdentical, TrainLoss};
    matches!(metric, TrainLoss | Accuracy | ReplicasIdentical)
}

/// Returns whether a formula compares figures there, and ones that constants can change.
pub(super) fn is_drawn(place: &Place) -> bool {
    let is_trained = |(_, (metric, _)): &(&str, Figure)| is_of_training(*metric);
    let reads = place.reads();
    reads.len() > 1 && !reads.iter().any(is_trained)
}

/// Returns the figures that draws keep of each row, by the row's position: those that stand beside
/// printed ones, those that formulas compare, and, of such rows, those of the run's answer.
pub fn figures(claims: &[Claim], rows: &[PlannedRow]) -> BTreeMap<usize, Vec<Figure>> {
    let mut wanted: BTreeMap<usize, Vec<Figure>> = BTreeMap::new();
    let mut want = |place: usize, figure: Figure| {
        let of_row = wanted.entry(place).or_default();
        if !of_row.contains(&figure) {
            of_row.push(figure);
        }
    };
    let of_run: Vec<&Row> = rows.iter().map(|row| &row.row).collect();
    for claim in claims.iter().filter(|claim| claim.excluded.is_none()) {
        let places = claim.formula.as_ref().map(|formula| {
            let over = OverRows::new(formula, &of_run);
            over.map_or(Vec::new(), |over| over.places)
        });
        let printed = claim.printed.as_ref().zip(claim.metric);
        let printed = printed.filter(|(_, metric)| metric.is_of_machine());
        let printed = printed.map(|(printed, metric)| (&*printed.row, (metric, claim.target)));
        let places = places.unwrap_or_default();
        let compared = places.iter().filter(|place| is_drawn(place));
        for (id, figure) in printed.into_iter().chain(compared.flat_map(Place::reads)) {
            if let Some(row) = of_run.iter().position(|own| own.id == id) {
                want(row, figure);
            }
        }
    }
    for of_row in wanted.values_mut() {
        for metric in [Metric::SecondsPerEpoch, Metric::CostFullUsd] {
            if !of_row.contains(&(metric, None)) {
                of_row.push((metric, None));
            }
        }
    }
    wanted
}

/// Returns a trial's value of a figure; none for a trial that failed.
pub fn value(trial: &TrialAnalysis, row: &PlannedRow, figure: Figure) -> Option<f64> {
    if trial.trial.failure.is_some() {
        return None;
    }
    match figure {
        (_, Some(target)) => trial.time_to_accuracy(target),
        (metric, None) => trial.metric(metric, &row.row.job),
    }
}

#[cfg(test)]
mod tests {
    use epochcost_kernels::hash;

    use super::*;

    fn agreement(draws: usize, agree: usize, without_figure: usize) -> Agreement {
        Agreement {
            draws,
            agree,
            without_figure,
            share: agree as f64 / draws as f64,
            interval: None,
        }
    }

    /// 95 % of 300 are 285, of 59 are 56.05; 5 % are 15 and 2.95.
    #[test]
    fn edges_are_whole_draws() {
        use VerdictKind::{Agrees, Differs, Open};
        for (draws, agree, kind) in [
            (300, 300, Agrees),
            (300, 285, Agrees),
            (300, 284, Open),
            (300, 150, Open),
            (300, 16, Open),
            (300, 15, Differs),
            (300, 0, Differs),
            (59, 57, Agrees),
            (59, 56, Open),
            (59, 3, Open),
            (59, 2, Differs),
            (0, 0, Open),
        ] {
            let found = agreement(draws, agree, 0).kind();
            assert_eq!(found, kind, "{agree} of {draws}");
        }
    }

    #[test]
    fn draws_without_a_figure_count_against_both_decisions() {
        assert_eq!(agreement(300, 284, 16).kind(), VerdictKind::Open);
        assert_eq!(agreement(300, 285, 15).kind(), VerdictKind::Agrees);
        assert_eq!(agreement(300, 0, 16).kind(), VerdictKind::Open);
        assert_eq!(agreement(300, 0, 15).kind(), VerdictKind::Differs);
    }

    /// A simulation that gives both the same memory says nothing of which has more.
    #[test]
    fn draws_with_equal_figures_count_against_both_decisions() {
        let told = |agree, tied| agreement(300, agree, 0).with_ties(tied).0;
        assert_eq!(told(0, 300), VerdictKind::Open);
        assert_eq!(told(0, 16), VerdictKind::Open);
        assert_eq!(told(0, 15), VerdictKind::Differs);
        assert_eq!(told(285, 15), VerdictKind::Agrees);
        let (_, reason) = agreement(300, 0, 0).with_ties(300);
        let start = "the figures are equal in 300 of 300 draws";
        assert!(reason.starts_with(start), "{reason}");
    }

    /// √(0.95 · 0.05 / 300) = 1.26 points.
    #[test]
    fn a_share_close_to_an_edge_says_so() {
        let reason = |agree| agreement(300, agree, 0).reason();
        assert!(reason(285).contains("; 95 % is within two standard errors (1.3 points each)"));
        assert!(reason(23).contains("; 5 % is within"));
        for agree in [0, 3, 150, 297, 300] {
            assert!(!reason(agree).contains("standard errors"), "{agree}");
        }
    }

    /// A verdict and its mirror image are never both decided for.
    #[test]
    fn a_ranking_and_its_reverse_exclude_each_other() {
        for draws in [59, 60, 100, 300, 301] {
            for agree in 0..=draws {
                let kind = |agree| agreement(draws, agree, 0).kind();
                let mirrored = match kind(agree) {
                    VerdictKind::Agrees => VerdictKind::Differs,
                    VerdictKind::Differs => VerdictKind::Agrees,
                    open => open,
                };
                assert_eq!(kind(draws - agree), mirrored, "{agree} of {draws}");
            }
        }
    }

    /// With the same draw on both sides, what both have in common cancels.
    #[test]
    fn common_draws_compare_what_differs() {
        let values = |seed, factor: f64| -> Vec<Option<f64>> {
            let unit = |draw| f64::from(hash::unit_f32(hash::mix(seed, draw)));
            (0..300)
                .map(|draw| Some(factor * (1.0 + unit(draw))))
                .collect()
        };
        let [longer, unpaired] = [1, 2].map(|seed| values(seed, 1.01));
        let values = values(1, 1.0);
        let kind = |divisors: &[Option<f64>]| {
            let both = values.iter().zip(divisors);
            let found = both.map(|(value, divisor)| {
                let ratio: f64 = (*value)? / (*divisor)?;
                Some((ratio <= 1.0, Some(ratio)))
            });
            Agreement::over(found).kind()
        };
        assert_eq!(kind(&longer), VerdictKind::Agrees);
        assert_eq!(kind(&unpaired), VerdictKind::Open);
    }
}
