//! Conversion from a metric's own unit to that of a claim.

use super::metric::Metric;

/// A conversion from a metric's own unit to that of a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Factor by which a value is multiplied.
    factor: f64,
}

impl Scale {
    /// The conversion that leaves values as they are.
    pub const NONE: Self = Self { factor: 1.0 };

    /// Returns the conversion from `metric`'s own unit to `unit`; none where
    /// the two are not of the same kind.
    pub fn from_metric(metric: Metric, unit: &str) -> Option<Self> {
        let mut units = metric.units().iter();
        let (_, factor) = *units.find(|(name, _)| *name == unit)?;
        Some(Self { factor })
    }

    /// Returns a value in the target's unit.
    pub fn apply(self, value: f64) -> f64 {
        self.factor * value
    }

    /// Returns an interval's ends in the target's unit.
    pub fn interval(self, ends: [f64; 2]) -> [f64; 2] {
        ends.map(|end| self.apply(end))
    }
}

/// The unit of a ratio.
pub const RATIO_UNIT: &str = "×";

#[cfg(test)]
mod tests {
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
}
