//! Trust in repeated times: outliers, spread, drift, and trials that were not
//! interleaved. Every warning names a remedy.

use std::collections::BTreeMap;

use epochcost_record::TrialId;
use epochcost_simulator::profile;
use epochcost_spec::claims::Metric;
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::RowAnalysis;

/// A modified z-score beyond this is an outlier (Iglewicz and Hoaglin 1993).
const OUTLIER_SCORE: f64 = 3.5;

/// The normal distribution's third quartile: makes a median absolute deviation
/// comparable with a standard deviation.
const QUARTILE: f64 = 0.6745;

/// Trials from which on a median of deviations is meaningful.
const LEAST_FOR_OUTLIERS: usize = 5;

/// Number of values of which at most one is an outlier.
const MOST_OUTLIERS: usize = 5;

/// Differences below this share are not worth a warning.
const RELEVANT: f64 = 0.10;

/// Half an interval, as a share of the mean, that advice aims at.
const AIM: f64 = 0.05;

/// Trials of a whole run from which on a trend can be distinguished from chance.
const LEAST_FOR_DRIFT: usize = 12;

/// A trend as strong by chance alone in one of so many runs is one.
const DRIFT_SIGNIFICANCE: f64 = 0.01;

/// Standard normal 97.5th percentile.
const Z: f64 = 1.96;

/// Returns everything odd about the times of these rows, a sentence each; `order` is every trial
/// in the order in which they were run.
pub(super) fn of(rows: &[RowAnalysis], order: &[TrialId]) -> Vec<String> {
    let of_row = |row: &RowAnalysis| of_row(&row.planned.row.id, &times(row));
    let mut found: Vec<String> = rows.iter().flat_map(of_row).collect();
    found.extend(drift(&in_order(rows, order)).map(|change| {
        format!(
            "times {} by {:.0} % from the first half of the run to the second, which chance hardly \
             does: the machine became slower or faster; rows compare with each other, since trials \
             are interleaved, but not with another run",
            if change > 0.0 { "rose" } else { "fell" },
            change.abs() * 100.0
        )
    }));
    if !are_interleaved(order) {
        found.push(
            "trials of different rows were not interleaved, so that whatever changed on the machine \
             counts as a difference between rows: run them in one run"
                .to_owned(),
        );
    }
    found
}

fn times(row: &RowAnalysis) -> Vec<(usize, f64)> {
    let times = row.values(Metric::SecondsPerEpoch).into_iter();
    let numbered = times.map(|(trial, seconds)| (trial.trial.id.trial, seconds));
    numbered.collect()
}

fn of_row(row: &str, times: &[(usize, f64)]) -> Vec<String> {
    let values: Vec<f64> = times.iter().map(|(_, seconds)| *seconds).collect();
    let middle = median(&values);
    let is_far = |place: &usize| (values[*place] / middle - 1.0).abs() >= RELEVANT;
    let mut odd: Vec<usize> = outliers(&values).into_iter().filter(is_far).collect();
    let mut found = Vec::new();
    if let Some(place) = odd.iter().position(|place| times[*place].0 == 0)
        && values[odd[place]] > middle
    {
        let times = values[odd.remove(place)] / middle;
        found.push(format!(
            "{row}: the first trial took {times:.1} times the median of all: caches were cold; run \
             it again now that files are in memory, and compare with that run"
        ));
    }
    if !odd.is_empty() {
        let noun = if odd.len() == 1 { "trial" } else { "trials" };
        let numbers = odd.iter().map(|place| times[*place].0.to_string());
        let numbers = numbers.collect::<Vec<_>>().join(", ");
        found.push(format!(
            "{row}: the times of {noun} {numbers} are far from the others' (modified z-score above \
             {OUTLIER_SCORE}): something else ran; run again on a quiet machine, or with more \
             --trials"
        ));
    }
    if let Some(share) = spread(&values).filter(|share| *share >= RELEVANT) {
        let enough = (Z * share / AIM).powi(2).ceil();
        let [share, aim] = [share, AIM].map(|share| share * 100.0);
        found.push(format!(
            "{row}: times vary by {share:.0} % (standard deviation over mean): on a quieter machine \
             they would vary less; as they are, --trials {enough} would bring the interval to \
             ± {aim:.0} %"
        ));
    }
    found
}

/// Returns the indices of values whose modified z-score is beyond 3.5: 0.6745
/// times the distance from the median, over the median of such distances. More
/// than a fifth of all are no outliers: such values fall into groups, as where
/// a poll finds in time what it waits for, or does not.
fn outliers(values: &[f64]) -> Vec<usize> {
    if values.len() < LEAST_FOR_OUTLIERS {
        return Vec::new();
    }
    let middle = median(values);
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let typical = median(&distances);
    let is_odd = |distance: f64| distance > 0.0 && QUARTILE * distance > OUTLIER_SCORE * typical;
    let mut odd: Vec<usize> = (0..values.len()).collect();
    odd.retain(|place| is_odd(distances[*place]));
    if odd.len() * MOST_OUTLIERS > values.len() {
        odd.clear();
    }
    odd
}

/// Returns the median; NaN without values.
fn median(values: &[f64]) -> f64 {
    profile::median(values).unwrap_or(f64::NAN)
}

/// Returns the standard deviation over the mean, from three values on.
fn spread(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares = (values.iter()).map(|value| (value / mean - 1.0).powi(2));
    let squares: f64 = squares.sum();
    let share = (squares / (n - 1.0)).sqrt();
    (values.len() >= 3 && share.is_finite()).then_some(share)
}

