//! The language of statements: formulas over numbers under keys and columns.
//!
//! ```text
//! formula   = clause { "and" clause } | clause { "or" clause }
//! clause    = sum cmp sum { cmp sum }      cmp = "<" | "<=" | ">" | ">=" | "=" | "~"
//!           | ("rising" | "falling") "(" key "," sum ")"
//!           | ("argmax" | "argmin") "(" key "," sum ")" "=" set
//! sum       = product { ("+" | "-") product }        product = atom { ("*" | "/") atom }
//! atom      = number | "-" atom | "(" sum ")" | ("ceil" | "floor") "(" sum ")"
//!           | ("max" | "min" | "sum") "(" key "," sum ")" | "share" "(" clause ")" | reference
//! reference = [table "."] name ["(" number ")"] ["[" set { "," set } "]"]
//! set       = [variable ":"] ["not"] value { "|" value }
//! ```
//!
//! A key that a reference leaves out, and a set of several values, stand for all of these
//! values: the clause must hold for each. Keys of one name, equal sets and sets of one name
//! have one value in all references of a formula. Each assignment of values is an *instance*,
//! and a comparison of two numbers; one with an empty cell does not exist.

mod compare;
mod error;
mod grid;
mod instances;
mod parse;
mod quantity;
mod resolve;
mod translate;
mod tree;
mod unit;
mod value;

pub use self::compare::{Compared, Side};
pub use self::error::{FormulaError, Span};
pub use self::grid::{Cell, Column, Grid, KNOWN, Number};
pub use self::instances::{Instance, ResolvedFormula, value_at};
pub use self::quantity::Input;
pub use self::translate::Beside;
pub use self::tree::{Formula, Op};
pub use self::unit::Unit;

/// Returns half a unit of the last digit of a decimal number.
pub fn half_digit(text: &str) -> f64 {
    let (digits, exponent) = match text.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse().unwrap_or(0)),
        None => (text, 0),
    };
    let decimals = digits
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len());
    let decimals = i32::try_from(decimals).unwrap_or(i32::MAX);
    0.5 * 10f64.powi(i32::saturating_sub(exponent, decimals))
}

#[cfg(test)]
mod tests;
