//! One recomputed figure.

use serde::Serialize;

use super::Paper;
use crate::published::Quantity;

/// Up to this share, a recomputed figure agrees with the printed one even where
/// rounding does not explain the difference: no conclusion of the papers hangs
/// on so little.
pub const TOLERANCE: f64 = 0.01;

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The two agree within the rounding of the printed digits, or within [`TOLERANCE`].
    Agrees,
    /// The printed figure does not follow from its inputs.
    Differs,
    /// The paper does not give what it would be recomputed from.
    CannotBeChecked,
}

/// What a figure is recomputed from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Input {
    /// Description.
    pub name: &'static str,
    /// Value.
    pub value: f64,
    /// `file:line:column` of a published figure, the column by its name, or where
    /// else it comes from.
    pub place: String,
    /// Share by which rounding may have moved it.
    #[serde(skip)]
    pub(super) rounding: f64,
}

/// A figure as the paper prints it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Printed {
    /// Value.
    pub value: f64,
    /// `file:line:column`, the column by its name.
    pub place: String,
    /// Half a unit of its last digit.
    #[serde(skip)]
    pub(super) half_digit: f64,
}

/// A sentence of a paper, in our words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statement {
    /// What it says.
    pub text: String,
    /// `file:line:column`, the column by its name.
    pub place: String,
}

/// One figure of a paper, recomputed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The paper.
    pub paper: Paper,
    /// Table, figure or section.
    pub item: &'static str,
    /// What is recomputed.
    pub check: &'static str,
    /// Row or setting that it is about.
    pub row: String,
    /// How.
    pub formula: &'static str,
    /// Sentences of the paper that the figures are compared with.
    pub statements: Vec<Statement>,
    /// Inputs of the formula.
    pub inputs: Vec<Input>,
    /// Unit of both figures; empty for ratios and counts.
    pub unit: &'static str,
    /// What the formula gives.
    pub computed: Option<f64>,
    /// What the paper prints.
    pub printed: Option<Printed>,
    /// Printed over computed.
    pub ratio: Option<f64>,
    /// Whether the two agree.
    pub outcome: Outcome,
    /// Whether rounding of the printed digits explains the whole difference.
    pub within_rounding: Option<bool>,
    /// What else is known about the difference.
    pub explanation: Option<String>,
    /// What it means for the paper's conclusion.
    pub consequence: Option<String>,
}

/// What the findings of one check have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    pub(super) paper: Paper,
    pub(super) item: &'static str,
    pub(super) what: &'static str,
    pub(super) formula: &'static str,
    pub(super) unit: &'static str,
}

impl Input {
    /// Returns a published figure whose digits are rounded.
    pub(super) fn of(name: &'static str, quantity: &Quantity) -> Self {
        Self {
            name,
            value: quantity.value,
            place: quantity.place.clone(),
            rounding: quantity.half_digit / quantity.value.abs(),
        }
    }

    /// Returns a published figure that is exact: a count, a setting or a price.
    pub(super) fn exact(name: &'static str, quantity: &Quantity) -> Self {
        Self {
            rounding: 0.0,
            ..Self::of(name, quantity)
        }
    }

    /// Returns an exact figure from elsewhere.
    pub(super) fn from(name: &'static str, value: f64, place: impl Into<String>) -> Self {
        Self {
            name,
            value,
            place: place.into(),
            rounding: 0.0,
        }
    }
}

impl From<&Quantity> for Printed {
    fn from(quantity: &Quantity) -> Self {
        Self {
            value: quantity.value,
            place: quantity.place.clone(),
            half_digit: quantity.half_digit,
        }
    }
}

