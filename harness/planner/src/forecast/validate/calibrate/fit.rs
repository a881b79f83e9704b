//! Constants that follow from measured rows and from what a profile stated before them.

use epochcost_simulator::profile::{Constant, Level, Profile};
use serde::Serialize;

use super::super::rounds::Prices;
use super::belief::{Belief, dot};
use super::linear::{Linear, Parameter, Row, linear, moved};

/// Passes, each of which simulates the rows at the constants of the one before (Gauss and Newton's
/// method).
const PASSES: usize = 3;
/// Standard deviation of the logarithm of the model's own error: what verdicts assume first.
pub(super) const MODEL: f64 = 0.1;
/// Slope from which a row counts as one of a constant.
const OF_CONSTANT: f64 = 0.1;
/// Share of its variance that rows must take from a constant before it moves.
pub(super) const INFORMED: f64 = 0.05;
/// The same share, each alone, from which two constants that cannot be told apart are named.
const WORTH_NAMING: f64 = 0.2;
/// Cosine between the slopes of two constants above which rows do not tell them apart.
const CONFUSED: f64 = 0.95;

/// Factor by which a measured figure may differ from its prediction: another unit is further away.
const FAR: f64 = 100.0;

/// A constant that stays as it was, since rows do not tell it from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Confused {
    /// Its path.
    pub(super) path: String,
    /// Path of the one that moved.
    pub(super) with: String,
}

/// What rows say of a profile's constants.
pub(super) struct Fitted {
    /// The constants.
    pub(super) parameters: Vec<Parameter>,
    /// What is believed of the logarithm of each, over its value, and of the days.
    pub(super) belief: Belief,
    /// The constants that stay, since others explain the same rows.
    pub(super) confused: Vec<Confused>,
    /// Number of rows of each constant.
    pub(super) rows: Vec<usize>,
    /// Birge ratio of the rows that each constant matters most to; 1 if they agree.
    pub(super) scatter: Vec<f64>,
    /// Measured over predicted figures, before and after; without the rows that cannot be predicted.
    pub(super) ratios: Vec<(f64, f64)>,
    /// Places of rows that no calibration explains, with measured over predicted figures.
    pub(super) far: Vec<(String, f64)>,
    /// Places of rows that cannot be predicted or that no constant changes.
    pub(super) unused: Vec<String>,
}

/// Fits `parameters` of `profile` to rows; `first` are these rows near its values, if they are known.
pub(super) fn fit(
    profile: &Profile<Constant>,
    mut parameters: Vec<Parameter>,
    rows: &[Row],
    prices: &Prices,
    first: Option<Vec<Option<Linear>>>,
) -> Fitted {
    let before = first.unwrap_or_else(|| linear(profile, &parameters, rows, prices, None));
    let confused = confused(&mut parameters, &before);
    let days = Days::new(profile, &parameters, rows);
    let mut lines = before.clone();
    let mut belief = days.unseen(&parameters);
    let mut seen = Vec::new();
    for pass in 1..=PASSES {
        let by = &belief.mean[..parameters.len()];
        let both = rows.iter().zip(&lines);
        let observations = both.filter_map(|(row, line)| {
            let line = line.as_ref()?;
            Some(Observation {
                // What the row says of the constants' logarithms over their stated values.
                value: row.measured.ln() - line.log + dot(&line.slopes, by),
                variance: MODEL.powi(2) + line.noise.powi(2),
                slopes: days.slopes(&parameters, row, line),
            })
        });
        seen = observations.collect();
        belief = taken_in(days.unseen(&parameters), &seen);
        if pass < PASSES {
            let at = moved(profile, &parameters, &belief.mean[..parameters.len()]);
            lines = linear(&at, &parameters, rows, prices, Some(&before));
        }
    }
    let scatter = days.scatter(&parameters, &mut seen, &belief);
    belief = taken_in(days.unseen(&parameters), &seen);
    let at = moved(profile, &parameters, &belief.mean[..parameters.len()]);
    let after = linear(&at, &[], rows, prices, None);
    let matters = |line: &Linear| line.slopes.iter().any(|slope| slope.abs() >= OF_CONSTANT);
    let is_used = |line: &Option<Linear>| line.as_ref().is_some_and(matters);
    let lines = || rows.iter().zip(before.iter().zip(&after));
    let ratios = lines().filter(|(_, (line, _))| is_used(line));
    let ratios = ratios.filter_map(|(row, (before, after))| {
        let over = |line: &Linear| row.measured / line.log.exp();
        Some((over(before.as_ref()?), over(after.as_ref()?)))
    });
    let unused = lines().filter(|(_, (line, _))| !is_used(line));
    let of = |index: usize| {
        let is_of = |line: &&Linear| line.slopes[index].abs() >= OF_CONSTANT;
        before.iter().flatten().filter(is_of).count()
    };
    let far = lines().filter_map(|(row, (before, _))| {
        let ratio = row.measured / before.as_ref()?.log.exp();
        let is_far = !(1.0 / FAR..=FAR).contains(&ratio);
        is_far.then(|| (row.place.clone(), ratio))
    });
    Fitted {
        far: far.collect(),
        ratios: ratios.collect(),
        unused: unused.map(|(row, _)| row.place.clone()).collect(),
        rows: (0..parameters.len()).map(of).collect(),
        parameters,
        belief,
        confused,
        scatter,
    }
}

