//! A capacity that many users share fairly: a server's bandwidth, a host's cores.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::engine::{Engine, Tick, locked, nanoseconds};

/// A capacity in units per second, shared max-min fairly: every user gets the same
/// rate, except those whose own cap is lower; the others share what these leave.
///
/// Users of one cap form a class whose service is counted once for all of
/// them, so that an arrival or departure costs no more with a thousand users
/// than with one.
#[derive(Clone)]
pub(crate) struct Resource(Arc<Shared>);

struct Shared {
    engine: Engine,
    /// Units per second.
    capacity: f64,
    state: Mutex<State>,
}

struct State {
    updated: u64,
    classes: Vec<Class>,
    uses: Vec<Use>,
    free: Vec<usize>,
    sequence: u64,
    /// The earliest tick that is planned.
    planned: Option<u64>,
}

struct Class {
    cap: f64,
    /// Units per second that each user gets now.
    rate: f64,
    /// Units that each user has received since the class exists.
    served: f64,
    users: usize,
    /// Goals of the users, least service first.
    goals: BinaryHeap<Reverse<Goal>>,
}

#[derive(Clone, Copy)]
struct Goal {
    at: f64,
    sequence: u64,
    user: usize,
}

impl Ord for Goal {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at
            .total_cmp(&other.at)
            .then(self.sequence.cmp(&other.sequence))
    }
}

impl PartialOrd for Goal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Goal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Goal {}

struct Use {
    sequence: u64,
    /// The waker of a user that has not received its amount yet.
    waiting: Option<Waker>,
    /// Users that it counts as.
    users: usize,
}

impl Resource {
    /// Shares `capacity` units per second; if infinite, every user gets its cap.
    pub(crate) fn new(engine: &Engine, capacity: f64) -> Self {
        Self(Arc::new(Shared {
            engine: engine.clone(),
            capacity,
            state: Mutex::new(State {
                updated: engine.now(),
                classes: Vec::new(),
                uses: Vec::new(),
                free: Vec::new(),
                sequence: 0,
                planned: None,
            }),
        }))
    }

    /// Uses `amount` units at no more than `cap` units per second.
    pub(crate) async fn consume(&self, amount: f64, cap: f64) {
        self.consume_as(1, amount, cap).await;
    }

    /// Uses `amount` units as each of so many users that do the same at the same time.
    pub(crate) async fn consume_as(&self, users: u64, amount: f64, cap: f64) {
        if amount <= 0.0 {
            return;
        }
        // Without a limit users do not slow each other down: one class counts their seconds.
        let (amount, cap) = if self.0.capacity.is_infinite() {
            (amount / cap, 1.0)
        } else {
            (amount, cap)
        };
        Consume {
            shared: self.0.clone(),
            amount,
            cap,
            users: users as usize,
            user: None,
        }
        .await;
    }
}

impl Shared {
    /// Plans a tick for the first user to be done.
    fn plan(self: &Arc<Self>, state: &mut State, now: u64) {
        let Some(next) = state.next_done(now) else {
            return;
        };
        // An earlier tick plans again when it comes.
        if state.planned.is_none_or(|planned| next < planned) {
            state.planned = Some(next);
            self.engine.tick_at(next, self.clone());
        }
    }
}

impl Tick for Shared {
    fn tick(self: Arc<Self>, now: u64) {
        let mut state = locked(&self.state);
        if state.planned == Some(now) {
            state.planned = None;
        }
        state.serve(now);
        state.allocate(self.capacity);
        self.plan(&mut state, now);
    }
}

impl State {
    /// Credits every user with its service since the last call, and wakes those that
    /// have all of it.
    fn serve(&mut self, now: u64) {
        let seconds = (now - self.updated) as f64 * 1e-9;
        self.updated = now;
        for class in &mut self.classes {
            class.served += class.rate * seconds;
            // A tick comes at a whole nanosecond.
            let slack = class.rate * 1e-9 + class.served * 1e-12;
            while let Some(Reverse(goal)) = class.goals.peek() {
                let user = &mut self.uses[goal.user];
                let is_gone = user.sequence != goal.sequence;
                if !is_gone && goal.at > class.served + slack {
                    break;
                }
                if !is_gone {
                    class.users -= user.users;
                    if let Some(waker) = user.waiting.take() {
                        waker.wake();
                    }
                }
                class.goals.pop();
            }
        }
        self.classes.retain(|class| class.users > 0);
    }

