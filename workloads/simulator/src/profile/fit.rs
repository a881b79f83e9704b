//! Fits of measurements, which give the numbers of a compute profile.

use std::collections::BTreeMap;

use super::Fit;

/// A straight line through measurements that grow with the size of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Value at a batch of 0; at least 0.
    pub fixed: f64,
    /// Slope: value per sample; at least 0.
    pub per_sample: f64,
    /// Quality of the fit.
    pub fit: Fit,
}

impl Line {
    /// Fits a line to measurements `(batch size, value)` by least squares,
    /// weighted by 1 / value²: it minimises *relative* errors, so that a batch
    /// of 8 counts as much as one of 512 that takes sixty times as long.
    ///
    /// Neither part is negative: where the best line has a negative one, the
    /// result is the best line with that part 0. Measurements of one batch size
    /// give the line through the origin.
    ///
    /// `None` where there are no measurements, or one is not positive and finite.
    pub fn through(measurements: &[(usize, f64)]) -> Option<Self> {
        let usable = |(batch, value): &(usize, f64)| {
            *batch > 0 && *value > 0.0 && (1.0 / value).is_finite() && value.is_finite()
        };
        if measurements.is_empty() || !measurements.iter().all(usable) {
            return None;
        }
        let (fixed, per_sample) = coefficients(measurements);
        let line = Self {
            fixed,
            per_sample,
            fit: Fit {
                points: 0,
                r_squared: 0.0,
                largest_error: 0.0,
            },
        };
        Some(line.judged(measurements))
    }

    /// Fits a line to the median of each batch size's measurements, so that one that is far off does not
    /// decide. Its quality is that for all measurements.
    ///
    /// `None` as for [`through`](Self::through).
    pub fn through_medians(measurements: &[(usize, f64)]) -> Option<Self> {
        // None where one cannot be used, whatever its neighbours are.
        Self::through(measurements)?;
        let mut of_size: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for (batch, value) in measurements {
            of_size.entry(*batch).or_default().push(*value);
        }
        let medians = of_size.into_iter();
        let medians = medians.filter_map(|(batch, values)| Some((batch, median(&values)?)));
        let line = Self::through(&medians.collect::<Vec<_>>())?;
        Some(line.judged(measurements))
    }

    /// Returns the line with its quality for measurements.
    fn judged(self, measurements: &[(usize, f64)]) -> Self {
        let fit = Fit {
            points: measurements.len(),
            r_squared: self.r_squared(measurements),
            largest_error: self.largest_error(measurements),
        };
        Self { fit, ..self }
    }

    /// Returns the value at a batch of `samples`.
    pub fn at(&self, samples: usize) -> f64 {
        self.fixed + samples as f64 * self.per_sample
    }

    /// Returns the share of the variance that the line explains, weighted like the
    /// fit; 0 for a line that is no better than the weighted mean.
    fn r_squared(&self, measurements: &[(usize, f64)]) -> f64 {
        let weights = sum(measurements, |_, value| value.powi(-2));
        let mean = sum(measurements, |_, value| value.recip()) / weights;
        let total = sum(measurements, |_, value| (1.0 - mean / value).powi(2));
        let left = sum(measurements, |batch, value| {
            (1.0 - self.at(batch) / value).powi(2)
        });
        if left <= f64::EPSILON.powi(2) * measurements.len() as f64 {
            return 1.0;
        }
        (1.0 - left / total).max(0.0)
    }

    /// Returns the largest distance of a measurement from the line, relative to the
    /// measurement.
    fn largest_error(&self, measurements: &[(usize, f64)]) -> f64 {
        let errors = measurements
            .iter()
            .map(|(batch, value)| (self.at(*batch) / value - 1.0).abs());
        errors.fold(0.0, f64::max)
    }
}

