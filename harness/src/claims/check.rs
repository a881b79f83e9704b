//! Checks of a single claim: that something could meet it and something could
//! fail it, and that its fields are those of its kind.

use thiserror::Error;

use super::claim::Claim;
use super::kind::ClaimKind;
use super::metric::Metric;
use super::verdict::VerdictKind;

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
    /// Two metrics whose ratio has no meaning.
    #[error("the claim {0:?} divides by a metric that it cannot be divided by")]
    OverMetric(String),
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
    /// An explanation that nothing supports.
    #[error("the claim {0:?} gives no evidence for its explanation")]
    Evidence(String),
    /// A cell of a table, and no value that it holds.
    #[error("the claim {0:?} names a cell and no published value")]
    Cell(String),
    /// A field that the claim's kind does not have.
    #[error("the claim {claim:?} is of kind {kind}, which has no `{field}`")]
    Superfluous {
        /// The claim.
        claim: String,
        /// Its kind.
        kind: ClaimKind,
        /// The field.
        field: &'static str,
    },
    /// A field that the claim's kind needs.
    #[error("the claim {claim:?} is of kind {kind}, and gives no `{field}`")]
    Lacking {
        /// The claim.
        claim: String,
        /// Its kind.
        kind: ClaimKind,
        /// The field.
        field: &'static str,
    },
    /// A verdict that claims of this kind cannot have.
    #[error("the claim {claim:?} is of kind {kind}, and no verdict on it is {expect}")]
    Expect {
        /// The claim.
        claim: String,
        /// Its kind.
        kind: ClaimKind,
        /// The expected verdict.
        expect: VerdictKind,
    },
}

