//! What sums make of numbers.

use std::cmp::Ordering;

use super::error::{FormulaError, Span};
use super::grid::Grid;
use super::instances::Scope;
use super::quantity::{Measure, Value, product, read};
use super::resolve::{Axis, Node, Over};
use super::tree::{Fold, Sign};

/// Evaluates nodes over a grid.
pub(super) struct Evaluator<'a> {
    pub grid: &'a Grid,
    pub text: &'a str,
}

type Evaluated = Result<Option<Value>, FormulaError>;

impl Evaluator<'_> {
    pub fn error(
        &self,
        span: Span,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> FormulaError {
        FormulaError::new(self.text, span, problem, remedy)
    }

    /// Returns a node's value; `None` where a cell is empty.
    pub fn value(&self, node: &Node, scope: &mut Scope<'_>) -> Evaluated {
        match node {
            Node::Number(value) => Ok(Some(value.clone())),
            Node::Cell { column, axes } => Ok(self.cell(*column, axes, scope)),
            Node::KeyNumber(variable, span) => {
                let Some(value) = scope.value(*variable) else {
                    return Ok(None);
                };
                let number = value.parse::<f64>().map_err(|_| {
                    let problem = format!("`{value}` is no number");
                    self.error(*span, problem, "use a key whose values are numbers")
                })?;
                Ok(Some(Value::computed(number)))
            }
            Node::Negative(of) => Ok(self.value(of, scope)?.map(|value| Value {
                number: -value.number,
                ..value
            })),
            Node::Rounded { is_up, of } => Ok(self.value(of, scope)?.map(|value| {
                // Binary fractions may lie just beside the whole number that they mean.
                let near = value.number.round();
                let is_whole = (value.number - near).abs() <= 1e-9 * near.abs().max(1.0);
                Value {
                    number: match (is_whole, is_up) {
                        (true, _) => near,
                        (false, true) => value.number.ceil(),
                        (false, false) => value.number.floor(),
                    },
                    reach: 0.0,
                    own_digit: None,
                    ..value
                }
            })),
            Node::Binary(sign, left, right, span) => {
                match (self.value(left, scope)?, self.value(right, scope)?) {
                    (Some(left), Some(right)) => self.binary(*sign, left, right, *span).map(Some),
                    _ => Ok(None),
                }
            }
            Node::Fold(fold, over) => self.fold(*fold, over, scope),
            Node::Share(comparison) => {
                let all = self.instances(std::slice::from_ref(&**comparison), scope)?;
                let held = all.iter().filter(|instance| instance.holds()).count();
                let mut share = Value::computed(held as f64 / all.len() as f64);
                for instance in &all {
                    read(&mut share.inputs, &instance.inputs);
                    read(&mut share.beside, &instance.beside);
                }
                Ok((!all.is_empty()).then_some(share))
            }
        }
    }

    fn cell(&self, column: usize, axes: &[Axis], scope: &Scope<'_>) -> Option<Value> {
        let column = &self.grid.columns()[column];
        let at = scope.at(axes)?;
        let cell = column.cell(&at)?;
        let name = match at.join(", ") {
            at if at.is_empty() => column.name.clone(),
            at => format!("{}[{at}]", column.name),
        };
        Some(Value {
            is_exact: column.is_exact,
            ..Value::of_cell(name, cell, column.authors_data)
        })
    }

    fn binary(
        &self,
        sign: Sign,
        left: Value,
        right: Value,
        span: Span,
    ) -> Result<Value, FormulaError> {
        let (a, b) = (left.number, right.number);
        let (number, reach, measure) = match sign {
            Sign::Plus | Sign::Minus => {
                let factor = left.factor_from(&right).map_err(|(own, theirs)| {
                    let problem = format!("{} and {} are unlike units", own.name(), theirs.name());
                    self.error(span, problem, "add quantities of one kind")
                })?;
                let signed = if sign == Sign::Plus { factor } else { -factor };
                let measure = match (left.measure, right.measure) {
                    (Measure::Product, _) | (_, Measure::Product) => Measure::Product,
                    (Measure::Pure, other) | (other, _) => other,
                };
                (a + b * signed, left.reach + right.reach * factor, measure)
            }
            Sign::Times => {
                let reach = a.abs() * right.reach + b.abs() * left.reach;
                (a * b, reach, product(left.measure, right.measure))
            }
            Sign::Over if b == 0.0 => {
                let remedy = "leave out the row that is 0";
                return Err(self.error(span, "a division by 0", remedy));
            }
            Sign::Over => {
                let measure = match right.measure {
                    Measure::Pure => left.measure,
                    _ => Measure::Product,
                };
                let quotient = a / b;
                let reach = (left.reach + quotient.abs() * right.reach) / b.abs();
                (quotient, reach, measure)
            }
        };
        if !number.is_finite() {
            return Err(self.error(span, "the result is too large", "use smaller numbers"));
        }
        let (mut inputs, mut beside) = (left.inputs, left.beside);
        read(&mut inputs, &right.inputs);
        read(&mut beside, &right.beside);
        Ok(Value {
            number,
            reach,
            measure,
            is_exact: left.is_exact && right.is_exact,
            own_digit: None,
            inputs,
            beside,
        })
    }

    /// Returns the largest, the smallest or the sum; of the first two with what it alone read.
    fn fold(&self, fold: Fold, over: &Over, scope: &mut Scope<'_>) -> Evaluated {
        let mut found: Option<Value> = None;
        for (_, next) in self.steps(over, scope)? {
            found = Some(match (found, fold) {
                (None, _) => next,
                (Some(sum), Fold::Sum) => self.binary(Sign::Plus, sum, next, Span::default())?,
                (Some(best), _) => match (next.number.total_cmp(&best.number), fold) {
                    (Ordering::Greater, Fold::Max) | (Ordering::Less, Fold::Min) => {
                        next.chosen_before(&best)
                    }
                    _ => best.chosen_before(&next),
                },
            });
        }
        Ok(found.map(|value| Value {
            own_digit: None,
            ..value
        }))
    }

    /// Returns the value for each value of a key, where it has one.
    pub fn steps(
        &self,
        over: &Over,
        scope: &mut Scope<'_>,
    ) -> Result<Vec<(String, Value)>, FormulaError> {
        let mut steps = Vec::new();
        for at in scope.domain(over.variable) {
            scope.set(over.variable, Some(at.clone()));
            if let Some(value) = self.value(&over.of, scope)? {
                steps.push((at, value));
            }
        }
        scope.set(over.variable, None);
        Ok(steps)
    }
}
