//! What a [`Clock`](crate::Clock) is told about a pause between two looks, and
//! what it says of the looks that it left out.

use std::time::Duration;

/// What a look looks at. A look repeated while this stays as it is finds the
/// same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched<'a> {
    /// An object that is not there.
    Object {
        /// Its bucket.
        bucket: &'a str,
        /// Its key.
        key: &'a str,
    },
    /// A queue that holds fewer messages than are awaited.
    Messages {
        /// The queue.
        queue: &'a str,
        /// How many are awaited.
        awaited: u64,
    },
    /// Something else.
    Other,
}

/// A pause between two looks.
#[derive(Clone, Copy, Debug)]
pub struct Pause<'a> {
    /// From the end of a look to the start of the next.
    pub interval: Duration,
    /// How long the last look took: a request that found nothing.
    pub look: Duration,
    /// How many looks may be left out before patience ends.
    pub at_most: u64,
    /// What is looked at.
    pub watched: Watched<'a>,
}

/// Looks that were not made because they would have found nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// How many.
    pub looks: u64,
    /// How much of the next look has passed already when the pause ends: a
    /// pause can end while a look is under way, for what it looks for came
    /// after it had begun.
    pub under_way: Duration,
}
