//! Messages that were taken from their queue and not handed over yet.

use std::sync::Mutex;

use crate::{Payload, locked};

/// Messages that a consumer took and did not hand over, for the next consumer of
/// that queue in this process.
#[derive(Debug, Default)]
pub(crate) struct Stash(Mutex<Vec<(String, Payload)>>);

impl Stash {
    /// Reserves a message of `queue`. If the reservation is dropped before it is
    /// released, the message is stashed.
    pub(crate) fn reserve<'a>(&'a self, queue: &'a str, message: Payload) -> Reservation<'a> {
        Reservation {
            stash: self,
            queue,
            message: Some(message),
        }
    }

    /// Takes the oldest stashed message of `queue`.
    pub(crate) fn take(&self, queue: &str) -> Option<Payload> {
        let mut messages = locked(&self.0);
        let first = messages.iter().position(|(name, _)| name == queue)?;
        Some(messages.remove(first).1)
    }

    /// Returns a copy of the oldest stashed message of `queue`.
    pub(crate) fn peek(&self, queue: &str) -> Option<Payload> {
        let messages = locked(&self.0);
        let (_, message) = messages.iter().find(|(name, _)| name == queue)?;
        Some(message.clone())
    }

    /// Returns the number of stashed messages of `queue`.
    pub(crate) fn count(&self, queue: &str) -> u64 {
        let messages = locked(&self.0);
        messages.iter().filter(|(name, _)| name == queue).count() as u64
    }

    /// Drops the stashed messages of `queue`.
    pub(crate) fn purge(&self, queue: &str) {
        locked(&self.0).retain(|(name, _)| name != queue);
    }
}

/// A message on its way to its consumer.
pub(crate) struct Reservation<'a> {
    stash: &'a Stash,
    queue: &'a str,
    message: Option<Payload>,
}

impl Reservation<'_> {
    /// Ends the reservation and returns the message.
    pub(crate) fn release(mut self) -> Option<Payload> {
        self.message.take()
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Some(message) = self.message.take() {
            locked(&self.stash.0).push((self.queue.to_owned(), message));
        }
    }
}
