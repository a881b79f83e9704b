//! The scale-in tuner: when to remove a worker, as the supervisor decides it.
//!
//! After the knee of the loss a worker more adds little (MLLess, section 4.2, and its published
//! code). Every `remove_interval_s` from there on the tuner compares two losses, both predicted
//! [`AHEAD_S`] seconds ahead: that of the initial number of workers, from a curve fitted up to
//! the knee, and that of the workers that are left, from one fitted since the last removal. As
//! long as the latter is not more than `remove_threshold` percent the higher, one worker is removed.
//!
//! The knee is found as published: losses are smoothed forwards and backwards, their
//! differences smoothed again, and the first above −[`ScaleIn::knee_slope`] is the knee once
//! [`STABLE`] evaluations agree. Curves are fitted by weighted least squares over a grid of the
//! exponent and the asymptote, with coefficients of at least 0, where the published code calls an
//! optimizer; the time of a step is the median of those observed, where that code fits a curve
//! over numbers of workers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the tuner; both numbers must be given in the published code, which has them
/// between 15 and 20 in its examples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScaleIn {
    /// Loss, percent above that of all workers, up to which a worker is removed.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub remove_threshold: f64,
    /// Seconds from one decision to the next.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub remove_interval_s: f64,
    /// Workers that are kept.
    #[schemars(range(min = 1, max = 100_000))]
    pub at_least: usize,
    /// Fall of the smoothed loss per step, below which it has passed its knee.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub knee_slope: f64,
}

impl Default for ScaleIn {
    fn default() -> Self {
        Self {
            remove_threshold: 15.0,
            remove_interval_s: 15.0,
            at_least: 1,
            knee_slope: 7.5e-5,
        }
    }
}

impl ScaleIn {
    /// Returns the first setting that is out of range, and why.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let numbers = [
            self.remove_threshold,
            self.remove_interval_s,
            self.knee_slope,
        ];
        if numbers
            .iter()
            .any(|number| !number.is_finite() || *number < 0.0)
        {
            return Some("give finite numbers of at least 0");
        }
        (self.at_least == 0).then_some("keep 1 worker or more")
    }
}

/// Span of the smoothing, steps.
const SPAN: usize = 20;
/// Evaluations that must find the same knee.
const STABLE: usize = 5;
/// How far ahead losses are predicted, seconds.
const AHEAD_S: f64 = 10.0;
/// Steps after a removal that say nothing about the time of a step.
const NOISE_STEPS: usize = 4;
/// Fewest steps that a curve is fitted to.
const FEWEST: usize = 5;

/// The tuner's view of a job.
pub(super) struct Tuner {
    settings: ScaleIn,
    losses: Vec<f64>,
    /// Seconds of steps with the current number of workers.
    durations: Vec<f64>,
    /// The knee that the last evaluations found, and how many they were.
    found: Option<(usize, usize)>,
    /// When the last decision was, or the knee was found.
    decided_s: Option<f64>,
    /// Curve and seconds per step of all workers, once one was removed.
    base: Option<(Curve, f64)>,
    /// First step after the last removal.
    since: usize,
}

impl Tuner {
    pub(super) fn new(settings: ScaleIn) -> Self {
        Self {
            settings,
            losses: Vec::new(),
            durations: Vec::new(),
            found: None,
            decided_s: None,
            base: None,
            since: 0,
        }
    }

    /// Takes in a step that ended at `now_s` of training after `step_s`; returns whether one of
    /// `workers` is removed.
    pub(super) fn removes(&mut self, loss: f64, step_s: f64, now_s: f64, workers: usize) -> bool {
        if !loss.is_finite() {
            return false;
        }
        self.losses.push(loss);
        if self.losses.len() > self.since + NOISE_STEPS || self.since == 0 {
            self.durations.push(step_s);
        }
        // Before the knee nothing is decided.
        let Some(decided_s) = self.decided_s else {
            if self.is_past_knee() {
                self.decided_s = Some(now_s);
            }
            return false;
        };
        let is_due = now_s - decided_s >= self.settings.remove_interval_s;
        if !is_due || workers <= self.settings.at_least.max(1) {
            return false;
        }
        let Some(removes) = self.decide(now_s) else {
            return false;
        };
        self.decided_s = Some(now_s);
        if removes {
            self.since = self.losses.len();
            self.durations.clear();
        }
        removes
    }

    /// Whether the last evaluations agree on a knee.
    fn is_past_knee(&mut self) -> bool {
        let Some(knee) = knee(&self.losses, self.settings.knee_slope) else {
            self.found = None;
            return false;
        };
        let times = match self.found {
            Some((last, times)) if last == knee => times + 1,
            _ => 1,
        };
        self.found = Some((knee, times));
        times >= STABLE
    }

