//! Pauses between two polls, and polls that a clock skips.

use std::time::Duration;

/// Target of a poll. A poll repeated while the target is unchanged finds the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollTarget<'a> {
    /// An object that is not in the store yet.
    Object {
        /// Bucket of the object.
        bucket: &'a str,
        /// Key of the object.
        key: &'a str,
    },
    /// A queue that holds fewer messages than are awaited.
    Messages {
        /// Name of the queue.
        queue: &'a str,
        /// Number of messages awaited.
        awaited: u64,
    },
    /// Anything else.
    Other,
}

/// A pause between two polls.
#[derive(Clone, Copy, Debug)]
pub struct Pause<'a> {
    /// Time from the end of a poll to the start of the next.
    pub interval: Duration,
    /// Duration of the last poll: a request that found nothing.
    pub poll: Duration,
    /// Number of polls that may be skipped before the time limit.
    pub at_most: u64,
    /// Target of the polls.
    pub target: PollTarget<'a>,
}

/// Polls that were not made because they would have found nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedPolls {
    /// Number of polls.
    pub count: u64,
    /// Part of the next poll that has already passed when the pause ends: a
    /// pause can end during a poll, where its target came after it had begun.
    pub under_way: Duration,
}
