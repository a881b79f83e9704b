//! Numbers with their sources.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Published figures that a number was fitted to. A simulation that uses the
/// number cannot confirm them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// Value, in the unit that the field's name ends in.
    #[schemars(range(min = 0.0, max = 1e18))]
    pub value: f64,
    /// Lowest value of a source or a measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e18))]
    pub low: Option<f64>,
    /// Highest value of a source or a measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1e18))]
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

    /// Returns the value at `fraction` (0..=1) of the range with the stated value in its middle:
    /// half of all fractions lie on either side of it, log-uniformly where the range is positive.
    /// So draws are about the stated values, though one lie near an end of its range.
    pub fn at(&self, fraction: f64) -> f64 {
        let (low, high) = self.range();
        if fraction < 0.5 {
            between(low, self.value, 2.0 * fraction)
        } else {
            between(self.value, high, 2.0 * fraction - 1.0)
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
        if self.source.trim().is_empty() || !is_date(&self.date) {
            return Some("every constant names its source and date, as 2026-11-21".into());
        }
        let fitted = self.fitted_to.as_ref();
        fitted.and_then(FittedTo::fault).map(str::to_owned)
    }
}

/// Returns whether a text is a date, `YYYY-MM-DD`, or a time that starts with one.
pub(super) fn is_date(text: &str) -> bool {
    let (day, rest) = text.split_at_checked(10).unwrap_or_default();
    let parts: Option<Vec<u32>> = day.split('-').map(|part| part.parse().ok()).collect();
    let is_day = matches!(parts.as_deref(), Some([year, 1..=12, 1..=31]) if *year >= 1000);
    is_day && (rest.is_empty() || rest.starts_with('T'))
}

/// Returns what lies at a share of the way from `low` to `high`, by logarithm if both are
/// positive.
fn between(low: f64, high: f64, share: f64) -> f64 {
    if low > 0.0 {
        low * (high / low).powf(share)
    } else {
        low + (high - low) * share
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_date_begins_with_the_year() {
        for date in ["2026-11-21", "2026-11-23T18:57:07Z"] {
            assert!(super::is_date(date), "{date}");
        }
        for other in [
            "",
            "2026",
            "01/01/2025",
            "21-11-2026",
            "2026-13-01",
            "2026-11-211",
        ] {
            assert!(!super::is_date(other), "{other}");
        }
    }

    proptest! {
        #[test]
        fn draws_lie_in_the_range_with_the_value_in_the_middle(
            low in prop_oneof![Just(0.0), 1e-6f64..1.0],
            up in 0.0f64..10.0,
            further in 0.0f64..100.0,
            fraction in 0.0f64..=1.0,
        ) {
            let constant = Constant {
                value: low + up,
                low: Some(low),
                high: Some(low + up + further),
                source: "a test".into(),
                date: "2026-11-22".into(),
                fitted_to: None,
            };
            let (low, high) = constant.range();
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * high.max(1e-9);
            prop_assert!(near(constant.at(0.0), low) && near(constant.at(1.0), high));
            prop_assert!(near(constant.at(0.5), constant.value));
            let drawn = constant.at(fraction);
            let below = drawn <= constant.value * (1.0 + 1e-9) + 1e-12;
            let above = drawn >= constant.value * (1.0 - 1e-9) - 1e-12;
            prop_assert!(if fraction < 0.5 { below } else { above }, "{drawn}");
        }
    }
}
