//! Rankings over draws of a simulation's constants: which figures a draw keeps, how many
//! draws agree with a claim, and the verdict.
//!
//! Draw k gives the same constants to every row, so that a ratio within one draw compares
//! two rows on one platform.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{RowAnalysis, TrialAnalysis};
use crate::claims::own::{OverRows, Place};
use crate::claims::{Claim, Estimate, Metric, Scale, VerdictKind, fill, matches};
use crate::results::PlannedRow;
use crate::rows::Row;

pub use crate::claims::own::Figure;

/// Percent of the draws that must agree for a ranking to be reproduced.
const REPRODUCED_PERCENT: usize = 95;

/// Percent of the draws up to which a ranking is not reproduced.
const NOT_REPRODUCED_PERCENT: usize = 5;

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
    /// Counts the draws in which the ratio of two rows' values lies in the claim's band.
    pub fn count(claim: &Claim, values: &[Option<f64>], divisors: &[Option<f64>]) -> Self {
        let scale = claim.scale().unwrap_or(Scale::NONE);
        let band = claim.band();
        let found = |draw: usize| {
            let (value, divisor) = (values.get(draw)?, divisors.get(draw)?);
            let ratio = scale.apply((*value)? / (*divisor)?);
            ratio
                .is_finite()
                .then(|| (band.contains(ratio), Some(ratio)))
        };
        Self::over((0..values.len().max(divisors.len())).map(found))
    }

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
            VerdictKind::Undecided
        } else if 100 * self.agree >= REPRODUCED_PERCENT * self.draws {
            VerdictKind::Reproduced
        } else if 100 * most <= NOT_REPRODUCED_PERCENT * self.draws {
            VerdictKind::NotReproduced
        } else {
            VerdictKind::Undecided
        }
    }

    /// Returns the standard error of the share: the part of it that is chance in a number
    /// of draws.
    fn standard_error(&self) -> f64 {
        (self.share * (1.0 - self.share) / self.draws.max(1) as f64).sqrt()
    }

    /// Returns the edge that the share is within two standard errors of, in percent.
    fn close_edge(&self) -> Option<usize> {
        let edges = [REPRODUCED_PERCENT, NOT_REPRODUCED_PERCENT];
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
            VerdictKind::Undecided => {
                format!(
                    ": decided from {REPRODUCED_PERCENT} % on, or up to {NOT_REPRODUCED_PERCENT} %"
                )
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
        Err(reason) => (VerdictKind::Undecided, reason),
    }
}

/// Returns the agreement of the draws of `rows` (the selected row, and what it is divided
/// by) with a ranking; none where a ranking is not judged over draws. `draws` is the run's
/// number of draws.
pub fn of(claim: &Claim, rows: &[&RowAnalysis], draws: u32) -> Option<Result<Agreement, String>> {
    let figure = figure(claim).filter(|_| draws > 0)?;
    let [row, divisor] = rows else { return None };
    let both = values(row, figure);
    let both = both.and_then(|own| Ok((own, values(divisor, divisor_of(claim, figure))?)));
    Some(both.map(|(own, divisor)| Agreement::count(claim, own, divisor)))
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

/// Returns the figure that a ranking compares, unless constants cannot change it: losses,
/// accuracies and bits are those of the training, which a draw does not repeat. A second
/// limit on the ratio (`at_least: 0`) does not make a ranking a value here.
fn figure(claim: &Claim) -> Option<Figure> {
    let is_limited = claim.at_least.is_some() || claim.at_most.is_some();
    let metric = claim
        .metric
        .filter(|_| claim.over.is_some() && is_limited)?;
    (!is_of_training(metric)).then_some((metric, claim.target))
}

fn is_of_training(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::TrainLoss | Metric::Accuracy | Metric::ReplicasIdentical
    )
}

/// Returns whether a formula compares figures there, and ones that constants can change.
pub(super) fn is_drawn(place: &Place) -> bool {
    let is_trained = |(_, (metric, _)): &(&str, Figure)| is_of_training(*metric);
    let reads = place.reads();
    reads.len() > 1 && !reads.iter().any(is_trained)
}

/// Returns the figure of the row that a ranking divides by.
fn divisor_of(claim: &Claim, (metric, target): Figure) -> Figure {
    (claim.over_metric.unwrap_or(metric), target)
}

