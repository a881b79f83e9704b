//! Who waits for what to be there.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};

use crate::engine::locked;

/// What is awaited: an object by bucket and key, or messages by queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Awaited {
    Object(String, String),
    Messages(String),
}

#[derive(Default)]
struct Waiter {
    /// How much there must be: 1 of an object, messages in a queue.
    needed: u64,
    is_there: bool,
    waker: Option<Waker>,
}

type Waiters = HashMap<Awaited, Vec<Weak<Mutex<Waiter>>>>;

/// Tells those who wait for something when it is there.
#[derive(Clone, Default)]
pub(crate) struct Watch(Arc<Mutex<Waiters>>);

impl Watch {
    /// Says that there are `count` of `awaited` now.
    pub(crate) fn tell(&self, awaited: &Awaited, count: u64) {
        let mut all = locked(&self.0);
        let Some(waiters) = all.get_mut(awaited) else {
            return;
        };
        waiters.retain(|waiter| {
            let Some(waiter) = waiter.upgrade() else {
                return false;
            };
            let mut waiter = locked(&waiter);
            waiter.is_there |= count >= waiter.needed;
            if waiter.is_there
                && let Some(waker) = waiter.waker.take()
            {
                waker.wake();
            }
            !waiter.is_there
        });
        if waiters.is_empty() {
            all.remove(awaited);
        }
    }

    /// Whether anybody waits for anything; telling is free otherwise.
    pub(crate) fn is_idle(&self) -> bool {
        locked(&self.0).is_empty()
    }

    /// Waits until there are `needed` of `awaited`; there are not now.
    pub(crate) fn wait(&self, awaited: Awaited, needed: u64) -> Wait {
        let waiter = Arc::new(Mutex::new(Waiter {
            needed,
            ..Waiter::default()
        }));
        let mut all = locked(&self.0);
        all.entry(awaited)
            .or_default()
            .push(Arc::downgrade(&waiter));
        Wait(waiter)
    }
}

/// A wait for something to be there.
pub(crate) struct Wait(Arc<Mutex<Waiter>>);

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut waiter = locked(&self.0);
        if waiter.is_there {
            return Poll::Ready(());
        }
        waiter.waker = Some(context.waker().clone());
        Poll::Pending
    }
}
