//! What is compared with the rows of an experiment.

use serde::{Deserialize, Serialize};

use super::cause::Cause;
use super::cell::Cell;
use super::kind::ClaimKind;
use super::metric::Metric;
use super::scale::Scale;
use super::verdict::VerdictKind;

/// A printed figure beside a row, or a formula over rows: a paper's statement, a check or a
/// finding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The claim, in one sentence; unique in its experiment. That of a printed figure names its
    /// cell: `seconds_per_batch[MobileNet, SPIRT]`.
    pub claim: String,
    /// Whose statement it is.
    pub kind: ClaimKind,
    /// What must hold of rows; none of a printed figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formula: Option<String>,
    /// The printed figure; none of a formula.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<Printed>,
    /// What is observed, or read first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// The accuracy that `time_to_accuracy` waits for, in 0..=1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<f64>,
    /// The id of the paper's statement; its claims are one agreement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<String>,
    /// The statement of the paper that its statement is a reading of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading_of: Option<String>,
    /// The claims of the same experiment that a consequence follows from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of: Vec<String>,
    /// Publication: paper, table or section.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Of a statement that gives a percentage: it is compared in points.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_points: bool,
    /// Reason why the observed figure is another than the printed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_comparable: Option<String>,
    /// Reason why no simulation of the statement can come out otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cannot_fail: Option<String>,
    /// Of a finding that does not hold, the commit since which it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Options of the command that keep it from being judged, with the reason: it
    /// then has no verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded: Option<String>,
    /// The verdict that is expected: of a paper's claim, the recorded one. Any other makes the
    /// run exit with 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<VerdictKind>,
    /// A remark of the paper's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A printed figure, with the row that stands beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    /// The row's id.
    pub row: String,
    /// The figure, in `unit`.
    pub value: f64,
    /// Half a unit of its last digit.
    pub half_digit: f64,
    /// Unit, to which the observed value is converted.
    pub unit: String,
    /// The cell that holds it.
    pub cell: Cell,
    /// What may be behind the figure, each with a row that shows what it does to the observed one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
}

impl Claim {
    /// Returns what it is counted as: its cell, the paper's
    /// statement, or its source and sentence.
    pub fn counted_as(&self) -> String {
        let source = self.source.as_deref().unwrap_or_default();
        match (&self.printed, &self.statement) {
            (Some(printed), _) => printed.cell.to_string(),
            (None, Some(statement)) => format!("{}: {statement}", paper_of(source)),
            (None, None) => format!("{source}: {}", self.claim),
        }
    }

    /// Returns the paper of its source: what stands before the first comma.
    pub fn paper(&self) -> Option<&str> {
        self.source.as_deref().map(paper_of)
    }

    /// Returns the conversion from the metric's own unit to that of the printed figure; none if
    /// there is no way.
    pub fn scale(&self) -> Option<Scale> {
        match (&self.printed, self.metric) {
            (Some(printed), Some(metric)) => Scale::from_metric(metric, &printed.unit),
            _ => Some(Scale::NONE),
        }
    }
}

/// Returns the paper that a source names: what stands before its first comma.
pub fn paper_of(source: &str) -> &str {
    source.split(',').next().unwrap_or_default().trim()
}

/// An interval that may be open to either side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
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