/// Returns the figures that draws keep of each row, by the row's position: those that the
/// claims' rankings compare.
pub fn figures(claims: &[Claim], rows: &[PlannedRow]) -> BTreeMap<usize, Vec<Figure>> {
    let mut wanted: BTreeMap<usize, Vec<Figure>> = BTreeMap::new();
    let mut want = |place: usize, figure: Figure| {
        let of_row = wanted.entry(place).or_default();
        if !of_row.contains(&figure) {
            of_row.push(figure);
        }
    };
    for claim in claims.iter().filter(|claim| claim.not_run.is_none()) {
        if let Some(formula) = &claim.formula {
            let of_run: Vec<&Row> = rows.iter().map(|row| &row.row).collect();
            let places = OverRows::new(formula, &of_run).map(|over| over.places);
            let places = places.unwrap_or_default();
            for (id, figure) in places
                .iter()
                .filter(|place| is_drawn(place))
                .flat_map(Place::reads)
            {
                if let Some(row) = of_run.iter().position(|own| own.id == id) {
                    want(row, figure);
                }
            }
            continue;
        }
        let (Some(figure), Some(over)) = (figure(claim), &claim.over) else {
            continue;
        };
        for (place, row) in rows.iter().enumerate() {
            if !matches(&claim.select, &row.row) {
                continue;
            }
            let filled = fill(over, &row.row);
            let others = rows.iter().enumerate();
            let others: Vec<usize> = others
                .filter(|(_, other)| matches(&filled, &other.row))
                .map(|(other, _)| other)
                .collect();
            // More than one divisor is a verdict of its own.
            if let [divisor] = others.as_slice() {
                want(place, figure);
                want(*divisor, divisor_of(claim, figure));
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

    fn claim(rest: &str) -> Claim {
        let text = format!(
            r#"{{"kind": "own", "claim": "c", "select": {{}}, "over": {{}}, "metric": "seconds_per_epoch", {rest}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

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
        use VerdictKind::{NotReproduced, Reproduced, Undecided};
        for (draws, agree, kind) in [
            (300, 300, Reproduced),
            (300, 285, Reproduced),
            (300, 284, Undecided),
            (300, 150, Undecided),
            (300, 16, Undecided),
            (300, 15, NotReproduced),
            (300, 0, NotReproduced),
            (59, 57, Reproduced),
            (59, 56, Undecided),
            (59, 3, Undecided),
            (59, 2, NotReproduced),
            (0, 0, Undecided),
        ] {
            assert_eq!(
                agreement(draws, agree, 0).kind(),
                kind,
                "{agree} of {draws}"
            );
        }
    }

    #[test]
    fn draws_without_a_figure_count_against_both_decisions() {
        assert_eq!(agreement(300, 284, 16).kind(), VerdictKind::Undecided);
        assert_eq!(agreement(300, 285, 15).kind(), VerdictKind::Reproduced);
        assert_eq!(agreement(300, 0, 16).kind(), VerdictKind::Undecided);
        assert_eq!(agreement(300, 0, 15).kind(), VerdictKind::NotReproduced);
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
                let (one, other) = (
                    agreement(draws, agree, 0),
                    agreement(draws, draws - agree, 0),
                );
                let mirrored = match one.kind() {
                    VerdictKind::Reproduced => VerdictKind::NotReproduced,
                    VerdictKind::NotReproduced => VerdictKind::Reproduced,
                    open => open,
                };
                assert_eq!(other.kind(), mirrored, "{agree} of {draws}");
            }
        }
    }

    #[test]
    fn ratios_within_a_draw_are_compared_with_the_limit() {
        let ahead = claim(r#""at_most": 1.0"#);
        let values = [Some(1.0), Some(2.0), Some(3.0), None, Some(0.0)];
        let divisors = [Some(1.0), Some(1.0), Some(4.0), Some(1.0), Some(0.0)];
        let counted = Agreement::count(&ahead, &values, &divisors);
        assert_eq!(
            (counted.draws, counted.agree, counted.without_figure),
            (5, 2, 2)
        );
        assert_eq!(counted.share, 0.4);
        let saved = claim(r#""at_least": 20, "unit": "% less""#);
        let counted = Agreement::count(&saved, &values[..3], &divisors[..3]);
        assert_eq!((counted.draws, counted.agree), (3, 1));
        let lacking = Agreement::count(&ahead, &values, &divisors[..2]);
        assert_eq!((lacking.draws, lacking.without_figure), (5, 3));
    }

    /// With the same draw on both sides, what both have in common cancels.
    #[test]
    fn common_draws_compare_what_differs() {
        let common = |draw: u32| 1.0 + f64::from(hash::unit_f32(hash::mix(1, draw.into())));
        let other = |draw: u32| 1.0 + f64::from(hash::unit_f32(hash::mix(2, draw.into())));
        let values: Vec<_> = (0..300).map(|draw| Some(common(draw))).collect();
        let longer: Vec<_> = (0..300).map(|draw| Some(1.01 * common(draw))).collect();
        let unpaired: Vec<_> = (0..300).map(|draw| Some(1.01 * other(draw))).collect();
        let ahead = claim(r#""at_most": 1.0"#);
        let kind = |divisors: &[Option<f64>]| Agreement::count(&ahead, &values, divisors).kind();
        assert_eq!(kind(&longer), VerdictKind::Reproduced);
        assert_eq!(kind(&unpaired), VerdictKind::Undecided);
    }

    #[test]
    fn constants_judge_rankings_of_what_they_can_change() {
        let limit = r#""at_most": 1.0"#;
        assert!(figure(&claim(limit)).is_some());
        assert!(figure(&claim(r#""at_least": 0, "at_most": 1.0"#)).is_some());
        assert_eq!(
            figure(&claim(r#""published": 2.0, "tolerance": 0.1"#)),
            None
        );
        for metric in [
            Metric::TrainLoss,
            Metric::Accuracy,
            Metric::ReplicasIdentical,
        ] {
            let of_training = Claim {
                metric: Some(metric),
                ..claim(limit)
            };
            assert_eq!(figure(&of_training), None);
        }
        // A stage over another: each row's draws keep their own figure.
        let stages = claim(r#""at_least": 1, "over_metric": "put""#);
        let own = figure(&stages).unwrap();
        assert_eq!(own, (Metric::SecondsPerEpoch, None));
        assert_eq!(divisor_of(&stages, own).0.name(), "put");
        let alone = Claim {
            over: None,
            ..claim(limit)
        };
        assert_eq!(figure(&alone), None);
    }
}
