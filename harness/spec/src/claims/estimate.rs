//! Means and their intervals.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::ratio;
use super::scale::Scale;

/// A mean over trials with its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// The mean; null if no trial has the value.
    pub mean: Option<f64>,
    /// Ends of the 95 % interval: of the mean, or of the values themselves
    /// where trials sample a profile's ranges. Null with fewer than two trials.
    pub ci95: Option<[f64; 2]>,
    /// Trials that have the value.
    pub n: usize,
}

impl Estimate {
    /// Returns the mean of `values` and its interval by Student's t with n − 1
    /// degrees of freedom. Values that are not finite make both unknown.
    pub fn of(values: &[f64]) -> Self {
        let n = values.len();
        if n == 0 || values.iter().any(|value| !value.is_finite()) {
            let (mean, ci95) = (None, None);
            return Self { mean, ci95, n };
        }
        let count = n as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let ci95 = StudentsT::new(0.0, 1.0, count - 1.0).ok().map(|t| {
            let half = t.inverse_cdf(0.975) * (squares / (count - 1.0) / count).sqrt();
            [mean - half, mean + half]
        });
        Self {
            mean: Some(mean),
            ci95: if n < 2 { None } else { ci95 },
            n,
        }
    }

    /// Returns the mean of values that sample the ranges of what they are
    /// computed from, and the interval between their 2.5th and 97.5th
    /// percentiles: how far the ranges move the value, which more samples do
    /// not make smaller.
    pub fn of_samples(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share| ratio::percentile(&sorted, share);
        let of_mean = Self::of(values);
        Self {
            ci95: of_mean.ci95.map(|_| [at(0.025), at(0.975)]),
            ..of_mean
        }
    }

    /// Returns it in another unit.
    pub fn scaled(self, scale: Scale) -> Self {
        Self {
            mean: self.mean.map(|mean| scale.apply(mean)),
            ci95: self.ci95.map(|ends| scale.interval(ends)),
            n: self.n,
        }
    }

    /// Returns half the width of the interval.
    pub fn half_width(self) -> Option<f64> {
        self.ci95.map(|[low, high]| (high - low) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_an_interval_that_more_of_them_do_not_shrink() {
        let values: Vec<f64> = (0..=40).map(f64::from).rev().collect();
        let estimate = Estimate::of_samples(&values);
        assert_eq!((estimate.mean, estimate.n), (Some(20.0), 41));
        assert_eq!(estimate.ci95, Some([1.0, 39.0]));
        let twice = Estimate::of_samples(&[values.clone(), values].concat());
        assert_eq!(twice.ci95, Some([1.0, 39.0]));
        assert_eq!(Estimate::of_samples(&[3.0]).ci95, None);
        assert_eq!(Estimate::of_samples(&[]), Estimate::default());
        assert_eq!(Estimate::of_samples(&[3.0, f64::NAN]).ci95, None);
    }

    /// Values 1, 2, 3: s = 1, t(0.975, 2) = 4.302653, half width t/√3.
    #[test]
    fn the_interval_is_students() {
        let estimate = Estimate::of(&[1.0, 2.0, 3.0]);
        assert_eq!(estimate.mean, Some(2.0));
        let [low, high] = estimate.ci95.unwrap();
        let half = 4.302_653 / 3f64.sqrt();
        assert!((high - 2.0 - half).abs() < 1e-5, "{high}");
        assert!((low + high - 4.0).abs() < 1e-12);
    }

    #[test]
    fn one_value_has_no_interval_and_none_no_mean() {
        let one = Estimate::of(&[5.0]);
        assert_eq!((one.mean, one.ci95, one.n), (Some(5.0), None, 1));
        assert_eq!(Estimate::of(&[]), Estimate::default());
        assert_eq!(Estimate::of(&[1.0, f64::NAN]).mean, None);
        assert_eq!(Estimate::of(&[7.0, 7.0]).ci95, Some([7.0, 7.0]));
    }
}
