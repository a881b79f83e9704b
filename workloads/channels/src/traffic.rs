//! Traffic over channels, and its counting.

use std::ops::{AddAssign, Sub};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::{Fare, Reply};

/// Traffic over channels: requests, messages and payload bytes.
///
/// A get that found nothing is a missed get and moves no bytes. Bytes are
/// payload bytes; protocol overhead is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Values written to an object or tensor store.
    pub puts: u64,
    /// Values read.
    pub gets: u64,
    /// Reads that found nothing.
    pub missed_gets: u64,
    /// LIST requests, one per page.
    pub lists: u64,
    /// Delete requests, whatever the number of keys in each.
    pub deletes: u64,
    /// Messages published to queues.
    pub messages: u64,
    /// Messages taken from queues, or peeked at.
    pub deliveries: u64,
    /// Requests for the number of messages in a queue, and other queue requests that move nothing.
    pub polls: u64,
    /// Commands computed inside the tensor store.
    pub in_store: u64,
    /// Payload bytes from workers to channels.
    pub bytes_up: u64,
    /// Payload bytes from channels to workers.
    pub bytes_down: u64,
}

impl Traffic {
    /// Returns `each` of both values of every field.
    #[must_use]
    pub fn zip(self, other: Self, each: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            puts: each(self.puts, other.puts),
            gets: each(self.gets, other.gets),
            missed_gets: each(self.missed_gets, other.missed_gets),
            lists: each(self.lists, other.lists),
            deletes: each(self.deletes, other.deletes),
            messages: each(self.messages, other.messages),
            deliveries: each(self.deliveries, other.deliveries),
            polls: each(self.polls, other.polls),
            in_store: each(self.in_store, other.in_store),
            bytes_up: each(self.bytes_up, other.bytes_up),
            bytes_down: each(self.bytes_down, other.bytes_down),
        }
    }

    /// Returns the traffic of so many that are alike.
    #[must_use]
    pub fn times(self, alike: u64) -> Self {
        self.zip(self, |count, _| count * alike)
    }

    /// Returns the counts of a closed form: without the requests whose number
    /// depends on timing (missed gets, lists, deletes, polls).
    #[must_use]
    pub fn untimed(self) -> Self {
        Self {
            missed_gets: 0,
            lists: 0,
            deletes: 0,
            polls: 0,
            ..self
        }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        *self = self.zip(other, |a, b| a + b);
    }
}

impl Sub for Traffic {
    type Output = Self;

    /// Returns the traffic since `earlier`; both values come from one growing meter.
    fn sub(self, earlier: Self) -> Self {
        self.zip(earlier, |now, then| now - then)
    }
}

/// A running count of traffic, shared by the callers of one purpose.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<Mutex<Traffic>>);

impl Meter {
    /// Returns the traffic counted so far.
    pub fn read(&self) -> Traffic {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds traffic that did not pass a channel: polls that a simulation skips
    /// because it knows that they would find nothing.
    pub fn add(&self, traffic: Traffic) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += traffic;
    }

    /// Counts a request of `fare` that was answered with `reply`.
    pub(crate) fn count(&self, fare: Fare, reply: &Reply) {
        let (found, total) = (reply.bytes(), self.0.lock());
        let mut total = total.unwrap_or_else(PoisonError::into_inner);
        let count = match (fare, found) {
            (Fare::Put(_), _) => &mut total.puts,
            (Fare::Get, Some(_)) => &mut total.gets,
            (Fare::Get, None) => &mut total.missed_gets,
            (Fare::List, _) => &mut total.lists,
            (Fare::Delete, _) => &mut total.deletes,
            (Fare::Message(_), _) => &mut total.messages,
            (Fare::Delivery, Some(_)) => &mut total.deliveries,
            (Fare::Delivery, None) | (Fare::Poll, _) => &mut total.polls,
            (Fare::InStore, _) => &mut total.in_store,
            (Fare::Uncounted, _) => return,
        };
        *count += 1;
        total.bytes_up += fare.up_bytes();
        total.bytes_down += found.unwrap_or_default();
    }
}