/// What a row says of the logarithms of constants, and of the levels of days.
#[derive(Clone, Debug)]
struct Observation {
    slopes: Vec<f64>,
    value: f64,
    /// Of its error, beside the level of its day.
    variance: f64,
}

/// Returns a belief after observations.
fn taken_in(mut belief: Belief, seen: &[Observation]) -> Belief {
    for row in seen {
        belief.see(&row.slopes, row.value, row.variance);
    }
    belief
}

impl Fitted {
    /// Returns the share of its variance that the rows took from a constant.
    pub(super) fn weight(&self, index: usize) -> f64 {
        let prior = self.parameters[index].deviation;
        if prior > 0.0 {
            1.0 - (self.belief.deviation(index) / prior).powi(2)
        } else {
            0.0
        }
    }

    /// Returns `profile` with the constants from whose variance rows take at least the share `informed`:
    /// draws of the new range have the deviation that is left. `described` writes the source of one, by
    /// the number of its rows.
    pub(super) fn profile(
        &self,
        profile: &Profile<Constant>,
        informed: f64,
        described: impl Fn(usize, &Constant) -> Constant,
    ) -> Profile<Constant> {
        profile.map(&mut |path, constant| {
            let mut parameters = self.parameters.iter();
            let index = parameters.position(|parameter| parameter.has(path));
            let Some(index) = index.filter(|index| self.weight(*index) >= informed) else {
                return constant.clone();
            };
            let value = constant.value * self.belief.mean[index].exp();
            // A logarithm that is uniform over a width of 2 a has the deviation a / sqrt(3).
            let reach = (3.0f64.sqrt() * self.belief.deviation(index)).exp();
            Constant {
                value,
                low: Some(value / reach),
                high: Some(value * reach),
                ..described(self.rows[index], constant)
            }
        })
    }
}

