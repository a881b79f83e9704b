//! A figure in a table.

use serde::Serialize;

use crate::format;

/// A figure as people read it, and exactly, so that tables can be sorted.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cell {
    /// As people read it.
    pub text: String,
    /// Every digit; empty where the figure is unknown.
    pub exact: String,
}

impl Cell {
    /// Returns a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            exact: String::new(),
        }
    }

    /// Returns a figure that may be unknown.
    pub fn of(value: Option<f64>, format: impl Fn(f64) -> String) -> Self {
        Self::with(value, format::or_unknown(value, format))
    }

    /// Returns a figure with a text of its own.
    pub fn with(value: Option<f64>, text: String) -> Self {
        Self {
            text,
            exact: value
                .filter(|value| value.is_finite())
                .map_or(String::new(), |value| value.to_string()),
        }
    }

    /// Returns a count.
    pub fn whole(value: usize) -> Self {
        Self {
            text: value.to_string(),
            exact: value.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_has_no_exact_figure() {
        let cell = Cell::of(Some(0.1 + 0.2), format::number);
        assert_eq!(
            (cell.text.as_str(), cell.exact.as_str()),
            ("0.300", "0.30000000000000004")
        );
        assert!(Cell::of(None, format::number).exact.is_empty());
        assert!(Cell::of(Some(f64::NAN), format::number).exact.is_empty());
    }
}