impl Check {
    /// Creates the finding on a figure that is compared with the printed one.
    pub(super) fn finding(
        self,
        row: impl Into<String>,
        inputs: Vec<Input>,
        computed: f64,
        printed: &Quantity,
    ) -> Finding {
        let printed = Printed::from(printed);
        let spread: f64 = inputs.iter().map(|input| input.rounding).sum();
        let reach = printed.half_digit + computed.abs() * spread;
        // A last digit may be rounded or cut at exactly half a unit.
        let is_rounding = (printed.value - computed).abs() <= reach * (1.0 + 1e-9);
        let ratio = printed.value / computed;
        let agrees = is_rounding || (ratio - 1.0).abs() <= TOLERANCE;
        Finding {
            computed: Some(computed),
            ratio: ratio.is_finite().then_some(ratio),
            printed: Some(printed),
            outcome: if agrees {
                Outcome::Agrees
            } else {
                Outcome::Differs
            },
            within_rounding: Some(is_rounding),
            ..self.unchecked(row, inputs)
        }
    }

    /// Creates the finding on a figure with nothing to compare it with.
    pub(super) fn unchecked(self, row: impl Into<String>, inputs: Vec<Input>) -> Finding {
        Finding {
            paper: self.paper,
            item: self.item,
            check: self.what,
            row: row.into(),
            formula: self.formula,
            statements: Vec::new(),
            inputs,
            unit: self.unit,
            computed: None,
            printed: None,
            ratio: None,
            outcome: Outcome::CannotBeChecked,
            within_rounding: None,
            explanation: None,
            consequence: None,
        }
    }
}

impl Finding {
    /// Returns it with an outcome that no comparison of two figures gives.
    pub(super) fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = outcome;
        self
    }

    /// Returns it with the sentences that it is about.
    pub(super) fn stating(mut self, statements: impl IntoIterator<Item = Statement>) -> Self {
        self.statements.extend(statements);
        self
    }

    /// Returns it as agreeing with its sentences or not.
    pub(super) fn judged(self, is_so: bool) -> Self {
        self.with_outcome(if is_so {
            Outcome::Agrees
        } else {
            Outcome::Differs
        })
    }

    /// Returns it with what the formula gives.
    pub(super) fn with_computed(mut self, computed: f64) -> Self {
        self.computed = Some(computed);
        self
    }

    /// Returns it with what the paper prints; nothing is concluded from it.
    pub(super) fn with_printed(mut self, printed: &Quantity) -> Self {
        self.printed = Some(Printed::from(printed));
        self.ratio = self.computed.map(|computed| printed.value / computed);
        self.ratio = self.ratio.filter(|ratio| ratio.is_finite());
        self
    }

    /// Returns it with an explanation.
    pub(super) fn explained(mut self, explanation: impl Into<String>) -> Self {
        self.explanation = Some(explanation.into());
        self
    }

    /// Returns it with a consequence.
    pub(super) fn concluding(mut self, consequence: impl Into<String>) -> Self {
        self.consequence = Some(consequence.into());
        self
    }

    /// Returns whether it does not add up.
    pub fn differs(&self) -> bool {
        self.outcome == Outcome::Differs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECK: Check = Check {
        paper: Paper::CostPerformance,
        item: "Table 2",
        what: "a product",
        formula: "a × b",
        unit: "USD",
    };

    fn quantity(value: f64, half_digit: f64) -> Quantity {
        Quantity {
            value,
            half_digit,
            place: "t.csv:2:1".into(),
        }
    }

    #[test]
    fn rounding_of_inputs_and_result_is_no_difference() {
        let input = Input::of("a", &quantity(0.10, 0.005));
        let inputs = || vec![input.clone()];
        let near = CHECK.finding("r", inputs(), 1.0, &quantity(1.05, 0.005));
        assert_eq!(near.outcome, Outcome::Agrees);
        assert_eq!(near.within_rounding, Some(true));
        let far = CHECK.finding("r", inputs(), 1.0, &quantity(1.06, 0.005));
        assert_eq!(far.outcome, Outcome::Differs);
        assert_eq!(far.ratio, Some(1.06));
    }

    #[test]
    fn a_small_difference_agrees_and_says_that_rounding_does_not_explain_it() {
        let inputs = vec![Input::exact("a", &quantity(24.0, 0.5))];
        let finding = CHECK.finding("r", inputs, 1.0, &quantity(1.004, 0.0005));
        assert_eq!(finding.outcome, Outcome::Agrees);
        assert_eq!(finding.within_rounding, Some(false));
    }
}
