//! What an experiment claims about its rows, and the kinds of verdict.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::cause::Cause;
use super::cell::Cell;
use super::metric::Metric;
use super::scale::{RATIO_UNITS, Scale};
use super::selector::Selector;

/// One published figure, ranking or expectation that a run is compared with.
///
/// The observed value is `metric` of the selected row; with `over`, it is that
/// divided by `metric` of the row that `over` selects, so that rankings and
/// factors ("13 times faster") are claims like any other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The claim, in one sentence.
    pub claim: String,
    /// The rows that it speaks of; each gets a verdict of its own.
    pub select: Selector,
    /// Divides by this row's value. Fields left out are those of the selected row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Selector>,
    /// What is observed; left out only with `not_run`, where nothing that is
    /// recorded is the published figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// The accuracy that `time_to_accuracy` waits for, in 0..=1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<f64>,
    /// The observed value must not be below this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The observed value must not be above this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// The published value, in the claim's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
    /// Share of the published value by which the observed one may differ from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
    /// The unit of every value here, to which observed ones are converted; the
    /// metric's own if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Publication: paper, table or section.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The cell of a published table that `published` is quoted from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<Cell>,
    /// Reason why no run can observe it yet: its system or model does not
    /// exist. The selectors may then name what is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_run: Option<String>,
    /// Reason why the published value is no evidence in a simulation ("S3's
    /// latency is fitted to it"): there its verdict is by construction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put_in: Option<String>,
    /// The verdict that is expected. Any other makes the run exit with 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<VerdictKind>,
    /// Reason why the expected verdict is not `reproduced`, with the evidence. Follows
    /// the reason of a verdict that is the expected one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
    /// What may be behind the published figure, each with a row that shows
    /// what it does to the observed one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
}

/// The kind of a verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// The observed value lies in the band.
    Reproduced,
    /// A factor lies on the published side of 1, but outside the band.
    DirectionOnly,
    /// The observed value lies outside the band.
    NotReproduced,
    /// The two cannot be compared, or the interval crosses the band's edge.
    Undecided,
    /// The figure, or one it is computed from, was put in: it proves nothing,
    /// whether it lies in the band or not.
    ByConstruction,
    /// No trial of the row ended well, or no row was selected.
    NotRun,
    /// A named limit makes it impossible to run.
    Infeasible,
}

impl VerdictKind {
    /// Every kind, in the order in which reports count them.
    pub const ALL: [Self; 7] = [
        Self::Reproduced,
        Self::DirectionOnly,
        Self::NotReproduced,
        Self::Undecided,
        Self::ByConstruction,
        Self::NotRun,
        Self::Infeasible,
    ];

    /// Returns it as written in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::DirectionOnly => "direction only",
            Self::NotReproduced => "not reproduced",
            Self::Undecided => "undecided",
            Self::ByConstruction => "by construction",
            Self::NotRun => "not run",
            Self::Infeasible => "infeasible",
        }
    }
}

impl fmt::Display for VerdictKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A claim that states nothing that could be checked.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ClaimError {
    /// Neither a limit nor a published value.
    #[error("the claim {0:?} has no expected value: give at_least, at_most or published")]
    Empty(String),
    /// A published value without its tolerance, or the reverse.
    #[error(
        "the claim {0:?} must give published and tolerance together, \
         or at_least or at_most as the band around published"
    )]
    Tolerance(String),
    /// A number out of its domain.
    #[error("the claim {claim:?} has {field} = {value}; it must be {domain}")]
    Domain {
        /// The claim.
        claim: String,
        /// The field.
        field: &'static str,
        /// Value.
        value: f64,
        /// What it may be.
        domain: &'static str,
    },
    /// The band is empty.
    #[error("the claim {0:?} has at_least above at_most: nothing lies between them")]
    EmptyBand(String),
    /// Nothing is observed.
    #[error("the claim {0:?} names no metric")]
    Metric(String),
    /// A target without `time_to_accuracy`, or the reverse.
    #[error("the claim {0:?} must give target and the metric time_to_accuracy together")]
    Target(String),
    /// A unit that observed values cannot be converted to.
    #[error("the claim {claim:?} is in {unit:?}, and its metric is not")]
    Unit {
        /// The claim.
        claim: String,
        /// Unit.
        unit: String,
        /// Units that it could be in.
        known: Vec<&'static str>,
    },
    /// An explanation of nothing.
    #[error("the claim {0:?} explains a verdict that it does not expect")]
    Explanation(String),
    /// A cell of a table, and no value that it holds.
    #[error("the claim {0:?} names a cell and no published value")]
    Cell(String),
}

