//! What an experiment claims about its rows.

use std::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::cause::Cause;
use super::cell::Cell;
use super::explanation::Explanation;
use super::kind::ClaimKind;
use super::metric::Metric;
use super::prediction::Prediction;
use super::scale::{RATIO_UNITS, Scale};
use super::selector::Selector;
use super::verdict::VerdictKind;

/// One published figure, ranking or expectation that a run is compared with.
///
/// The observed value is `metric` of the selected row; with `over`, it is that
/// divided by `metric` of the row that `over` selects, so that rankings and
/// factors ("13 times faster") are claims like any other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The claim, in one sentence; unique in its experiment.
    pub claim: String,
    /// Whose statement it is.
    pub kind: ClaimKind,
    /// Of a check or a finding, what must hold of rows: it then has no other terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formula: Option<String>,
    /// Of a finding that does not hold, the commit since which it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The claims of the same experiment that a consequence follows from, by
    /// their sentences.
    #[serde(
        default,
        deserialize_with = "one_or_more",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub of: Vec<String>,
    /// The rows that it speaks of; each gets a verdict of its own.
    pub select: Selector,
    /// Divides by this row's value. Fields left out are those of the selected row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Selector>,
    /// Metric of the row that is divided by, where it is another one: a stage over another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_metric: Option<Metric>,
    /// The paper's statement, where several experiments claim it: claims of one
    /// statement are one agreement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<String>,
    /// What is observed; left out only with `not_run`, where no metric is the
    /// published figure.
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
    /// Reason for a tolerance that is not that of the policy (METHODOLOGY).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band_reason: Option<String>,
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
    /// exist, or no metric is its figure. The selectors may then name what is
    /// not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_run: Option<String>,
    /// Reason why an agreement would be no evidence, beyond what the constants
    /// of the simulation state: an agreement is then by construction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put_in: Option<String>,
    /// Options of the command that keep it from being judged, with the reason: it
    /// then has no verdict. An experiment file does not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded: Option<String>,
    /// The verdict that is expected. Any other makes the run exit with 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<VerdictKind>,
    /// Reason why the expected verdict is not an agreement, with its evidence.
    /// Follows the reason of a verdict that is the expected one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
    /// What may be behind the published figure, each with a row that shows
    /// what it does to the observed one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Lines of the ledger about it, oldest first. An experiment file does not
    /// state them: they are read from `ledger.csv`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Prediction>,
}

impl Claim {
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

    /// Returns the metric of the row that is divided by.
    pub fn divisor(&self) -> Option<Metric> {
        self.over_metric.or(self.metric)
    }

    /// Returns whether it states which of two is ahead, and not by how much.
    pub fn is_ranking(&self) -> bool {
        self.over.is_some() && self.at_least.is_some() != self.at_most.is_some()
    }

    /// Returns the band as the ledger writes it: "15.44 ± 10 %", "≥ 0.8",
    /// "≤ 1", or "10 to 12".
    pub fn band_text(&self) -> String {
        match (self.published, self.tolerance, self.at_least, self.at_most) {
            (Some(published), Some(tolerance), ..) => {
                // Percent without the last digits of binary fractions.
                let percent = (tolerance * 1e6).round() / 1e4;
                format!("{published} ± {percent} %")
            }
            (_, _, Some(low), Some(high)) => format!("{low} to {high}"),
            (_, _, Some(low), None) => format!("≥ {low}"),
            (_, _, None, Some(high)) => format!("≤ {high}"),
            _ => String::new(),
        }
    }

    /// Returns what it is counted as among the agreements: its cell, the paper's
    /// statement, or its source and sentence.
    pub fn counted_as(&self) -> String {
        let source = self.source.as_deref().unwrap_or_default();
        match (&self.cell, &self.statement) {
            (Some(cell), _) => cell.to_string(),
            (None, Some(statement)) => format!("{source}: {statement}"),
            (None, None) => format!("{source}: {}", self.claim),
        }
    }

    /// Returns the paper of its source: what stands before the first comma.
    pub fn paper(&self) -> Option<&str> {
        self.source.as_deref().map(paper_of)
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

    pub(super) fn units(&self) -> Vec<&'static str> {
        match (&self.over, self.metric) {
            (None, Some(metric)) => metric.units().iter().map(|(unit, _)| *unit).collect(),
            _ => RATIO_UNITS.to_vec(),
        }
    }
}

/// Returns the paper that a source names: what stands before its first comma.
pub fn paper_of(source: &str) -> &str {
    source.split(',').next().unwrap_or_default().trim()
}

/// Reads one text, or a list of texts.
fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct OneOrMore;

    impl<'de> Visitor<'de> for OneOrMore {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the text of a claim, or a list of such texts")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<String>, E> {
            Ok(vec![text.to_owned()])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut texts: A) -> Result<Vec<String>, A::Error> {
            let mut all = Vec::new();
            while let Some(text) = texts.next_element()? {
                all.push(text);
            }
            Ok(all)
        }
    }

    deserializer.deserialize_any(OneOrMore)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn claim(json: &str) -> Claim {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_ranking_compares_two_rows_and_gives_no_value() {
        let with = |rest: &str| {
            let base = r#""claim":"c","kind":"own","select":{},"metric":"puts""#;
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
        let error =
            serde_json::from_str::<Claim>(r#"{"claim":"c","kind":"own","selct":{}}"#).unwrap_err();
        assert!(
            error.to_string().contains("unknown field `selct`"),
            "{error}"
        );
    }

    #[test]
    fn the_band_of_a_negative_value_is_not_inside_out() {
        let mut c = claim(
            r#"{"claim":"c","kind":"own","select":{},"metric":"accuracy","published":-2,"tolerance":0.5}"#,
        );
        assert!(c.band().contains(-2.9) && !c.band().contains(-3.1));
        c.published = None;
        c.tolerance = None;
        c.at_most = Some(0.0);
        assert!(c.band().contains(-1e9) && !c.band().contains(0.1));
    }
}
