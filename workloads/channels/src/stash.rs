//! Messages that were taken from their queue and not handed over yet.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Payload;

/// Keeps what a consumer took and could not hand over, for the next consumer of
/// that queue in this process.
#[derive(Debug, Default)]
pub(crate) struct Stash(Mutex<Vec<(String, Payload)>>);

impl Stash {
    fn held(&self) -> MutexGuard<'_, Vec<(String, Payload)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds a message of `queue`: put aside unless it is released.
    pub(crate) fn hold<'a>(&'a self, queue: &'a str, message: Payload) -> Held<'a> {
        Held {
            stash: self,
            queue,
            message: Some(message),
        }
    }

    /// Takes the oldest message that was put aside.
    pub(crate) fn take(&self, queue: &str) -> Option<Payload> {
        let mut held = self.held();
        let first = held.iter().position(|(name, _)| name == queue)?;
        Some(held.remove(first).1)
    }

    /// The oldest message that was put aside; it stays.
    pub(crate) fn peek(&self, queue: &str) -> Option<Payload> {
        let held = self.held();
        let (_, message) = held.iter().find(|(name, _)| name == queue)?;
        Some(message.clone())
    }

    /// How many messages of `queue` were put aside.
    pub(crate) fn count(&self, queue: &str) -> u64 {
        let held = self.held();
        held.iter().filter(|(name, _)| name == queue).count() as u64
    }

    /// Drops those of `queue`.
    pub(crate) fn purge(&self, queue: &str) {
        self.held().retain(|(name, _)| name != queue);
    }
}

/// A message on its way to its consumer.
pub(crate) struct Held<'a> {
    stash: &'a Stash,
    queue: &'a str,
    message: Option<Payload>,
}

impl Held<'_> {
    /// It is handed over.
    pub(crate) fn release(mut self) -> Option<Payload> {
        self.message.take()
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(message) = self.message.take() {
            self.stash.held().push((self.queue.to_owned(), message));
        }
    }
}
