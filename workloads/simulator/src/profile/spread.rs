//! The spread of repeated events around their mean, as a table of quantiles.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Largest distance of a table's mean from 1.
const MEAN_TOLERANCE: f64 = 0.02;

/// Quantiles of a duration relative to its mean, by rising share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Pairs of a share, 0 to 1, and the quantile of that share over the mean.
    #[schemars(
        length(min = 2, max = 10_000),
        inner(inner(range(min = 0.0, max = 1e9)))
    )]
    pub quantiles: Vec<[f64; 2]>,
    /// Source: the measurement.
    pub source: String,
    /// Date of the source, `YYYY-MM-DD`.
    pub date: String,
}

impl Spread {
    /// Returns the duration over its mean at `share` (0..=1), interpolated between
    /// neighbours.
    pub fn at(&self, share: f64) -> f64 {
        let above = self.quantiles.partition_point(|[known, _]| *known <= share);
        let (Some(&[low, from]), Some(&[high, to])) = (
            above
                .checked_sub(1)
                .and_then(|index| self.quantiles.get(index)),
            self.quantiles.get(above),
        ) else {
            let nearest = if above == 0 {
                self.quantiles.first()
            } else {
                self.quantiles.last()
            };
            return nearest.map_or(1.0, |[_, factor]| *factor);
        };
        from + (to - from) * (share - low) / (high - low)
    }

    /// Returns the spread with every logarithm multiplied by `width`, and a mean of 1.
    #[must_use]
    pub(super) fn widened(&self, width: f64) -> Self {
        let powers = self.quantiles.iter();
        let mut wider = Self {
            quantiles: powers
                .map(|[share, factor]| [*share, factor.powf(width)])
                .collect(),
            ..self.clone()
        };
        let mean = wider.mean();
        for [_, factor] in &mut wider.quantiles {
            *factor /= mean;
        }
        wider
    }

    /// Returns the variance over all shares.
    pub(crate) fn variance(&self) -> f64 {
        let square = |[[low, from], [high, to]]: [[f64; 2]; 2]| {
            // The mean of a square that rises linearly between two deviations from 1.
            let (from, to) = (from - 1.0, to - 1.0);
            (high - low) * (from * from + from * to + to * to) / 3.0
        };
        let pairs = self.quantiles.windows(2);
        let squares: f64 = pairs.map(|pair| square([pair[0], pair[1]])).sum();
        (squares - (self.mean() - 1.0).powi(2)).max(0.0)
    }

    /// Returns the mean of all shares: 1, up to rounding.
    fn mean(&self) -> f64 {
        let pairs = self.quantiles.windows(2);
        pairs
            .map(|pair| (pair[1][0] - pair[0][0]) * (pair[0][1] + pair[1][1]) / 2.0)
            .sum()
    }

    /// Returns the first mistake in the table, if any.
    pub(super) fn fault(&self) -> Option<String> {
        let ends = [self.quantiles.first(), self.quantiles.last()];
        let [Some([first, _]), Some([last, _])] = ends else {
            return Some("give at least two quantiles".into());
        };
        if (*first, *last) != (0.0, 1.0) {
            return Some("the first share is 0 and the last is 1".into());
        }
        let rises = |pair: &[[f64; 2]]| pair[0][0] < pair[1][0] && pair[0][1] <= pair[1][1];
        let is_positive = |[_, factor]: &[f64; 2]| factor.is_finite() && *factor > 0.0;
        if !self.quantiles.windows(2).all(rises) || !self.quantiles.iter().all(is_positive) {
            return Some("shares and quantiles rise, and quantiles are above 0".into());
        }
        if (self.mean() - 1.0).abs() > MEAN_TOLERANCE {
            return Some(format!(
                "quantiles are relative to their mean, which is {:.3} and not 1",
                self.mean()
            ));
        }
        let is_empty = self.source.trim().is_empty() || self.date.trim().is_empty();
        is_empty.then(|| "every spread names its source and date".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Spread {
        pub(crate) fn of_test(quantiles: &[[f64; 2]]) -> Self {
            Self {
                quantiles: quantiles.to_vec(),
                source: "a test".into(),
                date: "2026-11-22".into(),
            }
        }
    }

    #[test]
    fn quantiles_are_interpolated_and_end_at_the_table() {
        let spread = Spread::of_test(&[[0.0, 0.5], [0.5, 1.0], [1.0, 1.5]]);
        assert_eq!(spread.fault(), None);
        let at = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| spread.at(share));
        assert_eq!(at, [0.5, 0.75, 1.0, 1.25, 1.5]);
    }

    #[test]
    fn tables_that_do_not_rise_or_have_another_mean_are_refused() {
        let tables: [&[[f64; 2]]; 5] = [
            &[],
            &[[0.0, 1.0]],
            &[[0.1, 1.0], [1.0, 1.0]],
            &[[0.0, 2.0], [0.5, 1.0], [1.0, 0.5]],
            &[[0.0, 1.0], [1.0, 2.0]],
        ];
        for table in tables {
            assert!(Spread::of_test(table).fault().is_some(), "{table:?}");
        }
        let unnamed = Spread {
            source: String::new(),
            ..Spread::of_test(&[[0.0, 1.0], [1.0, 1.0]])
        };
        assert!(unnamed.fault().is_some());
    }
}
