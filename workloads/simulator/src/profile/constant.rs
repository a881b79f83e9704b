//! Numbers with their sources.

use serde::{Deserialize, Serialize};

/// Published figures that a number was fitted to. A simulation that uses the
/// number cannot confirm them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedTo {
    /// Publication: paper, and table or section.
    pub source: String,
    /// Cells of the published tables that hold the figures, `FILE:LINE:COLUMN`;
    /// empty if no table holds them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<String>,
}

impl FittedTo {
    /// Returns the mistake in it, if there is one.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let is_empty = self.source.trim().is_empty();
        is_empty.then_some("`fitted_to` names its publication: give `source`")
    }
}

/// A number that a simulation uses, and its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// Value, in the unit that the field's name ends in.
    pub value: f64,
    /// Lowest value of a source or a measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Highest value of a source or a measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Source: a document with its address, or the measurement.
    pub source: String,
    /// Date of the source, `YYYY-MM-DD`.
    pub date: String,
    /// Published figures that the value was fitted to; none if it was taken
    /// from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fitted_to: Option<FittedTo>,
}

impl Constant {
    /// Returns the range that an uncertainty run samples: the value alone where
    /// sources agree.
    pub fn range(&self) -> (f64, f64) {
        (
            self.low.unwrap_or(self.value),
            self.high.unwrap_or(self.value),
        )
    }

    /// Returns the value at `fraction` (0..=1) of the range: log-uniform where the
    /// range is positive, so that a factor of two up is as likely as one down.
    pub fn at(&self, fraction: f64) -> f64 {
        let (low, high) = self.range();
        if low > 0.0 {
            low * (high / low).powf(fraction)
        } else {
            low + (high - low) * fraction
        }
    }

    /// Returns the first mistake in the constant, if any.
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
        let fitted = self.fitted_to.as_ref();
        fitted.and_then(FittedTo::fault).map(str::to_owned)
    }
}
