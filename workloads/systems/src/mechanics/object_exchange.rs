//! What the exchanges through an object store have in common: over what, how
//! objects are found, how often.

use serde::{Deserialize, Serialize};

/// Pause between two polls under `tuned`, ms: about the duration of a poll.
pub(crate) const TUNED_POLL_MS: u64 = 20;

/// What gradients travel over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Over {
    /// The object store: a worker that needs an object polls until it is there.
    Objects,
    /// Tensor stores, which reduce; messages tell when to go on.
    Tensors,
}

/// How a worker finds objects that others put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FindsBy {
    /// It lists the bucket.
    Listing,
    /// It gets them by the names that they will have.
    Name,
}