    /// Decides on a removal; `None` as long as too few steps were observed.
    fn decide(&mut self, now_s: f64) -> Option<bool> {
        let step_s = median(&self.durations)?;
        let Some((base, base_step_s)) = &self.base else {
            let base = Curve::fit(&self.losses, &POWERS)?;
            self.base = Some((base, step_s));
            return Some(true);
        };
        let recent = &self.losses[self.since..];
        let current = Curve::fit(recent, &SQUARE)?;
        let expected = base.at((now_s + AHEAD_S) / base_step_s);
        let predicted = current.at(recent.len() as f64 + AHEAD_S / step_s);
        let worse = 100.0 * (predicted - expected) / expected;
        Some(worse < self.settings.remove_threshold)
    }
}

/// Returns the first step after which the smoothed loss falls by less than `slope`, from
/// [`SPAN`] losses on.
fn knee(losses: &[f64], slope: f64) -> Option<usize> {
    if losses.len() < SPAN {
        return None;
    }
    let forwards = smoothed(losses.iter().copied());
    let mut backwards = smoothed(losses.iter().rev().copied());
    backwards.reverse();
    let both: Vec<f64> = (forwards.iter().zip(&backwards))
        .map(|(forward, backward)| (forward + backward) / 2.0)
        .collect();
    let falls = smoothed(both.windows(2).map(|pair| pair[1] - pair[0]));
    falls.iter().position(|change| *change > -slope)
}