/// Returns the `a` and `b` of at least 0 that minimise the sum of (a·u + b·v - 1)²,
/// where u = 1 / value and v = batch / value.
fn coefficients(measurements: &[(usize, f64)]) -> (f64, f64) {
    let (uu, uv, vv) = (
        sum(measurements, |_, value| value.powi(-2)),
        sum(measurements, |batch, value| batch as f64 * value.powi(-2)),
        sum(measurements, |batch, value| (batch as f64 / value).powi(2)),
    );
    let (u, v) = (
        sum(measurements, |_, value| value.recip()),
        sum(measurements, |batch, value| batch as f64 / value),
    );
    let one_size = measurements.iter().all(|(b, _)| *b == measurements[0].0);
    let determinant = uu * vv - uv * uv;
    if one_size || determinant <= 0.0 {
        return (0.0, v / vv);
    }
    let fixed = (u * vv - v * uv) / determinant;
    let per_sample = (v * uu - u * uv) / determinant;
    // Not both: u and v are positive sums of positive multiples of the two.
    if fixed < 0.0 {
        (0.0, v / vv)
    } else if per_sample < 0.0 {
        (u / uu, 0.0)
    } else {
        (fixed, per_sample)
    }
}

fn sum(measurements: &[(usize, f64)], of: impl Fn(usize, f64) -> f64) -> f64 {
    measurements
        .iter()
        .map(|(batch, value)| of(*batch, *value))
        .sum()
}

/// Returns the share of a step that `threads` speed up, by Amdahl's law, from its
/// time on one thread and on `threads` (at least 2); within 0 to 1.
///
/// `None` for fewer than two threads, or where a time is not positive.
pub fn parallel_share(one_s: f64, many_s: f64, threads: usize) -> Option<f64> {
    if threads < 2 || !(one_s > 0.0 && many_s > 0.0) {
        return None;
    }
    let gained = 1.0 - many_s / one_s;
    Some((gained / (1.0 - 1.0 / threads as f64)).clamp(0.0, 1.0))
}

