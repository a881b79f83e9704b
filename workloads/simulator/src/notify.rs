//! Waiting for objects and messages: waiters are notified when what they await
//! exists.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};

use crate::engine::locked;

/// The awaited thing: an object by bucket and key, or messages by queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Awaited {
    Object(String, String),
    Messages(String),
}

#[derive(Default)]
struct Waiter {
    /// Needed count: 1 of an object, messages in a queue.
    needed: u64,
    is_notified: bool,
    waker: Option<Waker>,
}

type Waiters = HashMap<Awaited, Vec<Weak<Mutex<Waiter>>>>;

/// Wakes futures that wait for objects or messages. Clones share the waiters.
#[derive(Clone, Default)]
pub(crate) struct Notify(Arc<Mutex<Waiters>>);

impl Notify {
    /// Notifies those that wait for at most `count` of `awaited`, which exist now.
    pub(crate) fn notify_waiters(&self, awaited: &Awaited, count: u64) {
        let mut all = locked(&self.0);
        let Some(waiters) = all.get_mut(awaited) else {
            return;
        };
        waiters.retain(|waiter| {
            let Some(waiter) = waiter.upgrade() else {
                return false;
            };
            let mut waiter = locked(&waiter);
            waiter.is_notified |= count >= waiter.needed;
            if waiter.is_notified
                && let Some(waker) = waiter.waker.take()
            {
                waker.wake();
            }
            !waiter.is_notified
        });
        if waiters.is_empty() {
            all.remove(awaited);
        }
    }

    /// Returns whether there are no waiters, so that there is no one to notify.
    pub(crate) fn is_idle(&self) -> bool {
        locked(&self.0).is_empty()
    }

    /// Returns a future that is ready once there are `needed` of `awaited`; there are
    /// fewer now.
    pub(crate) fn notified(&self, awaited: Awaited, needed: u64) -> Notified {
        let waiter = Arc::new(Mutex::new(Waiter {
            needed,
            ..Waiter::default()
        }));
        let mut all = locked(&self.0);
        all.entry(awaited)
            .or_default()
            .push(Arc::downgrade(&waiter));
        Notified(waiter)
    }
}

/// A future that is ready when its waiter is notified.
pub(crate) struct Notified(Arc<Mutex<Waiter>>);

impl Future for Notified {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut waiter = locked(&self.0);
        if waiter.is_notified {
            return Poll::Ready(());
        }
        waiter.waker = Some(context.waker().clone());
        Poll::Pending
    }
}