/// The exponentially weighted mean of [`SPAN`].
fn smoothed(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let weight = 2.0 / (SPAN as f64 + 1.0);
    let next = |mean: &mut Option<f64>, value: f64| {
        let last = mean.unwrap_or(value);
        *mean = Some(last + weight * (value - last));
        *mean
    };
    values.scan(None, next).collect()
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// Exponents of a curve's terms.
type Shape = &'static [f64];

/// 1/(c0·x^c2 + c1): the base curve, for several c2.
const POWERS: [Shape; 7] = [
    &[0.25, 0.0],
    &[0.5, 0.0],
    &[0.75, 0.0],
    &[1.0, 0.0],
    &[1.25, 0.0],
    &[1.5, 0.0],
    &[2.0, 0.0],
];
/// 1/(c0·x² + c1·x + c2): the curve since the last removal.
const SQUARE: [Shape; 1] = [&[2.0, 1.0, 0.0]];

/// A loss by steps: 1/(Σ c·x^e) + asymptote.
#[derive(Clone, Debug, PartialEq)]
struct Curve {
    shape: Shape,
    coefficients: Vec<f64>,
    asymptote: f64,
}

impl Curve {
    /// The loss after `steps`.
    fn at(&self, steps: f64) -> f64 {
        let terms = self.shape.iter().zip(&self.coefficients);
        let sum: f64 = terms.map(|(power, c)| c * steps.powf(*power)).sum();
        self.asymptote + 1.0 / sum.max(f64::MIN_POSITIVE)
    }

    /// Fits the best of `shapes` to the losses after steps 1, 2, …, with weights that grow with
    /// the step; `None` of fewer than [`FEWEST`] losses, or none above 0.
    fn fit(losses: &[f64], shapes: &[Shape]) -> Option<Self> {
        let least = losses.iter().copied().reduce(f64::min)?;
        if losses.len() < FEWEST || least <= 0.0 {
            return None;
        }
        let mut best: Option<(f64, Self)> = None;
        for shape in shapes {
            for twentieth in 0..20 {
                let asymptote = least * f64::from(twentieth) / 20.0;
                let Some(coefficients) = coefficients(losses, shape, asymptote) else {
                    continue;
                };
                let curve = Self {
                    shape,
                    coefficients,
                    asymptote,
                };
                let error = curve.error(losses);
                if best.as_ref().is_none_or(|(least, _)| error < *least) {
                    best = Some((error, curve));
                }
            }
        }
        best.map(|(_, curve)| curve)
    }

    fn error(&self, losses: &[f64]) -> f64 {
        let squares = losses.iter().zip(1u32..).map(|(loss, step)| {
            let difference = f64::from(step) * (self.at(f64::from(step)) - loss);
            difference * difference
        });
        squares.sum()
    }
}

/// Returns the coefficients, none below 0, with which Σ c·x^e is nearest to 1/(loss − asymptote).
/// An error of that is one of the loss times the square of 1/(loss − asymptote).
fn coefficients(losses: &[f64], shape: Shape, asymptote: f64) -> Option<Vec<f64>> {
    let mut best: Option<(f64, Vec<f64>)> = None;
    // Each subset of the terms; the others are 0.
    for subset in 1_u32..1 << shape.len() {
        let terms: Vec<usize> = (0..shape.len())
            .filter(|term| subset >> term & 1 == 1)
            .collect();
        let mut normal = vec![vec![0.0; terms.len() + 1]; terms.len()];
        for (loss, step) in losses.iter().zip(1u32..) {
            let inverse = 1.0 / (loss - asymptote).max(f64::MIN_POSITIVE);
            let weight = (f64::from(step) / (inverse * inverse)).powi(2);
            let x: Vec<f64> = (terms.iter())
                .map(|term| f64::from(step).powf(shape[*term]))
                .collect();
            for (row, left) in normal.iter_mut().zip(&x) {
                for (cell, right) in row.iter_mut().zip(x.iter().chain([&inverse])) {
                    *cell += weight * left * right;
                }
            }
        }
        let Some(solved) = solve(normal).filter(|solved| solved.iter().all(|c| *c >= 0.0)) else {
            continue;
        };
        let mut all = vec![0.0; shape.len()];
        for (term, c) in terms.iter().zip(solved) {
            all[*term] = c;
        }
        let curve = Curve {
            shape,
            coefficients: all.clone(),
            asymptote,
        };
        let error = curve.error(losses);
        if best.as_ref().is_none_or(|(least, _)| error < *least) {
            best = Some((error, all));
        }
    }
    best.map(|(_, coefficients)| coefficients)
}

/// Solves a small system of linear equations by elimination; `None` of a singular one.
fn solve(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let n = rows.len();
    for column in 0..n {
        let pivot =
            (column..n).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        let pivot = rows[column].clone();
        if !pivot[column].is_normal() {
            return None;
        }
        for (index, row) in rows.iter_mut().enumerate() {
            if index == column {
                continue;
            }
            let factor = row[column] / pivot[column];
            row.iter_mut()
                .zip(&pivot)
                .for_each(|(cell, above)| *cell -= factor * above);
        }
    }
    let solution: Vec<f64> = (0..n)
        .map(|index| rows[index][n] / rows[index][index])
        .collect();
    solution
        .iter()
        .all(|value| value.is_finite())
        .then_some(solution)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    /// A loss that falls steeply for `knee` steps and then hardly.
    fn bent(knee: usize, steps: usize) -> Vec<f64> {
        (0..steps)
            .map(|step| {
                if step < knee {
                    2.0 - step as f64 / knee as f64
                } else {
                    1.0
                }
            })
            .collect()
    }

    #[test]
    fn the_knee_is_where_the_loss_stops_falling() {
        for at in [30, 60] {
            let found = knee(&bent(at, 200), 7.5e-5).unwrap();
            assert!((at..at + 4 * SPAN).contains(&found), "{found} for {at}");
            // A loss that goes on falling has none.
            assert_eq!(knee(&bent(1000, 200), 7.5e-5), None);
        }
        assert_eq!(knee(&[1.0; SPAN - 1], 7.5e-5), None);
    }

    proptest! {
        /// A curve of the fitted shape, with an asymptote of the grid, is found again.
        #[test]
        fn a_curve_is_fitted_by_its_own_losses(c0 in 0.01f64..0.5, c1 in 0.3f64..1.0, power in 0usize..7) {
            let shape = POWERS[power];
            let curve = Curve { shape, coefficients: vec![c0, c1], asymptote: 0.0 };
            let losses: Vec<f64> = (1..60).map(|step| curve.at(f64::from(step))).collect();
            let fitted = Curve::fit(&losses, &POWERS).unwrap();
            for step in [1.0, 30.0, 59.0] {
                let (found, expected) = (fitted.at(step), curve.at(step));
                prop_assert!((found - expected).abs() < 1e-3 * expected, "{} for {}", found, expected);
            }
        }
    }

    /// Decisions come one interval apart, none before the knee, and leave the workers that are
    /// to be kept.
    #[test]
    fn workers_are_removed_after_the_knee_one_per_interval() {
        let settings = ScaleIn {
            remove_interval_s: 10.0,
            at_least: 2,
            ..ScaleIn::default()
        };
        let mut tuner = Tuner::new(settings);
        let (mut workers, mut removed) = (5, Vec::new());
        for (step, loss) in bent(60, 400).into_iter().enumerate() {
            let now_s = step as f64;
            if tuner.removes(loss, 1.0, now_s, workers) {
                workers -= 1;
                removed.push(now_s);
            }
        }
        assert_eq!(workers, 2);
        assert!(removed[0] > 60.0, "{removed:?}");
        assert!(
            removed.windows(2).all(|pair| pair[1] - pair[0] >= 10.0),
            "{removed:?}"
        );
    }

    /// Where those that are left do much worse than all would, nobody else is removed.
    #[test]
    fn a_loss_that_suffers_ends_the_removals() {
        let settings = ScaleIn {
            remove_interval_s: 10.0,
            ..ScaleIn::default()
        };
        let mut tuner = Tuner::new(settings);
        let mut removed = 0;
        for (step, loss) in bent(60, 400).into_iter().enumerate() {
            let loss = if removed > 0 { 3.0 * loss } else { loss };
            removed += usize::from(tuner.removes(loss, 1.0, step as f64, 5 - removed));
        }
        assert_eq!(removed, 1);
    }

    #[test]
    fn a_loss_that_is_no_number_decides_nothing() {
        let mut tuner = Tuner::new(ScaleIn {
            remove_interval_s: 0.0,
            ..ScaleIn::default()
        });
        assert!(!(0..200).any(|step| tuner.removes(f64::NAN, 1.0, f64::from(step), 4)));
    }
}
