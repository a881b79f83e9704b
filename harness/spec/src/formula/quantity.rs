//! A number with its unit and printed digits.

use serde::Serialize;

use super::grid::{Cell, Number};
use super::unit::Unit;

/// A number that a formula reads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Input {
    /// Column with the values of its keys, or name.
    pub name: String,
    /// The number.
    pub value: f64,
    /// `file:line:column` of a published figure, the column by its name, or where else it comes
    /// from.
    pub place: String,
    /// Whether it is the authors' data, which the paper does not print.
    pub authors_data: bool,
}

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
    /// Of a literal or a quoted number alone, half of its last digit. Within a sum a literal is
    /// exact.
    pub own_digit: Option<f64>,
    /// What was read for it, each number once.
    pub inputs: Vec<Input>,
    /// What a largest or smallest of its numbers was compared with: other numbers might choose these.
    pub beside: Vec<Input>,
}

impl Value {
    pub fn literal(number: f64, half_digit: f64) -> Self {
        Self {
            own_digit: Some(half_digit),
            ..Self::computed(number)
        }
    }

    /// Creates an exact number without a unit.
    pub fn computed(number: f64) -> Self {
        Self {
            number,
            reach: 0.0,
            measure: Measure::Pure,
            is_exact: true,
            own_digit: None,
            inputs: Vec::new(),
            beside: Vec::new(),
        }
    }

    pub fn of_number(name: &str, number: &Number) -> Self {
        let own_digit = (!number.is_setup).then_some(number.cell.half_digit);
        Self {
            is_exact: number.is_setup,
            reach: own_digit.unwrap_or(0.0),
            own_digit,
            ..Self::of_cell(name.to_owned(), &number.cell, false)
        }
    }

    pub fn of_cell(name: String, cell: &Cell, authors_data: bool) -> Self {
        Self {
            reach: cell.half_digit,
            measure: cell.unit.clone().map_or(Measure::Pure, Measure::Of),
            is_exact: false,
            inputs: vec![Input {
                name,
                value: cell.value,
                place: cell.place.clone(),
                authors_data,
            }],
            ..Self::computed(cell.value)
        }
    }

    /// Returns it, chosen before `other`.
    pub fn chosen_before(mut self, other: &Self) -> Self {
        read(&mut self.beside, &other.inputs);
        read(&mut self.beside, &other.beside);
        self
    }

    /// Returns its unit, if it is a quantity.
    pub fn unit(&self) -> Option<&Unit> {
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

/// Adds numbers that were read, each once.
pub(super) fn read(inputs: &mut Vec<Input>, more: &[Input]) {
    for input in more {
        if !inputs.contains(input) {
            inputs.push(input.clone());
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
