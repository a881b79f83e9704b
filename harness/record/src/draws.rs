//! Figures of a simulated row over draws of the platform's constants: `draws.jsonl`.

use serde::{Deserialize, Serialize};

use epochcost_spec::claims::Metric;

/// Figures of one row over all draws; one line of `draws.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowDraws {
    /// SHA-256 of the planned row, the constants and the seed that they stand on; absent before
    /// format 1.3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The row's id.
    pub row: String,
    /// Number of draws.
    pub draws: u32,
    /// Figures that rankings name.
    pub figures: Vec<DrawnFigure>,
    /// Reason why the row could not be timed again; it has no values then.
    pub refused: Option<String>,
}

/// One figure of a row over all draws.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawnFigure {
    /// The metric.
    pub metric: Metric,
    /// The accuracy that `time_to_accuracy` waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<f64>,
    /// Values by draw, in the metric's own unit; null where the draw has no such figure.
    pub values: Vec<Option<f64>>,
}

impl RowDraws {
    /// Returns a figure's values by draw; none if it was not drawn.
    pub fn values(&self, metric: Metric, target: Option<f64>) -> Option<&[Option<f64>]> {
        let mut figures = self.figures.iter();
        let found = figures.find(|figure| figure.metric == metric && figure.target == target);
        found.map(|figure| figure.values.as_slice())
    }
}