impl ClaimError {
    /// Returns the field that it is about; none if it is about several.
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::Domain { field, .. } => Some(field),
            Self::Unit { .. } => Some("unit"),
            Self::Cell(_) => Some("cell"),
            Self::OverMetric(_) => Some("over_metric"),
            Self::Explanation(_) | Self::Evidence(_) => Some("explanation"),
            Self::Superfluous { field, .. } => Some(field),
            Self::Lacking { .. } => Some("kind"),
            Self::Expect { .. } => Some("expect"),
            _ => None,
        }
    }

    /// Remedy.
    pub fn remedy(&self) -> String {
        match self {
            Self::Metric(_) => "add `metric:`, or `not_run:` if no metric is this figure".into(),
            Self::Target(_) => "`metric: time_to_accuracy` with `target: 0.8`".into(),
            Self::Unit { known, .. } => {
                let known: Vec<String> = known.iter().map(|unit| format!("{unit:?}")).collect();
                format!("give one of {}, or leave the unit out", known.join(", "))
            }
            Self::Cell(_) => "add `published:` with the cell's value".into(),
            Self::OverMetric(_) => "give `over` (`{}` is the same row), and two metrics of one \
                                    unit, none of them learned"
                .into(),
            Self::Evidence(_) => "add `evidence:`, a list of figures that support the text; where \
                                  there is none, leave the explanation out: the verdict is then \
                                  reported as unexplained"
                .into(),
            Self::Superfluous { .. } => {
                "leave the field out; `of` is for consequences alone".into()
            }
            Self::Lacking {
                kind: ClaimKind::Consequence,
                ..
            } => "a consequence names its publication in `source` and the claim that it follows \
                 from in `of`"
                .into(),
            Self::Lacking { .. } => {
                "a published claim names its `source`, and a value its `published` figure and \
                 `cell`"
                    .into()
            }
            Self::Expect { kind, .. } => {
                let kinds = VerdictKind::ALL.into_iter();
                let known = kinds.filter(|verdict| verdict.can_be_of(*kind));
                let known: Vec<String> = known.map(VerdictKind::key).collect();
                format!("give one of {}", known.join(", "))
            }
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
        self.validate_kind()?;
        let name = || self.claim.clone();
        if self.metric.is_none() && self.not_run.is_none() {
            return Err(ClaimError::Metric(name()));
        }
        if self.target.is_some() != (self.metric == Some(Metric::TimeToAccuracy)) {
            return Err(ClaimError::Target(name()));
        }
        if let (Some(over), Some(metric)) = (self.over_metric, self.metric) {
            let is_learned = over.is_learned() || metric.is_learned();
            if self.over.is_none() || over.unit() != metric.unit() || is_learned {
                return Err(ClaimError::OverMetric(name()));
            }
        }
        if self.cell.is_some() && self.published.is_none() {
            return Err(ClaimError::Cell(name()));
        }
        let expects_less = self
            .expect
            .is_some_and(|kind| kind != VerdictKind::Reproduced);
        match &self.explanation {
            Some(_) if !expects_less => return Err(ClaimError::Explanation(name())),
            Some(explanation) if explanation.evidence.is_empty() => {
                return Err(ClaimError::Evidence(name()));
            }
            _ => {}
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

    /// Checks that its fields are those of its kind, and that its expected
    /// verdict is one that its kind can have.
    fn validate_kind(&self) -> Result<(), ClaimError> {
        let (claim, kind) = (self.claim.clone(), self.kind);
        let is_value = !self.is_ranking() || self.published.is_some();
        let is_published = kind == ClaimKind::Published;
        // Each field that depends on it: whether it is given, and whether it must be.
        let fields = [
            ("source", self.source.is_some(), true),
            ("published", self.published.is_some(), is_value),
            ("cell", self.cell.is_some(), is_value && is_published),
            ("of", !self.of.is_empty(), !is_published),
        ];
        for (field, is_given, is_needed) in fields {
            if is_needed && !is_given {
                return Err(ClaimError::Lacking { claim, kind, field });
            }
        }
        if is_published && !self.of.is_empty() {
            let field = "of";
            return Err(ClaimError::Superfluous { claim, kind, field });
        }
        match self.expect.filter(|expect| !expect.can_be_of(kind)) {
            Some(expect) => Err(ClaimError::Expect {
                claim,
                kind,
                expect,
            }),
            None => Ok(()),
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
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn claim(json: &str) -> Claim {
        serde_json::from_str(json).unwrap()
    }

    const PUBLISHED: &str = r#""claim":"c","kind":"published","source":"A, Table 1",
        "cell":"a.csv:2:x","select":{"system":"spirt"},"metric":"accuracy""#;

    fn checked(base: &str, rest: &str) -> Result<(), ClaimError> {
        claim(&format!("{{{base}{rest}}}")).validate()
    }

    #[test]
    fn a_ratio_of_two_metrics_has_two_rows_and_one_unit() {
        let stages = r#""claim":"c","kind":"published","source":"A, Table 1","cell":"a.csv:2:x",
            "published":1,"select":{},"metric":"compute_gradients","at_least":1"#;
        let with = |rest: &str| checked(stages, rest);
        assert_eq!(with(r#","over":{},"over_metric":"put""#), Ok(()));
        let refused = Err(ClaimError::OverMetric("c".into()));
        assert_eq!(with(r#","over_metric":"put""#), refused);
        assert_eq!(with(r#","over":{},"over_metric":"put_memory_mb""#), refused);
        let learned = r#","at_least":1,"over":{},"over_metric":"validation_accuracy""#;
        assert_eq!(checked(PUBLISHED, learned), refused);
    }

    #[test]
    fn a_claim_needs_an_expected_value() {
        let with = |rest: &str| checked(PUBLISHED, rest);
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

    /// The field that is missing or is too many, by the rest of the claim.
    #[test]
    fn every_kind_has_fields_of_its_own() {
        let field = |base: &str, rest: &str| match checked(base, rest) {
            Err(ClaimError::Superfluous { field, .. } | ClaimError::Lacking { field, .. }) => field,
            Ok(()) => "",
            Err(other) => panic!("{other}"),
        };
        // A published value names its cell, a ranking its source alone.
        let ranking = r#""claim":"c","kind":"published","select":{},"metric":"accuracy""#;
        assert_eq!(field(ranking, r#","over":{},"at_most":1"#), "source");
        let sourced = format!(r#"{ranking},"source":"A, Table 1""#);
        assert_eq!(field(&sourced, r#","over":{},"at_most":1"#), "");
        assert_eq!(field(&sourced, r#","at_most":1"#), "published");
        assert_eq!(field(&sourced, r#","published":1,"tolerance":0.1"#), "cell");
        assert_eq!(field(&sourced, r#","over":{},"at_most":1,"of":"d""#), "of");
        // A consequence names what it follows from.
        let consequence = sourced.replace("published", "consequence");
        let value = r#","published":1,"tolerance":0.1"#;
        assert_eq!(field(&consequence, value), "of");
        assert_eq!(
            field(&consequence, &format!(r#"{value},"of":["d","e"]"#)),
            ""
        );
    }

    #[test]
    fn what_a_paper_prints_neither_holds_nor_fails() {
        let expects = |kind: &str| {
            let rest = r#","published":1,"tolerance":0"#;
            checked(PUBLISHED, &format!(r#"{rest},"expect":"{kind}""#))
        };
        for kind in ["not_reproduced", "undecided"] {
            assert_eq!(expects(kind), Ok(()));
        }
        for kind in ["holds", "fails"] {
            let error = expects(kind).unwrap_err();
            assert!(matches!(error, ClaimError::Expect { .. }), "{error}");
        }
    }

    #[test]
    fn an_explanation_has_evidence() {
        let with = |evidence: &str| {
            let rest = r#","published":1,"tolerance":0,"expect":"not_reproduced""#;
            let explanation = format!(r#"{{"text":"t"{evidence}}}"#);
            checked(PUBLISHED, &format!(r#"{rest},"explanation":{explanation}"#))
        };
        assert_eq!(with(""), Err(ClaimError::Evidence("c".into())));
        let found = r#","evidence":[{"observed":{"item":"a/b","claim":"d","figure":2}}]"#;
        assert_eq!(with(found), Ok(()));
    }
}
