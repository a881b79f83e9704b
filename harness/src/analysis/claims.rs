//! What an experiment claims about its rows, and the words of the verdicts.

use std::fmt;

use epochcost_systems::Fidelity;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// One published figure, ranking or expectation that a run is held against.
///
/// The observed value is `metric` of the selected row; with `over`, it is that
/// divided by `metric` of the row that `over` selects, so that rankings and
/// factors ("13 times faster") are claims like any other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// What is claimed, in one sentence.
    pub claim: String,
    /// The rows that it speaks of; each gets a verdict of its own.
    pub select: Selector,
    /// Divides by this row's value. Fields left out are those of the selected row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Selector>,
    /// What is observed.
    pub metric: Metric,
    /// The observed value must not be below this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The observed value must not be above this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// The published value, in the metric's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
    /// How far the observed value may lie from the published one, as a share of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
    /// The unit, for the reader; the metric's own if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Where it is published: paper, table or section.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Where the published value went into what a simulation stands on ("S3's
    /// latency is fitted to it"): there its verdict is by construction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put_in: Option<String>,
    /// The verdict that is expected. Any other makes the run exit with 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Word>,
}

/// Which rows a claim speaks of: those that agree with every field given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selector {
    /// The row's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
    /// The training system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// The description followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fidelity: Option<Fidelity>,
    /// Data-parallel replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// Samples in a mini-batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<usize>,
    /// Memory size of the functions, MB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u32>,
}

/// A figure of a row that a claim can be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Wall seconds of an epoch.
    SecondsPerEpoch,
    /// Seconds of fetching data, a worker an epoch.
    FetchDataset,
    /// Seconds of computing gradients, a worker an epoch.
    ComputeGradients,
    /// Seconds of synchronising, a worker an epoch.
    Synchronise,
    /// Seconds of updating the model, a worker an epoch.
    UpdateModel,
    /// Seconds of detecting convergence, a worker an epoch.
    DetectConvergence,
    /// Billed milliseconds of a trial.
    BilledMs,
    /// Peak resident memory of an invocation, MB.
    PeakMemoryMb,
    /// Cost of a trial by the paper's formula, USD.
    CostPaperUsd,
    /// Cost of a trial with everything counted, USD.
    CostFullUsd,
    /// Values written in the exchange.
    Puts,
    /// Values read in the exchange.
    Gets,
    /// Messages published in the exchange.
    Messages,
    /// Bytes sent in the exchange.
    BytesUp,
    /// Bytes received in the exchange.
    BytesDown,
    /// Bytes sent and received in the exchange.
    Bytes,
    /// Mean training loss of the last epoch.
    TrainLoss,
    /// Test accuracy after the last epoch, in 0..=1.
    Accuracy,
    /// 1 if replicas were bit-identical, else 0.
    ReplicasIdentical,
    /// 1 if the metered exchange equals the system's closed form, else 0.
    TrafficMatches,
}

impl Metric {
    /// The unit of its values; empty for shares and counts.
    pub fn unit(self) -> &'static str {
        match self {
            Self::SecondsPerEpoch
            | Self::FetchDataset
            | Self::ComputeGradients
            | Self::Synchronise
            | Self::UpdateModel
            | Self::DetectConvergence => "s",
            Self::BilledMs => "ms",
            Self::PeakMemoryMb => "MB",
            Self::CostPaperUsd | Self::CostFullUsd => "USD",
            Self::BytesUp | Self::BytesDown | Self::Bytes => "bytes",
            Self::Puts
            | Self::Gets
            | Self::Messages
            | Self::TrainLoss
            | Self::Accuracy
            | Self::ReplicasIdentical
            | Self::TrafficMatches => "",
        }
    }

    /// Whether it is a time, or computed from one: such a figure belongs to
    /// the machine and network on which it was taken.
    pub fn is_timed(self) -> bool {
        matches!(self.unit(), "s" | "ms" | "USD")
    }

    /// Whether a simulation takes it, or part of it, from a compute profile.
    /// Every time is counted here: workers that compute make others wait.
    pub fn stands_on_compute(self) -> bool {
        self.is_timed() || self == Self::PeakMemoryMb
    }

    /// Whether it depends on what the data holds, beyond its size.
    pub fn is_learned(self) -> bool {
        matches!(self, Self::TrainLoss | Self::Accuracy)
    }
}

/// The word of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
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
    /// It cannot be run under a named limit.
    Infeasible,
}

impl Word {
    /// Every word, in the order in which reports count them.
    pub const ALL: [Self; 7] = [
        Self::Reproduced,
        Self::DirectionOnly,
        Self::NotReproduced,
        Self::Undecided,
        Self::ByConstruction,
        Self::NotRun,
        Self::Infeasible,
    ];

    /// The word as it is written in reports.
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

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A claim that says nothing that could be checked.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ClaimError {
    /// Neither a limit nor a published value.
    #[error("the claim {0:?} has nothing to be held against: give at_least, at_most or published")]
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
        /// Its value.
        value: f64,
        /// What it may be.
        domain: &'static str,
    },
    /// The band is empty.
    #[error("the claim {0:?} has at_least above at_most: nothing lies between them")]
    EmptyBand(String),
}

impl Claim {
    /// Checks that something could meet the claim and something could fail it.
    ///
    /// # Errors
    /// Says what is missing or contradicts itself.
    pub fn validate(&self) -> Result<(), ClaimError> {
        let name = || self.claim.clone();
        let limited = self.at_least.is_some() || self.at_most.is_some();
        if !limited && self.published.is_none() {
            return Err(ClaimError::Empty(name()));
        }
        if self.tolerance.is_some() != (self.published.is_some() && !limited) {
            return Err(ClaimError::Tolerance(name()));
        }
        let numbers = [
            ("at_least", self.at_least),
            ("at_most", self.at_most),
            ("published", self.published),
            ("tolerance", self.tolerance),
        ];
        for (field, value) in numbers {
            let Some(value) = value else { continue };
            let domain = if field == "tolerance" {
                "finite and at least 0"
            } else {
                "finite"
            };
            if !value.is_finite() || (field == "tolerance" && value < 0.0) {
                return Err(ClaimError::Domain {
                    claim: name(),
                    field,
                    value,
                    domain,
                });
            }
        }
        match (self.at_least, self.at_most) {
            (Some(low), Some(high)) if low > high => Err(ClaimError::EmptyBand(name())),
            _ => Ok(()),
        }
    }

    /// The band that the observed value must lie in, ends included.
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

    /// Whether it says which of two is ahead, and not by how much.
    pub fn is_ranking(&self) -> bool {
        self.over.is_some() && self.at_least.is_some() != self.at_most.is_some()
    }

    /// The unit of the observed value.
    pub fn unit(&self) -> &str {
        match (&self.unit, &self.over) {
            (Some(unit), _) => unit,
            (None, Some(_)) => "×",
            (None, None) => self.metric.unit(),
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
    /// Whether `value` lies in it.
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
