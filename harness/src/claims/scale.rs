//! Conversion from a metric's own unit to that of a claim.

use super::metric::Metric;

/// A conversion from a metric's own unit to that of a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Factor by which a value is multiplied first.
    factor: f64,
    /// Summand that is added then, in the target's unit.
    offset: f64,
}

impl Scale {
    /// The conversion that leaves values as they are.
    pub const NONE: Self = Self {
        factor: 1.0,
        offset: 0.0,
    };

    /// Returns the conversion from `metric`'s own unit to `unit`; none where
    /// the two are not of the same kind.
    pub fn from_metric(metric: Metric, unit: &str) -> Option<Self> {
        let mut units = metric.units().iter();
        units
            .find(|(name, _)| *name == unit)
            .map(|&(_, factor)| Self {
                factor,
                offset: 0.0,
            })
    }

    /// Returns the conversion from a ratio to `unit`, `×` or `% less`; none for
    /// any other unit.
    pub fn from_ratio(unit: &str) -> Option<Self> {
        match unit {
            "×" => Some(Self::NONE),
            "% less" => Some(Self {
                factor: -100.0,
                offset: 100.0,
            }),
            _ => None,
        }
    }

    /// Returns a value in the target's unit.
    pub fn apply(self, value: f64) -> f64 {
        self.factor * value + self.offset
    }

    /// Returns an interval's ends in the target's unit, the lower one first.
    pub fn interval(self, [low, high]: [f64; 2]) -> [f64; 2] {
        let ends = [self.apply(low), self.apply(high)];
        if self.factor < 0.0 {
            [ends[1], ends[0]]
        } else {
            ends
        }
    }
}

/// The units of a ratio: the ratio itself, and by how many percent it is below 1.
pub const RATIO_UNITS: [&str; 2] = ["×", "% less"];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn units_are_converted_and_others_refused() {
        let minutes = Scale::from_metric(Metric::TimeToAccuracy, "min").unwrap();
        assert!((minutes.apply(90.0) - 1.5).abs() < 1e-12);
        let percent = Scale::from_metric(Metric::Accuracy, "%").unwrap();
        assert!((percent.apply(0.832) - 83.2).abs() < 1e-12);
        assert_eq!(Scale::from_metric(Metric::Puts, "%"), None);
        assert_eq!(Scale::from_metric(Metric::TrainLoss, "s"), None);
    }

    #[test]
    fn a_share_that_is_saved_turns_an_interval_around() {
        let saved = Scale::from_ratio("% less").unwrap();
        assert!((saved.apply(0.0266) - 97.34).abs() < 1e-9);
        assert_eq!(saved.interval([0.25, 0.5]), [50.0, 75.0]);
        assert_eq!(Scale::from_ratio("s"), None);
    }
}