/// Fixes each constant whose slopes over all rows are those of another that matters more, and names
/// both where the rows would have moved either.
fn confused(parameters: &mut [Parameter], lines: &[Option<Linear>]) -> Vec<Confused> {
    let column = |index: usize| -> Vec<f64> {
        let error = |line: &Linear| (MODEL * MODEL + line.noise * line.noise).sqrt();
        let known = lines.iter().flatten();
        known.map(|line| line.slopes[index] / error(line)).collect()
    };
    let columns: Vec<Vec<f64>> = (0..parameters.len()).map(column).collect();
    let dot = |one: usize, other: usize| dot(&columns[one], &columns[other]);
    // Share of its variance that rows would take from a constant alone.
    let share = |index: usize, deviation: f64| {
        let information = deviation * deviation * dot(index, index);
        information / (1.0 + information)
    };
    let mut order: Vec<usize> = (0..parameters.len()).collect();
    let share = |index: &usize| share(*index, parameters[*index].deviation);
    let shares: Vec<f64> = order.iter().map(share).collect();
    order.sort_by(|one, other| shares[*other].total_cmp(&shares[*one]));
    let mut named = Vec::new();
    for (place, index) in order.iter().enumerate() {
        let larger = order[..place].iter().find(|larger| {
            let lengths = (dot(**larger, **larger) * dot(*index, *index)).sqrt();
            let is_free = parameters[**larger].deviation > 0.0;
            is_free && lengths > 0.0 && dot(**larger, *index).abs() > CONFUSED * lengths
        });
        let Some(larger) = larger else { continue };
        let with = parameters[*larger].path.clone();
        parameters[*index].deviation = 0.0;
        if shares[*index] >= WORTH_NAMING {
            let path = parameters[*index].path.clone();
            named.push(Confused { path, with });
        }
    }
    named
}

/// The levels of the days of rows, as quantities behind the constants.
pub(super) struct Days {
    of: Vec<(String, Level, f64)>,
}

impl Days {
    /// Returns the levels that rows have by their series.
    pub(super) fn new(profile: &Profile<Constant>, parameters: &[Parameter], rows: &[Row]) -> Self {
        let mut of: Vec<(String, Level, f64)> = Vec::new();
        let levels = profile.values().levels;
        for row in rows {
            for level in parameters.iter().filter_map(|parameter| parameter.level) {
                let is_it = |(series, known, _): &(String, Level, f64)| {
                    *series == row.series && *known == level
                };
                if !of.iter().any(is_it) {
                    let levels = levels.as_ref();
                    let deviation = levels.map_or(0.0, |levels| level.deviation(levels));
                    of.push((row.series.clone(), level, deviation));
                }
            }
        }
        Self { of }
    }

    /// Returns what is believed of constants and days before any row.
    pub(super) fn unseen(&self, parameters: &[Parameter]) -> Belief {
        let constants = parameters.iter().map(|parameter| parameter.deviation);
        let days = self.of.iter().map(|(.., deviation)| *deviation);
        Belief::new(&constants.chain(days).collect::<Vec<f64>>())
    }

    /// Widens the errors of rows that disagree; returns the Birge ratio of the rows that each constant
    /// matters most to: √(χ² / degrees of freedom) about the fit, and at least 1 (Birge 1932).
    ///
    /// The ratio S times the error of a mean of n rows, S σ / √n, is the error of that mean. A range is also
    /// of the next row, which lies as far from the mean as these do: each variance grows by
    /// n (S² - 1) σ², so that the mean's becomes σ² / n + (S² - 1) σ².
    fn scatter(
        &self,
        parameters: &[Parameter],
        seen: &mut [Observation],
        belief: &Belief,
    ) -> Vec<f64> {
        let constants = parameters.len();
        let by = |slopes: &[f64]| dot(&slopes[..constants], &belief.mean[..constants]);
        let most = |row: &Observation| {
            let part = |index: &usize| row.slopes[*index].abs() * parameters[*index].deviation;
            (0..constants).max_by(|one, other| part(one).total_cmp(&part(other)))
        };
        let of: Vec<Option<usize>> = seen.iter().map(most).collect();
        // The levels of the days are part of the errors.
        let mut fixed = parameters.to_vec();
        fixed
            .iter_mut()
            .for_each(|parameter| parameter.deviation = 0.0);
        let unseen = self.unseen(&fixed);
        let mut levels = unseen.clone();
        let (mut squares, mut counts) = (vec![0.0; constants], vec![0usize; constants]);
        for (row, of) in seen.iter().zip(&of) {
            let left = row.value - by(&row.slopes);
            let surprise = left - dot(&row.slopes, &levels.mean);
            if let Some(of) = *of {
                counts[of] += 1;
                squares[of] += surprise.powi(2) / (levels.variance(&row.slopes) + row.variance);
            }
            levels.see(&row.slopes, left, row.variance);
        }
        let ratio = |of: usize| {
            let prior = parameters[of].deviation.powi(2).max(f64::MIN_POSITIVE);
            let freedom = counts[of] as f64 - 1.0 + belief.deviation(of).powi(2) / prior;
            match counts[of] {
                0 | 1 => 1.0,
                _ => (squares[of] / freedom).sqrt().max(1.0),
            }
        };
        let ratios: Vec<f64> = (0..constants).map(ratio).collect();
        for (row, of) in seen.iter_mut().zip(&of) {
            let Some(of) = *of else { continue };
            let own = row.variance + unseen.variance(&row.slopes);
            row.variance += counts[of] as f64 * (ratios[of].powi(2) - 1.0) * own;
        }
        ratios
    }

