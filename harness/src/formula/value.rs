//! What sums make of numbers.

use std::cmp::Ordering;

use super::error::{FormulaError, Span};
use super::grid::Grid;
use super::instances::Scope;
use super::parse::{Fold, Sign};
use super::quantity::{Measure, Value, product};
use super::resolve::{Axis, Node};

/// A number that a formula reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// What it is called.
    pub name: String,
    /// The number.
    pub value: f64,
    /// Where it stands.
    pub place: String,
}

/// Evaluates nodes over a grid.
pub(super) struct Evaluator<'a> {
    pub grid: &'a Grid,
    pub text: &'a str,
    /// What was read, each place once.
    pub inputs: Vec<Input>,
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

    fn read(&mut self, name: &str, value: f64, place: &str) {
        let is_known = |input: &Input| input.place == place && input.name == name;
        if !self.inputs.iter().any(is_known) {
            self.inputs.push(Input {
                name: name.to_owned(),
                value,
                place: place.to_owned(),
            });
        }
    }

    /// Returns a node's value; `None` where a cell is empty.
    pub fn value(&mut self, node: &Node, scope: &mut Scope<'_>) -> Evaluated {
        match node {
            Node::Number(value) => {
                if let Some((name, place)) = &value.source {
                    self.read(name, value.number, place);
                }
                Ok(Some(value.clone()))
            }
            Node::Cell { column, axes } => Ok(self.cell(*column, axes, scope)),
            Node::KeyNumber(variable, span) => {
                let value = scope.value(*variable);
                let number = value.and_then(|value| value.parse::<f64>().ok());
                match (number, value) {
                    (_, None) => Ok(None),
                    (Some(number), _) => Ok(Some(Value {
                        is_lone: false,
                        ..Value::literal(number, 0.0)
                    })),
                    (None, Some(value)) => {
                        let problem = format!("`{value}` is no number");
                        Err(self.error(*span, problem, "use a key whose values are numbers"))
                    }
                }
            }
            Node::Negative(of) => Ok(self.value(of, scope)?.map(|value| Value {
                number: -value.number,
                ..value
            })),
            Node::Rounded { is_up, of } => Ok(self.value(of, scope)?.map(|value| {
                // Binary fractions may lie just beside the whole number that they mean.
                let near = value.number.round();
                let is_whole = (value.number - near).abs() <= 1e-9 * near.abs().max(1.0);
                let number = match (is_whole, is_up) {
                    (true, _) => near,
                    (false, true) => value.number.ceil(),
                    (false, false) => value.number.floor(),
                };
                Value {
                    number,
                    reach: 0.0,
                    is_lone: false,
                    ..value
                }
            })),
            Node::Binary(sign, left, right, span) => {
                let (left, right) = (self.value(left, scope)?, self.value(right, scope)?);
                match (left, right) {
                    (Some(left), Some(right)) => self.binary(*sign, left, right, *span).map(Some),
                    _ => Ok(None),
                }
            }
            Node::Fold(fold, variable, of) => self.fold(*fold, *variable, of, scope),
            Node::Share(comparison) => {
                let (mut held, mut all) = (0.0, 0.0);
                for instance in self.instances(std::slice::from_ref(&**comparison), scope)? {
                    all += 1.0;
                    held += if instance.holds() { 1.0 } else { 0.0 };
                    for input in instance.inputs {
                        self.read(&input.name, input.value, &input.place);
                    }
                }
                let share = Value {
                    is_lone: false,
                    ..Value::literal(held / all, 0.0)
                };
                Ok((all > 0.0).then_some(share))
            }
        }
    }

    fn cell(&mut self, column: usize, axes: &[Axis], scope: &Scope<'_>) -> Option<Value> {
        let grid = self.grid;
        let column = &grid.columns()[column];
        let at: Option<Vec<String>> = axes
            .iter()
            .map(|axis| match axis {
                Axis::Fixed(value) => Some(value.clone()),
                Axis::Variable(index) => scope.value(*index).map(str::to_owned),
            })
            .collect();
        let at = at?;
        let cell = column.cell(&at)?;
        let name = match at.join(", ") {
            at if at.is_empty() => column.name.clone(),
            at => format!("{}[{at}]", column.name),
        };
        self.read(&name, cell.value, &cell.place);
        Some(Value {
            is_exact: column.is_exact,
            ..Value::of_cell(cell)
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
        let is_exact = left.is_exact && right.is_exact;
        let (number, reach, measure) = match sign {
            Sign::Plus | Sign::Minus => {
                let factor = left.factor_from(&right).map_err(|(own, theirs)| {
                    self.error(
                        span,
                        format!("{} and {} are unlike units", own.name(), theirs.name()),
                        "add quantities of one kind",
                    )
                })?;
                let number = if sign == Sign::Plus {
                    a + b * factor
                } else {
                    a - b * factor
                };
                let measure = match (left.measure, right.measure) {
                    (Measure::Product, _) | (_, Measure::Product) => Measure::Product,
                    (Measure::Pure, other) | (other, _) => other,
                };
                (number, left.reach + right.reach * factor, measure)
            }
            Sign::Times => (
                a * b,
                a.abs() * right.reach + b.abs() * left.reach,
                product(left.measure, right.measure),
            ),
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
                (
                    quotient,
                    (left.reach + quotient.abs() * right.reach) / b.abs(),
                    measure,
                )
            }
        };
        if !number.is_finite() {
            return Err(self.error(span, "the result is too large", "use smaller numbers"));
        }
        Ok(Value {
            number,
            reach,
            measure,
            is_exact,
            is_lone: false,
            source: None,
            literal: 0.0,
        })
    }

    /// Returns the largest, the smallest or the sum; of the first two with what it alone read.
    fn fold(&mut self, fold: Fold, variable: usize, of: &Node, scope: &mut Scope<'_>) -> Evaluated {
        let mut found: Option<Value> = None;
        let before = self.inputs.clone();
        let mut read = before.clone();
        for value in scope.domain(variable) {
            if fold != Fold::Sum {
                self.inputs.clone_from(&before);
            }
            scope.set(variable, Some(value));
            let next = self.value(of, scope)?;
            scope.set(variable, None);
            let Some(next) = next else { continue };
            found = Some(match (found, fold) {
                (None, _) => {
                    read.clone_from(&self.inputs);
                    next
                }
                (Some(sum), Fold::Sum) => {
                    read.clone_from(&self.inputs);
                    self.binary(Sign::Plus, sum, next, Span::default())?
                }
                (Some(best), _) => {
                    let order = next.number.total_cmp(&best.number);
                    let is_max = fold == Fold::Max;
                    if order
                        == if is_max {
                            Ordering::Greater
                        } else {
                            Ordering::Less
                        }
                    {
                        read.clone_from(&self.inputs);
                        next
                    } else {
                        best
                    }
                }
            });
        }
        self.inputs = read;
        Ok(found.map(|value| Value {
            is_lone: false,
            ..value
        }))
    }
}
