//! What the exchanges through an object store have in common: over what, how
//! objects are found, how often.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pause between two polls under `tuned`, ms: about the duration of a poll.
pub(crate) const TUNED_POLL_MS: u64 = 20;

/// Channels that gradients travel over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Over {
    /// The object store: a worker that needs an object polls until it is there.
    Objects,
    /// Tensor stores, which reduce; messages announce when to continue.
    Tensors,
}

/// Way in which a worker finds objects that others put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FindsBy {
    /// Listing of the bucket.
    Listing,
    /// Gets of the names that the objects will have.
    Name,
}