/// Returns times over the median of their row, in the order in which they were
/// taken.
fn in_order(rows: &[RowAnalysis], order: &[TrialId]) -> Vec<f64> {
    let mut relative: BTreeMap<TrialId, f64> = BTreeMap::new();
    for row in rows {
        let times = times(row);
        let seconds: Vec<f64> = times.iter().map(|(_, seconds)| *seconds).collect();
        let middle = median(&seconds);
        for (trial, seconds) in times {
            let row = row.planned.row.id.clone();
            relative.insert(TrialId { row, trial }, seconds / middle);
        }
    }
    let known = order.iter().filter_map(|id| relative.get(id));
    known.copied().collect()
}

/// Returns the change from the mean of the first half to that of the second, if
/// it is relevant and the values' rank correlation with their order is
/// significant.
fn drift(relative: &[f64]) -> Option<f64> {
    let n = relative.len();
    if n < LEAST_FOR_DRIFT {
        return None;
    }
    let (first, second) = relative.split_at(n / 2);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let change = mean(second) / mean(first) - 1.0;
    let correlation = rank_correlation(relative);
    let freedom = n as f64 - 2.0;
    let t = correlation.abs() * (freedom / (1.0 - correlation.powi(2))).sqrt();
    let chance = 2.0 * (1.0 - StudentsT::new(0.0, 1.0, freedom).ok()?.cdf(t));
    (change.abs() >= RELEVANT && chance < DRIFT_SIGNIFICANCE).then_some(change)
}

/// Returns Spearman's correlation of values with their places.
fn rank_correlation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mut places: Vec<usize> = (0..values.len()).collect();
    places.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let ranks = places.iter().enumerate();
    let squares = ranks.map(|(rank, place)| (rank as f64 - *place as f64).powi(2));
    let squares: f64 = squares.sum();
    1.0 - 6.0 * squares / (n * (n * n - 1.0))
}

/// Returns whether trial t of every row was run before trial t + 1 of any.
fn are_interleaved(order: &[TrialId]) -> bool {
    order.is_sorted_by_key(|id| id.trial)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::holds;

    fn numbered(values: &[f64]) -> Vec<(usize, f64)> {
        values.iter().copied().enumerate().collect()
    }

    /// Median 10, median distance 0.1: 13 has a score of 0.6745 · 30 = 20.
    #[test]
    fn an_outlier_is_far_from_the_median() {
        let values = [10.0, 10.1, 9.9, 10.05, 13.0, 10.0, 9.85];
        assert_eq!(outliers(&values), [4]);
        assert_eq!(outliers(&values[..4]), [0usize; 0]);
        assert_eq!(outliers(&[5.0; 6]), [0usize; 0]);
        let groups = [1.0, 1.0, 1.01, 1.0, 0.99, 2.0, 2.01, 2.0];
        assert_eq!(outliers(&groups), [0usize; 0], "two groups");
        let found = of_row("r", &numbered(&values));
        holds(&found[0], &["r: the times of trial 4 are", "--trials"]);
    }

    #[test]
    fn a_slow_first_trial_is_a_cold_cache() {
        let found = of_row("r", &numbered(&[2.0, 1.0, 1.01, 0.99, 1.0, 1.02]));
        holds(&found[0], &["the first trial took 2.0 times the median"]);
        let fast = of_row("r", &numbered(&[0.5, 1.0, 1.01, 0.99, 1.0, 1.02]));
        holds(&fast[0], &["the times of trial 0 are far"]);
    }

    /// Standard deviation 0.5 of mean 1: (1.96 · 0.5 / 0.05)² = 384.2.
    #[test]
    fn a_wide_spread_names_the_trials_that_would_help() {
        let found = of_row("r", &numbered(&[0.5, 1.0, 1.5]));
        holds(&found[0], &["vary by 50 %", "--trials 385 "]);
        let is_quiet = |values: &[f64]| of_row("r", &numbered(values)).is_empty();
        assert!(is_quiet(&[0.99, 1.0, 1.01]));
        assert!(is_quiet(&[1.0, 2.0]), "two are too few");
    }

    #[test]
    fn a_trend_is_told_from_noise() {
        let rising: Vec<f64> = (0..20).map(|trial| 1.0 + 0.02 * f64::from(trial)).collect();
        assert!(drift(&rising).is_some_and(|change| (change - 0.2 / 1.09).abs() < 1e-9));
        let swinging: Vec<f64> = (0..20).map(|trial| [1.0, 1.4][trial % 2]).collect();
        assert_eq!(drift(&swinging), None);
        let slight: Vec<f64> = rising.iter().map(|value| 1.0 + value / 50.0).collect();
        assert_eq!(drift(&slight), None, "a trend that moves nothing");
    }

    #[test]
    fn rows_take_turns() {
        let order = |ids: &[(&str, usize)]| -> Vec<TrialId> {
            let id = |(row, trial): &(&str, usize)| TrialId {
                row: (*row).to_owned(),
                trial: *trial,
            };
            ids.iter().map(id).collect()
        };
        let turns = order(&[("a", 0), ("b", 0), ("a", 1), ("b", 1)]);
        assert!(are_interleaved(&turns));
        assert!(!are_interleaved(&order(&[("a", 0), ("a", 1), ("b", 0)])));
    }
}
