//! How two numbers are compared.

use super::error::{FormulaError, Span};
use super::parse::Op;
use super::quantity::{Measure, Value};
use super::unit::Unit;
use super::value::Evaluator;

/// Up to this share, `=` holds nearly where rounding does not explain a difference.
pub const NEARLY: f64 = 0.01;

/// Up to this share, `~` holds.
const ABOUT: f64 = 0.1;

/// Up to this many points, `~` holds between percentages.
const ABOUT_POINTS: f64 = 1.0;

/// Share by which binary fractions may miss an equality.
const BINARY: f64 = 1e-9;

/// What came of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// It is true; of `=`, within the rounding of the printed digits.
    Yes,
    /// `=` is true within 1 %, and beyond rounding.
    Nearly,
    /// It is false.
    No,
    /// One side is wall time and the other a sum of times: it is judged in neither reading.
    Unlike,
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// The number, in its own unit.
    pub value: f64,
    /// How far rounding may have moved it.
    pub reach: f64,
    /// Its unit, if it has one that is known.
    pub unit: Option<Unit>,
    /// The row that a function chose, of `argmax`, `argmin`, `rising` and `falling`.
    pub row: Option<String>,
}

/// Two numbers, compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The first.
    pub left: Side,
    /// How the two compare, as the formula says.
    pub op: Op,
    /// The second.
    pub right: Side,
    /// The left one over the right one in one unit, if that is a number.
    pub ratio: Option<f64>,
    /// What came of it.
    pub holds: Holds,
}

impl Side {
    fn of(value: &Value, row: Option<String>) -> Self {
        Self {
            value: value.number,
            reach: value.reach,
            unit: match &value.measure {
                Measure::Of(unit) if !unit.is_count() => Some(unit.clone()),
                _ => None,
            },
            row,
        }
    }
}

impl Compared {
    /// Returns whether it is true.
    pub fn is_true(&self) -> bool {
        matches!(self.holds, Holds::Yes | Holds::Nearly)
    }
}

impl Evaluator<'_> {
    /// Compares two values, each with the row that it is of.
    ///
    /// # Errors
    /// When their units are unlike.
    pub(super) fn compared(
        &self,
        [left, right]: [(Value, Option<String>); 2],
        op: Op,
        span: Span,
    ) -> Result<Compared, FormulaError> {
        let ((left, left_row), (right, right_row)) = (left, right);
        let (left, right) = (left.into_side(), right.into_side());
        let sides = |holds, ratio| Compared {
            left: Side::of(&left, left_row.clone()),
            op,
            right: Side::of(&right, right_row.clone()),
            ratio,
            holds,
        };
        let factor = match left.factor_from(&right) {
            Ok(factor) => factor,
            Err((own, theirs)) if own.is_other_reading(theirs) => {
                return Ok(sides(Holds::Unlike, None));
            }
            Err((own, theirs)) => {
                let problem = format!("{} and {} are unlike units", own.name(), theirs.name());
                return Err(self.error(span, problem, "compare quantities of one kind"));
            }
        };
        let (a, b) = (left.number, right.number * factor);
        let ratio = Some(a / b).filter(|ratio| ratio.is_finite());
        Ok(sides(holds(op, (&left, a), (&right, b), factor), ratio))
    }
}

fn holds(op: Op, (left, a): (&Value, f64), (right, b): (&Value, f64), factor: f64) -> Holds {
    let (difference, size) = ((a - b).abs(), a.abs().max(b.abs()));
    let is_equal = difference <= size * BINARY * 1e-3;
    let reach = left.reach + right.reach * factor;
    // A last digit may be rounded or cut at exactly half a unit.
    let is_rounding = difference <= reach * (1.0 + BINARY) || is_equal;
    let is_percent =
        |value: &Value| matches!(&value.measure, Measure::Of(unit) if unit.is_percent());
    let percent = is_percent(left) && is_percent(right);
    let share = |most: f64| difference <= b.abs() * most;
    let either = |is_so: bool| if is_so { Holds::Yes } else { Holds::No };
    match op {
        Op::Less => either(a < b && !is_equal),
        Op::AtMost => either(a < b || is_equal),
        Op::More => either(a > b && !is_equal),
        Op::AtLeast => either(a > b || is_equal),
        Op::About if percent => either(is_rounding || difference <= ABOUT_POINTS),
        Op::About => either(is_rounding || share(ABOUT)),
        Op::Equal if is_rounding => Holds::Yes,
        Op::Equal => {
            let to_the_digits = left.is_lone || right.is_lone || percent;
            let is_exact = left.is_exact && right.is_exact;
            if !to_the_digits && !is_exact && share(NEARLY) {
                Holds::Nearly
            } else {
                Holds::No
            }
        }
    }
}