/// Returns the median of `values`, the mean of the two middle ones of an even
/// number; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => Some(sorted[middle]),
        _ => Some((sorted.get(middle.checked_sub(1)?)? + sorted[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::profile::{ComputeOrigin, ComputeProfile, ModelCost};

    fn batches() -> impl Strategy<Value = Vec<usize>> {
        prop::collection::btree_set(1usize..1024, 2..8)
            .prop_map(|batches| batches.into_iter().collect())
    }

    /// Returns the sum that [`Line::through`] minimises.
    fn relative_squares(fixed: f64, per_sample: f64, measurements: &[(usize, f64)]) -> f64 {
        sum(measurements, |batch, value| {
            ((fixed + batch as f64 * per_sample) / value - 1.0).powi(2)
        })
    }

    proptest! {
        #[test]
        fn an_exact_line_is_recovered(
            batches in batches(),
            fixed in 0.0f64..10.0,
            per_sample in 1e-5..1.0f64,
        ) {
            let measured: Vec<(usize, f64)> = batches
                .iter()
                .map(|b| (*b, fixed + *b as f64 * per_sample))
                .collect();
            let line = Line::through(&measured).unwrap();
            let scale = measured.last().unwrap().1;
            prop_assert!((line.fixed - fixed).abs() <= 1e-6 * scale, "{line:?}");
            for (batch, value) in &measured {
                prop_assert!((line.at(*batch) / value - 1.0).abs() < 1e-6, "{line:?}");
            }
            prop_assert!(line.fit.r_squared > 1.0 - 1e-6, "{line:?}");
            prop_assert!(line.fit.largest_error < 1e-6, "{line:?}");
            prop_assert_eq!(line.fit.points, measured.len());
        }

        #[test]
        fn no_part_is_negative_and_no_line_near_by_is_better(
            measured in prop::collection::vec((1usize..1024, 1e-4..100.0f64), 1..12),
        ) {
            let line = Line::through(&measured).unwrap();
            prop_assert!(line.fixed >= 0.0 && line.per_sample >= 0.0, "{line:?}");
            prop_assert!((0.0..=1.0).contains(&line.fit.r_squared), "{line:?}");
            prop_assert!(line.fit.largest_error >= 0.0 && line.fit.largest_error.is_finite());
            let best = relative_squares(line.fixed, line.per_sample, &measured);
            let least = measured.iter().map(|(_, s)| *s).fold(f64::MAX, f64::min);
            for step in [-1e-2 * least, 1e-2 * least] {
                let fixed = (line.fixed + step).max(0.0);
                let per_sample = (line.per_sample + step / 1e3).max(0.0);
                let neighbours = [(fixed, line.per_sample), (line.fixed, per_sample)];
                for (fixed, per_sample) in neighbours {
                    let other = relative_squares(fixed, per_sample, &measured);
                    prop_assert!(best <= other * (1.0 + 1e-9), "{line:?}");
                }
            }
        }

        #[test]
        fn units_do_not_matter(
            measured in prop::collection::vec((1usize..1024, 1e-4..100.0f64), 1..12),
        ) {
            let milli: Vec<(usize, f64)> = measured.iter().map(|(b, s)| (*b, 1e3 * s)).collect();
            let (one, other) = (Line::through(&measured).unwrap(), Line::through(&milli).unwrap());
            let scale = measured.iter().map(|(_, s)| *s).fold(0.0, f64::max);
            prop_assert!((1e3 * one.fixed - other.fixed).abs() <= 1e-3 * scale);
            prop_assert!((one.fit.r_squared - other.fit.r_squared).abs() <= 1e-6);
        }

        #[test]
        fn amdahls_share_is_recovered(parallel in 0.0f64..=1.0, threads in 2usize..64) {
            let cost: ModelCost = serde_json::from_value(serde_json::json!({
                "model": "m", "device": "cpu", "fixed_s": 0.1, "sample_s": 0.01, "parallel": parallel,
                "evaluate_sample_s": 0.0, "build_s": 0.0, "fixed_mb": 0.0, "sample_mb": 0.0,
                "source": "a test", "date": "2026-11-21",
            })).unwrap();
            let (one, many) = (cost.step_s(32, 1.0), cost.step_s(32, threads as f64));
            let share = parallel_share(one, many, threads).unwrap();
            prop_assert!((share - parallel).abs() < 1e-9, "{share} of {parallel}");
            let profile = ComputeProfile {
                schema: 1,
                name: "p".into(),
                about: "a test".into(),
                origin: ComputeOrigin::Measured,
                models: vec![ModelCost { parallel: share, ..cost }],
            };
            prop_assert!(profile.faults().is_empty());
        }
    }

    #[test]
    fn a_small_batch_counts_as_much_as_a_large_one() {
        // Twice as long as the line through the others: plain least squares
        // would all but ignore the first.
        let line = Line::through(&[(1, 2.0), (1_000, 1_000.0), (2_000, 2_000.0)]).unwrap();
        assert!(line.fixed > 0.9, "{line:?}");
        assert!(line.fit.largest_error < 1e-2, "{line:?}");
    }

    #[test]
    fn one_measurement_that_is_far_off_does_not_decide() {
        let measured = [(8, 8.0), (8, 0.8), (8, 8.4), (16, 16.0)];
        let line = Line::through_medians(&measured).unwrap();
        assert!((line.per_sample - 1.0).abs() < 1e-9, "{line:?}");
        assert!(
            line.fit.points == 4 && line.fit.largest_error > 8.9,
            "{line:?}"
        );
        assert_eq!(Line::through_medians(&[]), None);
    }

    #[test]
    fn a_falling_fixed_part_is_fitted_again_without() {
        // The best line is -1 + 2b.
        let line = Line::through(&[(1, 1.0), (2, 3.0)]).unwrap();
        // b minimises (b - 1)² + (2b/3 - 1)²: 15/13.
        assert_eq!(line.fixed, 0.0);
        assert!((line.per_sample - 15.0 / 13.0).abs() < 1e-12, "{line:?}");
    }

    #[test]
    fn one_batch_size_gives_the_line_through_the_origin() {
        let line = Line::through(&[(8, 4.0), (8, 4.0)]).unwrap();
        assert_eq!((line.fixed, line.per_sample), (0.0, 0.5));
        assert_eq!(line.fit.r_squared, 1.0);
    }

    #[test]
    fn nothing_is_fitted_to_nothing() {
        assert_eq!(Line::through(&[]), None);
        assert_eq!(Line::through(&[(8, 0.0)]), None);
        assert_eq!(Line::through(&[(8, f64::NAN)]), None);
        assert_eq!(Line::through(&[(0, 1.0)]), None);
    }

    #[test]
    fn slower_with_threads_is_a_share_of_zero() {
        assert_eq!(parallel_share(1.0, 1.1, 2), Some(0.0));
        assert_eq!(parallel_share(1.0, 0.4, 2), Some(1.0));
        assert_eq!(parallel_share(1.0, 1.0, 1), None);
    }

    #[test]
    fn the_median_of_odd_and_even_counts() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }
}
