use serde::{Deserialize, Serialize};

/// A number that a simulation stands on, and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// The value, in the unit that the field's name ends in.
    pub value: f64,
    /// The lowest that a source or a measurement gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The highest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Who says so: a document with its address, or the measurement.
    pub source: String,
    /// When the source said so, `YYYY-MM-DD`.
    pub date: String,
}

impl Constant {
    /// The range that an uncertainty run samples: the value alone where
    /// sources do not differ.
    pub fn range(&self) -> (f64, f64) {
        (
            self.low.unwrap_or(self.value),
            self.high.unwrap_or(self.value),
        )
    }

    /// The value at `fraction` (0..=1) of the range: log-uniform where the
    /// range is positive, so that a factor of two up is as likely as one down.
    pub fn at(&self, fraction: f64) -> f64 {
        let (low, high) = self.range();
        match low > 0.0 {
            true => low * (high / low).powf(fraction),
            false => low + (high - low) * fraction,
        }
    }

    /// What is wrong with it, if anything.
    pub(crate) fn fault(&self) -> Option<String> {
        let (low, high) = self.range();
        let finite = [self.value, low, high].iter().all(|x| x.is_finite());
        if !finite || low < 0.0 {
            return Some("give finite numbers of at least 0".into());
        }
        if !(low <= self.value && self.value <= high) {
            return Some(format!("{} is not within {low}..={high}", self.value));
        }
        if self.source.trim().is_empty() || self.date.trim().is_empty() {
            return Some("every constant names its source and date".into());
        }
        None
    }
}
