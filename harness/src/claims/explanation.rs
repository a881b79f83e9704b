//! Why a verdict is not `reproduced`, with the figures that show it.

use serde::{Deserialize, Serialize};

use super::cell::Cell;

/// The reason for an expected verdict, with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explanation {
    /// The reason, in a few sentences.
    pub text: String,
    /// Figures that support it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
}

/// One figure that supports an explanation, and where it is found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Evidence {
    /// A figure that a claim of an experiment observes.
    Observed(Observed),
    /// A figure that the audit computes.
    Audited(Audited),
    /// A figure that follows from published cells.
    Computed(Computed),
}

/// A figure that a claim observes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// The experiment, `paper/item`.
    pub item: String,
    /// The claim's text in that experiment.
    pub claim: String,
    /// What it observes, in `unit`, to the digits given.
    pub figure: f64,
    /// The claim's unit.
    #[serde(default)]
    pub unit: String,
    /// The cause of that claim whose row observes the figure; the claim's own
    /// row if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// A figure that `epochcost audit` computes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audited {
    /// The paper's directory.
    pub paper: String,
    /// What is recomputed.
    pub check: String,
    /// The finding's row.
    pub row: String,
    /// What the audit computes, to the digits given.
    pub figure: f64,
}

/// A figure that follows from published cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Computed {
    /// The cells, named `a`, `b`, `c`, ... in their order.
    pub cells: Vec<Cell>,
    /// Arithmetic on them: numbers, names of cells, `+ - * /` and parentheses.
    pub formula: String,
    /// What it gives, to the digits stated.
    pub figure: f64,
}
