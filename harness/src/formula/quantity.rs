//! A number with its unit and printed digits.

use super::grid::{Cell, Number};
use super::unit::Unit;

/// What is known of a number's unit.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Measure {
    /// A number without a unit, which scales one that has a unit.
    Pure,
    /// A quantity, or a sum of quantities.
    Of(Unit),
    /// A product of quantities, whose unit is not checked.
    Product,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Value {
    pub number: f64,
    /// How far rounding of printed digits may have moved it.
    pub reach: f64,
    pub measure: Measure,
    /// Whether all that it is made of is counted or set.
    pub is_exact: bool,
    /// Whether it is a literal or a quoted number alone, with its own digits.
    pub is_lone: bool,
    /// Name and place of a number that stands alone.
    pub source: Option<(String, String)>,
    /// Half of the last digit of a literal, which is exact within a sum.
    pub literal: f64,
}

impl Value {
    pub fn literal(number: f64, half_digit: f64) -> Self {
        Self {
            number,
            reach: 0.0,
            measure: Measure::Pure,
            is_exact: true,
            is_lone: true,
            source: None,
            literal: half_digit,
        }
    }

    pub fn of_number(name: &str, number: &Number) -> Self {
        Self {
            is_exact: number.is_setup,
            is_lone: !number.is_setup,
            reach: if number.is_setup {
                0.0
            } else {
                number.cell.half_digit
            },
            source: Some((name.to_owned(), number.cell.place.clone())),
            ..Self::of_cell(&number.cell)
        }
    }

    pub fn of_cell(cell: &Cell) -> Self {
        Self {
            number: cell.value,
            reach: cell.half_digit,
            measure: cell.unit.clone().map_or(Measure::Pure, Measure::Of),
            is_exact: false,
            is_lone: false,
            source: None,
            literal: 0.0,
        }
    }

    /// Returns it as one side of a comparison: a literal alone has the digits it is written in.
    pub fn into_side(self) -> Self {
        Self {
            reach: self
                .reach
                .max(if self.is_lone { self.literal } else { 0.0 }),
            ..self
        }
    }

    /// Returns its unit, if it is a quantity.
    pub fn named_unit(&self) -> Option<Unit> {
        self.unit().cloned()
    }

    fn unit(&self) -> Option<&Unit> {
        match &self.measure {
            Measure::Of(unit) => Some(unit),
            _ => None,
        }
    }

    /// Returns what a number like `other` is multiplied by to be in this one's unit.
    ///
    /// # Errors
    /// When their units are unlike: both.
    pub fn factor_from<'a>(&'a self, other: &'a Self) -> Result<f64, (&'a Unit, &'a Unit)> {
        match (self.unit(), other.unit()) {
            (Some(own), Some(theirs)) => own.factor_from(theirs).ok_or((own, theirs)),
            _ => Ok(1.0),
        }
    }
}

/// Returns what is known of the unit of a product.
pub(super) fn product(left: Measure, right: Measure) -> Measure {
    match (left, right) {
        (Measure::Pure, other) | (other, Measure::Pure) => other,
        _ => Measure::Product,
    }
}
