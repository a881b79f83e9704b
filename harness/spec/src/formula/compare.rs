//! How two numbers are compared.

use serde::Serialize;

use super::error::{FormulaError, Span};
use super::quantity::Value;
use super::tree::Op;
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

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// The number, in its own unit.
    pub value: f64,
    /// Unit; empty for numbers without one, for counts and for products.
    pub unit: String,
    /// The row that `argmax`, `argmin`, `rising` or `falling` chose.
    pub row: Option<String>,
    /// Numbers that were read for it; none of a number that the formula itself states.
    #[serde(skip)]
    pub reads: usize,
    /// How far rounding of printed digits may have moved it; of a number that the formula states,
    /// half a unit of its last digit.
    #[serde(skip)]
    pub reach: f64,
}

/// Two numbers, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The first.
    pub left: Side,
    /// How the two compare, as the formula says.
    pub op: Op,
    /// The second.
    pub right: Side,
    /// The left one over the right one in one unit, if that is a number.
    pub ratio: Option<f64>,
    /// Whether it is true; `None` where one side is wall time and the other a sum of times: it
    /// is judged in neither reading.
    pub holds: Option<bool>,
    /// Of `=`: whether rounding of the printed digits explains the whole difference.
    pub within_rounding: Option<bool>,
}

impl Side {
    fn of(value: &Value, row: Option<String>) -> Self {
        let unit = value.unit().filter(|unit| !unit.is_count());
        Self {
            value: value.number,
            unit: unit.map_or(String::new(), |unit| unit.name().to_owned()),
            row,
            reads: value.inputs.len(),
            reach: value.own_digit.unwrap_or(value.reach),
        }
    }
}

/// A value with the row that it is of, if a function chose one.
pub(super) type Chosen = (Value, Option<String>);

impl Evaluator<'_> {
    /// Compares two values.
    ///
    /// # Errors
    /// When their units are unlike.
    pub(super) fn compared(
        &self,
        (left, left_row): Chosen,
        op: Op,
        (right, right_row): Chosen,
        span: Span,
    ) -> Result<Compared, FormulaError> {
        let mut compared = Compared {
            left: Side::of(&left, left_row),
            op,
            right: Side::of(&right, right_row),
            ratio: None,
            holds: None,
            within_rounding: None,
        };
        let factor = match left.factor_from(&right) {
            Ok(factor) => factor,
            Err((own, theirs)) if own.is_other_reading(theirs) => return Ok(compared),
            Err((own, theirs)) => {
                let problem = format!("{} and {} are unlike units", own.name(), theirs.name());
                return Err(self.error(span, problem, "compare quantities of one kind"));
            }
        };
        let ratio = left.number / (right.number * factor);
        compared.ratio = Some(ratio).filter(|ratio| ratio.is_finite());
        let (holds, is_rounding) = holds(op, &left, &right, factor);
        compared.holds = Some(holds);
        compared.within_rounding = (op == Op::Equal).then_some(is_rounding);
        Ok(compared)
    }
}

/// Returns whether a comparison is true, and whether rounding explains the whole difference.
fn holds(op: Op, left: &Value, right: &Value, factor: f64) -> (bool, bool) {
    let (a, b) = (left.number, right.number * factor);
    let (difference, size) = ((a - b).abs(), a.abs().max(b.abs()));
    let is_equal = difference <= size * BINARY * 1e-3;
    // A literal alone has the digits it is written in.
    let reach = |side: &Value| side.reach.max(side.own_digit.unwrap_or(0.0));
    // A last digit may be rounded or cut at exactly half a unit.
    let is_rounding =
        difference <= (reach(left) + reach(right) * factor) * (1.0 + BINARY) || is_equal;
    let both = |is_so: fn(&Value) -> bool| is_so(left) && is_so(right);
    let percent = both(|side| side.unit().is_some_and(Unit::is_percent));
    let share = |most: f64| difference <= b.abs() * most;
    let holds = match op {
        Op::Less => a < b && !is_equal,
        Op::AtMost => a < b || is_equal,
        Op::More => a > b && !is_equal,
        Op::AtLeast => a > b || is_equal,
        Op::About if percent => is_rounding || difference <= ABOUT_POINTS,
        Op::About => is_rounding || share(ABOUT),
        Op::Equal => {
            let is_lone = left.own_digit.is_some() || right.own_digit.is_some();
            let to_the_digits = is_lone || percent || both(|side| side.is_exact);
            is_rounding || !to_the_digits && share(NEARLY)
        }
    };
    (holds, is_rounding)
}