impl ClaimError {
    /// Returns the field that it is about; none if it is about several.
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::Domain { field, .. } => Some(field),
            Self::Unit { .. } => Some("unit"),
            Self::Cell(_) => Some("cell"),
            Self::Explanation(_) => Some("explanation"),
            _ => None,
        }
    }

    /// Remedy.
    pub fn remedy(&self) -> String {
        match self {
            Self::Metric(_) => {
                "add `metric:`, or `not_run:` if nothing that is recorded is this figure".into()
            }
            Self::Target(_) => "`metric: time_to_accuracy` with `target: 0.8`".into(),
            Self::Unit { known, .. } => {
                let known: Vec<String> = known.iter().map(|unit| format!("{unit:?}")).collect();
                format!("give one of {}, or leave the unit out", known.join(", "))
            }
            Self::Cell(_) => "add `published:` with the cell's value".into(),
            Self::Explanation(_) => {
                "give `expect`, another verdict than `reproduced`, or leave the explanation out"
                    .into()
            }
            _ => {
                "give `at_least` or `at_most`, or `published` with its relative `tolerance`".into()
            }
        }
    }
}

impl Claim {
    /// Checks that something could meet the claim and something could fail it.
    ///
    /// # Errors
    /// Says what is missing or contradicts itself.
    pub fn validate(&self) -> Result<(), ClaimError> {
        self.validate_band()?;
        let name = || self.claim.clone();
        if self.metric.is_none() && self.not_run.is_none() {
            return Err(ClaimError::Metric(name()));
        }
        if self.target.is_some() != (self.metric == Some(Metric::TimeToAccuracy)) {
            return Err(ClaimError::Target(name()));
        }
        if self.cell.is_some() && self.published.is_none() {
            return Err(ClaimError::Cell(name()));
        }
        let expects_less = self
            .expect
            .is_some_and(|kind| kind != VerdictKind::Reproduced);
        if self.explanation.is_some() && !expects_less {
            return Err(ClaimError::Explanation(name()));
        }
        match (&self.unit, self.scale()) {
            (Some(unit), None) => Err(ClaimError::Unit {
                claim: name(),
                unit: unit.clone(),
                known: self.units(),
            }),
            _ => Ok(()),
        }
    }

    fn validate_band(&self) -> Result<(), ClaimError> {
        let name = || self.claim.clone();
        let limited = self.at_least.is_some() || self.at_most.is_some();
        if !limited && self.published.is_none() {
            return Err(ClaimError::Empty(name()));
        }
        if self.tolerance.is_some() != (self.published.is_some() && !limited) {
            return Err(ClaimError::Tolerance(name()));
        }
        // Every number lies in its domain.
        const FINITE: &str = "finite";
        let numbers = [
            (
                "at_least",
                self.at_least,
                f64::NEG_INFINITY,
                f64::INFINITY,
                FINITE,
            ),
            (
                "at_most",
                self.at_most,
                f64::NEG_INFINITY,
                f64::INFINITY,
                FINITE,
            ),
            (
                "published",
                self.published,
                f64::NEG_INFINITY,
                f64::INFINITY,
                FINITE,
            ),
            (
                "tolerance",
                self.tolerance,
                0.0,
                f64::INFINITY,
                "finite and at least 0",
            ),
            ("target", self.target, 0.0, 1.0, "a share, 0 to 1"),
        ];
        for (field, value, low, high, domain) in numbers {
            let Some(value) = value else { continue };
            if !value.is_finite() || value < low || value > high {
                return Err(ClaimError::Domain {
                    claim: name(),
                    field,
                    value,
                    domain,
                });
            }
        }
        // The band is not empty.
        match (self.at_least, self.at_most) {
            (Some(low), Some(high)) if low > high => Err(ClaimError::EmptyBand(name())),
            _ => Ok(()),
        }
    }

