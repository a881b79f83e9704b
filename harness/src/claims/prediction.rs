//! The ledger of predictions: what a claim's band, metric and expected verdict
//! were, since when, and why they were changed.

use serde::{Deserialize, Serialize};

use super::claim::Claim;
use super::kind::ClaimKind;
use super::metric::Metric;
use super::verdict::VerdictKind;

/// Whether a prediction was written before or after the claim's first result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Known {
    /// Before: no result was known.
    Before,
    /// After: a result was known.
    After,
}

/// One line of the ledger: a claim's terms from a day on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// Kind of claim; none in lines older than the kinds.
    pub kind: Option<ClaimKind>,
    /// What is observed; none if nothing that is recorded is the figure.
    pub metric: Option<Metric>,
    /// The accuracy that `time_to_accuracy` waits for, in 0..=1.
    pub target: Option<f64>,
    /// The band, as [`Claim::band_text`] writes it.
    pub band: String,
    /// The expected verdict; none if the claim states none.
    pub expect: Option<VerdictKind>,
    /// Whether a result was known on that day.
    pub known: Known,
    /// The day, `YYYY-MM-DD`.
    pub date: String,
    /// Reason for the change; empty in a claim's first line.
    pub why: String,
}

impl Prediction {
    /// Returns whether it states the claim as it is now.
    pub fn is_of(&self, claim: &Claim) -> bool {
        self.kind == Some(claim.kind)
            && self.metric == claim.metric
            && self.target == claim.target
            && self.band == claim.band_text()
            && self.expect == claim.expect
    }

    /// Returns the fields in which it differs from the one before it, each as
    /// "name: old → new".
    pub fn changes_since(&self, old: &Self) -> Vec<String> {
        let text = |prediction: &Self| {
            [
                (
                    "kind",
                    prediction
                        .kind
                        .map_or(String::new(), |kind| kind.to_string()),
                ),
                (
                    "metric",
                    prediction.metric.map_or("", Metric::name).to_owned(),
                ),
                (
                    "target",
                    prediction
                        .target
                        .map_or(String::new(), |target| target.to_string()),
                ),
                ("band", prediction.band.clone()),
                (
                    "expected",
                    prediction
                        .expect
                        .map_or(String::new(), |kind| kind.to_string()),
                ),
            ]
        };
        let or_none = |text: String| {
            if text.is_empty() {
                "none".to_owned()
            } else {
                text
            }
        };
        let pairs = text(old).into_iter().zip(text(self));
        pairs
            .filter(|(old, new)| old != new)
            .map(|((name, old), (_, new))| format!("{name}: {} → {}", or_none(old), or_none(new)))
            .collect()
    }
}
