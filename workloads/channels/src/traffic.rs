//! Traffic over channels, and its counting.

use std::ops::{AddAssign, Sub};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::stored::Span;
use crate::{Fare, Reply, Stored, locked};

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

/// Clock: returns the time since some origin.
type Now = dyn Fn() -> Duration + Send + Sync;

/// A running count of traffic, shared by the callers of one purpose.
#[derive(Clone, Default)]
pub struct Meter {
    counted: Arc<Mutex<Counted>>,
    /// The clock of what is stored; without one, none is counted.
    now: Option<Arc<Now>>,
}

#[derive(Default)]
struct Counted {
    traffic: Traffic,
    span: Span,
}

impl Meter {
    /// Returns a meter of an object store's callers, which also counts bytes over time by the clock
    /// `now`. Its first span begins now.
    pub fn timed(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        let counted = Counted {
            span: Span::beginning(now()),
            ..Counted::default()
        };
        Self {
            counted: Arc::new(Mutex::new(counted)),
            now: Some(Arc::new(now)),
        }
    }

    /// Returns the traffic counted so far.
    pub fn read(&self) -> Traffic {
        locked(&self.counted).traffic
    }

    /// Returns what was stored from the end of the span before to `until`, where the next one begins;
    /// nothing without a clock.
    pub fn take_stored(&self, until: Duration) -> Stored {
        let mut counted = locked(&self.counted);
        let stored = counted.span.stored(until);
        counted.span = Span::beginning(until);
        stored
    }

    /// Adds traffic that did not pass a channel: polls that a simulation skips
    /// because it knows that they would find nothing.
    pub fn add(&self, traffic: Traffic) {
        locked(&self.counted).traffic += traffic;
    }

    /// Counts a request of `fare` that was answered with `reply`.
    pub(crate) fn count(&self, fare: Fare, reply: &Reply) {
        let found = reply.bytes();
        // The clock is read before the lock: it may count, too.
        let changed = matches!(fare, Fare::Put(_) | Fare::Delete);
        let now = self.now.as_ref().filter(|_| changed).map(|now| now());
        let mut counted = locked(&self.counted);
        if let Some(now) = now {
            let (written, removed) = (fare.up_bytes(), reply.removed());
            counted.span.change(now, written, removed);
        }
        let total = &mut counted.traffic;
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
