//! What may account for the distance between a published figure and the observed
//! one: rows that differ from the claim's in one switch.

use serde::{Deserialize, Serialize};

/// One thing that may be behind a published figure, and the row that has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// What that row does otherwise, in a few words.
    pub cause: String,
    /// The row's id.
    pub row: String,
}