    /// Returns the band that the observed value must lie in, ends included.
    pub fn band(&self) -> Band {
        match (self.published, self.tolerance) {
            (Some(published), Some(tolerance)) => {
                let reach = published.abs() * tolerance;
                Band {
                    low: Some(published - reach),
                    high: Some(published + reach),
                }
            }
            _ => Band {
                low: self.at_least,
                high: self.at_most,
            },
        }
    }

    /// Returns whether it states which of two is ahead, and not by how much.
    pub fn is_ranking(&self) -> bool {
        self.over.is_some() && self.at_least.is_some() != self.at_most.is_some()
    }

    /// Returns the unit of the observed value.
    pub fn unit(&self) -> &str {
        match (&self.unit, &self.over, self.metric) {
            (Some(unit), _, _) => unit,
            (None, Some(_), _) => RATIO_UNITS[0],
            (None, None, Some(metric)) => metric.unit(),
            (None, None, None) => "",
        }
    }

    /// Returns the conversion from the metric's own unit, or a ratio, to the
    /// claim's unit; none if there is no way.
    pub fn scale(&self) -> Option<Scale> {
        match (&self.over, self.metric) {
            (Some(_), _) => Scale::from_ratio(self.unit()),
            (None, Some(metric)) => Scale::from_metric(metric, self.unit()),
            // Nothing is observed, so that nothing is converted.
            (None, None) => Some(Scale::NONE),
        }
    }

    fn units(&self) -> Vec<&'static str> {
        match (&self.over, self.metric) {
            (None, Some(metric)) => metric.units().iter().map(|(unit, _)| *unit).collect(),
            _ => RATIO_UNITS.to_vec(),
        }
    }
}

/// An interval that may be open to either side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// The lower end.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

impl Band {
    /// Returns whether `value` lies in it.
    pub fn contains(self, value: f64) -> bool {
        self.low.is_none_or(|low| value >= low) && self.high.is_none_or(|high| value <= high)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn claim(json: &str) -> Claim {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_claim_needs_something_to_be_held_against() {
        let base = r#""claim":"c","select":{"system":"spirt"},"metric":"accuracy""#;
        let with = |rest: &str| claim(&format!("{{{base}{rest}}}")).validate();
        assert_eq!(with(""), Err(ClaimError::Empty("c".into())));
        assert_eq!(
            with(r#","published":1"#),
            Err(ClaimError::Tolerance("c".into()))
        );
        assert_eq!(
            with(r#","at_least":1,"tolerance":0.1"#),
            Err(ClaimError::Tolerance("c".into()))
        );
        assert_eq!(
            with(r#","at_least":2,"at_most":1"#),
            Err(ClaimError::EmptyBand("c".into()))
        );
        assert!(with(r#","published":1,"tolerance":-0.1"#).is_err());
        assert_eq!(with(r#","published":1,"tolerance":0.1"#), Ok(()));
        assert_eq!(with(r#","published":13,"at_least":1"#), Ok(()));
    }

    #[test]
    fn a_ranking_compares_two_rows_and_gives_no_value() {
        let with = |rest: &str| {
            let base = r#""claim":"c","select":{},"metric":"puts""#;
            claim(&format!("{{{base}{rest}}}")).is_ranking()
        };
        assert!(with(r#","over":{},"at_most":1"#));
        assert!(with(r#","over":{},"at_least":1,"published":13"#));
        assert!(!with(r#","at_most":1"#));
        assert!(!with(r#","over":{},"published":13,"tolerance":0.2"#));
        assert!(!with(r#","over":{},"at_least":1,"at_most":2"#));
    }

    #[test]
    fn unknown_fields_are_refused() {
        let error = serde_json::from_str::<Claim>(r#"{"claim":"c","selct":{}}"#).unwrap_err();
        assert!(
            error.to_string().contains("unknown field `selct`"),
            "{error}"
        );
    }

    #[test]
    fn the_band_of_a_negative_value_is_not_inside_out() {
        let mut c = claim(
            r#"{"claim":"c","select":{},"metric":"accuracy","published":-2,"tolerance":0.5}"#,
        );
        assert!(c.band().contains(-2.9) && !c.band().contains(-3.1));
        c.published = None;
        c.tolerance = None;
        c.at_most = Some(0.0);
        assert!(c.band().contains(-1e9) && !c.band().contains(0.1));
    }
}
