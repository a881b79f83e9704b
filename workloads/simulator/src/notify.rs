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

/// A signal to one future that waits for it.
#[derive(Default)]
pub(crate) struct Signal {
    is_given: bool,
    waker: Option<Waker>,
}

impl Signal {
    /// Wakes the future.
    pub(crate) fn give(&mut self) {
        self.is_given = true;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// A future that is ready when its signal is given.
#[derive(Default)]
pub(crate) struct Signalled(pub(crate) Arc<Mutex<Signal>>);

impl Future for Signalled {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut signal = locked(&self.0);
        if signal.is_given {
            return Poll::Ready(());
        }
        signal.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Signals by what is awaited, each with the needed count: 1 of an object, messages in a queue.
type Waiters = HashMap<Awaited, Vec<(u64, Weak<Mutex<Signal>>)>>;

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
        waiters.retain(|(needed, signal)| {
            let Some(signal) = signal.upgrade() else {
                return false;
            };
            let is_given = count >= *needed;
            if is_given {
                locked(&signal).give();
            }
            !is_given
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
    pub(crate) fn notified(&self, awaited: Awaited, needed: u64) -> Signalled {
        let signalled = Signalled::default();
        let waiter = (needed, Arc::downgrade(&signalled.0));
        locked(&self.0).entry(awaited).or_default().push(waiter);
        signalled
    }
}