    /// Returns what is believed of the constants after a fit, and of other days.
    pub(super) fn after(&self, fitted: &Fitted) -> Belief {
        let days: Vec<f64> = self.of.iter().map(|(.., deviation)| *deviation).collect();
        fitted.belief.followed_by(fitted.parameters.len(), &days)
    }

    /// Returns the slopes of a row: of the constants, and of the levels of its day.
    pub(super) fn slopes(&self, parameters: &[Parameter], row: &Row, line: &Linear) -> Vec<f64> {
        let of_level = |level: Level| -> f64 {
            let own = parameters.iter().zip(&line.slopes);
            let own = own.filter(|(parameter, _)| parameter.level == Some(level));
            own.map(|(_, slope)| slope).sum()
        };
        let days = self.of.iter().map(|(series, level, _)| {
            let is_own = *series == row.series;
            if is_own { of_level(*level) } else { 0.0 }
        });
        line.slopes.iter().copied().chain(days).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// One constant and n rows of it: S² = Σ (y - m)² / (n - w) / v, where the mean moves to m = w ȳ; what
        /// is left is that of a mean of error v / n, and of a scatter of (S² - 1) v. The limit for a wide
        /// prior is the scale factor of the Particle Data Group.
        #[test]
        fn rows_that_disagree_leave_a_range_as_wide_as_they_are_apart(
            prior in 0.1f64..100.0,
            variance in 0.001f64..0.1,
            values in proptest::collection::vec(-2.0f64..2.0, 2..30),
        ) {
            let parameters = [Parameter {
                path: "queue.a".into(),
                deviation: prior,
                level: None,
            }];
            let days = Days { of: Vec::new() };
            let row = |value: &f64| Observation { slopes: vec![1.0], value: *value, variance };
            let mut seen: Vec<Observation> = values.iter().map(row).collect();
            let belief = taken_in(days.unseen(&parameters), &seen);
            let [ratio] = days.scatter(&parameters, &mut seen, &belief)[..] else {
                panic!("one constant has one ratio");
            };
            let n = values.len() as f64;
            let weight = prior.powi(2) / (prior.powi(2) + variance / n);
            let mean = weight * values.iter().sum::<f64>() / n;
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let expected = (squares / variance / (n - weight)).sqrt().max(1.0);
            prop_assert!((ratio / expected - 1.0).abs() < 1e-6, "{ratio} {expected}");
            let error = variance / n + (expected.powi(2) - 1.0) * variance;
            let left = (1.0 / (prior.powi(-2) + 1.0 / error)).sqrt();
            let found = taken_in(days.unseen(&parameters), &seen).deviation(0);
            prop_assert!((found / left - 1.0).abs() < 1e-6, "{found} {left}");
        }
    }
}
