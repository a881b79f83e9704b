//! Normal beliefs about logarithms, and what a measured row adds to them.

/// A joint normal distribution.
#[derive(Clone, Debug)]
pub(super) struct Belief {
    /// Means.
    pub(super) mean: Vec<f64>,
    covariance: Vec<Vec<f64>>,
}

impl Belief {
    /// Returns independent quantities about 0 with these standard deviations.
    pub(super) fn new(deviations: &[f64]) -> Self {
        let row = |(index, deviation): (usize, &f64)| {
            let mut row = vec![0.0; deviations.len()];
            row[index] = deviation * deviation;
            row
        };
        Self {
            mean: vec![0.0; deviations.len()],
            covariance: deviations.iter().enumerate().map(row).collect(),
        }
    }

    /// Returns the first `keep` quantities, and independent ones about 0 with these deviations.
    pub(super) fn followed_by(&self, keep: usize, deviations: &[f64]) -> Self {
        let mut all = Self::new(&[&vec![0.0; keep], deviations].concat());
        all.mean[..keep].copy_from_slice(&self.mean[..keep]);
        for (row, known) in all.covariance.iter_mut().zip(&self.covariance).take(keep) {
            row[..keep].copy_from_slice(&known[..keep]);
        }
        all
    }

    /// Takes in an observation of the sum of `slopes` times the quantities, with an error of
    /// this variance. In one dimension the mean moves by the share
    /// prior variance / (prior variance + variance) of what was seen (Gelman et al.,
    /// Bayesian Data Analysis, third edition, §2.5); here it is the same for a vector.
    pub(super) fn see(&mut self, slopes: &[f64], observed: f64, variance: f64) {
        let covered = self.times(slopes);
        let total = dot(slopes, &covered) + variance;
        let surprise = observed - dot(slopes, &self.mean);
        for (mean, gain) in self.mean.iter_mut().zip(&covered) {
            *mean += gain / total * surprise;
        }
        for (row, gain) in self.covariance.iter_mut().zip(&covered) {
            for (entry, other) in row.iter_mut().zip(&covered) {
                *entry -= gain * other / total;
            }
        }
    }

    /// Returns the standard deviation of quantity `index`.
    pub(super) fn deviation(&self, index: usize) -> f64 {
        self.covariance[index][index].max(0.0).sqrt()
    }

    /// Returns the variance of the sum of `slopes` times the quantities.
    pub(super) fn variance(&self, slopes: &[f64]) -> f64 {
        dot(slopes, &self.times(slopes)).max(0.0)
    }

    fn times(&self, slopes: &[f64]) -> Vec<f64> {
        let rows = self.covariance.iter();
        rows.map(|row| dot(row, slopes)).collect()
    }
}

/// Returns the sum of products; the longer one's rest is left out.
pub(super) fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The weighted means of the normal distribution with a known variance.
        #[test]
        fn one_quantity_moves_by_the_share_of_its_variance(
            deviation in 0.01f64..2.0,
            variance in 0.001f64..2.0,
            seen in proptest::collection::vec(-2.0f64..2.0, 1..30),
        ) {
            let mut belief = Belief::new(&[deviation]);
            for value in &seen {
                belief.see(&[1.0], *value, variance);
            }
            let (n, prior) = (seen.len() as f64, deviation * deviation);
            let mean = seen.iter().sum::<f64>() / n;
            let share = prior / (prior + variance / n);
            prop_assert!((belief.mean[0] - share * mean).abs() < 1e-9);
            let left = (1.0 / (1.0 / prior + n / variance)).sqrt();
            prop_assert!((belief.deviation(0) - left).abs() < 1e-9);
        }

        #[test]
        fn rows_count_alike_in_any_order(
            rows in proptest::collection::vec(
                (prop::array::uniform3(-1.0f64..1.0), -1.0f64..1.0, 0.01f64..1.0),
                1..12,
            ),
        ) {
            let taken_in = |rows: &mut dyn Iterator<Item = &([f64; 3], f64, f64)>| {
                let mut belief = Belief::new(&[0.5, 0.2, 1.0]);
                rows.for_each(|(slopes, seen, variance)| belief.see(slopes, *seen, *variance));
                belief
            };
            let one = taken_in(&mut rows.iter());
            let other = taken_in(&mut rows.iter().rev());
            for index in 0..3 {
                prop_assert!((one.mean[index] - other.mean[index]).abs() < 1e-9);
                prop_assert!((one.deviation(index) - other.deviation(index)).abs() < 1e-9);
                prop_assert!(one.deviation(index) <= [0.5, 0.2, 1.0][index] + 1e-12);
            }
        }
    }
}
