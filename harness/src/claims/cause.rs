//! What may account for the distance between a published figure and the observed
//! one: rows that differ from the claim's in one switch.

use serde::{Deserialize, Serialize};

use super::selector::Selector;

/// One thing that may be behind a published figure, and the row that has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// What that row does otherwise, in a few words.
    pub cause: String,
    /// The row: the claim's own but for this one thing. Fields left out are
    /// those of the claim's row, unless the row's id is given.
    pub select: Selector,
}