    /// Sets max-min fair rates: classes by rising cap, each at most an even share of
    /// what is left.
    fn allocate(&mut self, capacity: f64) {
        let mut left = capacity;
        let mut users: usize = self.classes.iter().map(|class| class.users).sum();
        for class in &mut self.classes {
            class.rate = class.cap.min(left / users as f64);
            left -= class.rate * class.users as f64;
            users -= class.users;
        }
    }

    /// Returns the first instant at which a user is done.
    fn next_done(&self, now: u64) -> Option<u64> {
        let done = self.classes.iter().filter_map(|class| {
            let Reverse(goal) = class.goals.peek()?;
            let left = (goal.at - class.served).max(0.0);
            Some(now.saturating_add(nanoseconds(left / class.rate).max(1)))
        });
        done.min()
    }

    /// Adds a user with `waker` to the class of its cap, and returns its slot.
    fn admit(&mut self, users: usize, amount: f64, cap: f64, waker: &Waker) -> usize {
        // A slot, reused if one is free.
        self.sequence += 1;
        let sequence = self.sequence;
        let new = Use {
            sequence,
            waiting: Some(waker.clone()),
            users,
        };
        let user = match self.free.pop() {
            Some(user) => {
                self.uses[user] = new;
                user
            }
            None => {
                self.uses.push(new);
                self.uses.len() - 1
            }
        };
        // The class of this cap, made if the user is its first.
        let position = self.classes.partition_point(|class| class.cap < cap);
        if self
            .classes
            .get(position)
            .is_none_or(|class| class.cap != cap)
        {
            let class = Class {
                cap,
                rate: 0.0,
                served: 0.0,
                users: 0,
                goals: BinaryHeap::new(),
            };
            self.classes.insert(position, class);
        }
        // The user is done when the class has served the amount.
        let class = &mut self.classes[position];
        class.users += users;
        class.goals.push(Reverse(Goal {
            at: class.served + amount,
            sequence,
            user,
        }));
        user
    }

    /// Frees the slot of a user; what it did not receive is left to the others.
    fn release(&mut self, user: usize, cap: f64) {
        let slot = &mut self.uses[user];
        let was_waiting = slot.waiting.take().is_some();
        let users = slot.users;
        slot.sequence = 0;
        self.free.push(user);
        if was_waiting && let Some(class) = self.classes.iter_mut().find(|class| class.cap == cap) {
            class.users -= users;
        }
        self.classes.retain(|class| class.users > 0);
    }
}

/// A use in progress: ready when the user has received its amount.
struct Consume {
    shared: Arc<Shared>,
    amount: f64,
    cap: f64,
    users: usize,
    user: Option<usize>,
}

impl Future for Consume {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let shared = self.shared.clone();
        let mut state = locked(&shared.state);
        let Some(user) = self.user else {
            let now = shared.engine.now();
            state.serve(now);
            self.user = Some(state.admit(self.users, self.amount, self.cap, context.waker()));
            state.allocate(shared.capacity);
            shared.plan(&mut state, now);
            return Poll::Pending;
        };
        match &mut state.uses[user].waiting {
            Some(waker) => {
                if !waker.will_wake(context.waker()) {
                    *waker = context.waker().clone();
                }
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Consume {
    fn drop(&mut self) {
        let Some(user) = self.user else { return };
        let now = self.shared.engine.now();
        let mut state = locked(&self.shared.state);
        state.serve(now);
        state.release(user, self.cap);
        state.allocate(self.shared.capacity);
        self.shared.plan(&mut state, now);
    }
}

#[cfg(test)]
mod tests;
