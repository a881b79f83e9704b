//! Virtual time: an event queue in nanoseconds, and the one thread that polls.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::task::unconstrained;

/// Locks `mutex`, also after a panic: no holder leaves its content half changed.
pub(crate) fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Converts seconds to whole nanoseconds, rounded up: what takes any time takes at
/// least one.
pub(crate) fn nanoseconds(seconds: f64) -> u64 {
    // The cast saturates: infinity becomes the last instant.
    (seconds * 1e9).ceil().max(0.0) as u64
}

/// An action at an instant of virtual time.
pub(crate) trait Tick: Send + Sync {
    /// Runs the action.
    fn tick(self: Arc<Self>, now: u64);
}

enum Action {
    Wake(Waker),
    Tick(Arc<dyn Tick>),
}

struct Event {
    at: u64,
    /// Position in the order of planning, in which events of one instant act.
    sequence: u64,
    action: Action,
}

impl Event {
    fn key(&self) -> Reverse<(u64, u64)> {
        Reverse((self.at, self.sequence))
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

#[derive(Default)]
struct Planned {
    events: BinaryHeap<Event>,
    sequence: u64,
}

/// Virtual time and everything planned in it. Clones share both.
#[derive(Clone, Default)]
pub(crate) struct Engine {
    now: Arc<AtomicU64>,
    planned: Arc<Mutex<Planned>>,
    acted: Arc<AtomicU64>,
    ready: Arc<Ready>,
}

/// Spawned futures to poll, in the order in which they were woken.
type Ready = Mutex<VecDeque<Arc<Spawned>>>;

/// A future that the engine polls by itself: waking it polls no other.
struct Spawned {
    /// The future; `None` once it has ended or was dropped.
    future: Mutex<Option<BoxFuture<'static, ()>>>,
    is_ready: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for Spawned {
    fn wake(self: Arc<Self>) {
        if !self.is_ready.swap(true, Ordering::Relaxed) {
            locked(&self.ready.clone()).push_back(self);
        }
    }
}

impl Spawned {
    fn poll(self: Arc<Self>) {
        self.is_ready.store(false, Ordering::Relaxed);
        let waker = Waker::from(self.clone());
        let mut future = locked(&self.future);
        if let Some(running) = future.as_mut() {
            let polled = running.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_ready() {
                *future = None;
            }
        }
    }
}

/// The output of a spawned future, to be awaited. Dropping the handle drops the
/// future.
pub(crate) struct Handle<T> {
    spawned: Arc<Spawned>,
    output: oneshot::Receiver<T>,
}

impl<T> Future for Handle<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match Pin::new(&mut self.output).poll(context) {
            Poll::Ready(Ok(output)) => Poll::Ready(output),
            // The sender is dropped without an output only with its future.
            _ => Poll::Pending,
        }
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        *locked(&self.spawned.future) = None;
    }
}

/// Why a future was not polled to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// Every future waits, and no event is left that could wake one.
    Deadlock,
    /// Virtual time stands still: its last instant has come, or this one does not end.
    Standstill,
    /// The real time that it was given is over.
    GivenUp,
}

/// Most events and polls of one instant: 100,000 workers that each do a few hundred things at once.
const MOST_AT_ONCE: u64 = if cfg!(test) { 100_000 } else { 50_000_000 };

/// Number of instants of virtual time after which the real time is read.
const CLOCK_EVERY: u32 = 16;

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Engine {
    /// Returns the nanoseconds since the origin.
    pub(crate) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Returns the number of events that have acted.
    pub(crate) fn acted(&self) -> u64 {
        self.acted.load(Ordering::Relaxed)
    }

    fn plan(&self, at: u64, action: Action) {
        let mut planned = locked(&self.planned);
        planned.sequence += 1;
        let sequence = planned.sequence;
        planned.events.push(Event {
            at,
            sequence,
            action,
        });
    }

    /// Plans `tick` for the instant `at`.
    pub(crate) fn tick_at(&self, at: u64, tick: Arc<dyn Tick>) {
        self.plan(at, Action::Tick(tick));
    }

    /// Waits until `at`.
    pub(crate) fn until(&self, at: u64) -> Until {
        Until {
            engine: self.clone(),
            at,
            planned: None,
        }
    }

    /// Waits for `duration`; zero lets other futures run first.
    pub(crate) async fn sleep(&self, duration: Duration) {
        // A duration of centuries becomes the last instant.
        let length = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.pass(length).await;
    }

    /// Waits for `seconds`.
    pub(crate) async fn seconds(&self, seconds: f64) {
        self.pass(nanoseconds(seconds)).await;
    }

    async fn pass(&self, length: u64) {
        let mut until = self.until(self.now().saturating_add(length));
        if length == 0 {
            // An event of this very instant, behind those planned already.
            std::future::poll_fn(|context| match until.planned {
                Some(_) => Poll::Ready(()),
                None => {
                    until.plan(context.waker());
                    Poll::Pending
                }
            })
            .await;
        }
        until.await;
    }

    /// Spawns `future`, which is first polled at this instant.
    pub(crate) fn spawn<F>(&self, future: F) -> Handle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let (ended, output) = oneshot::channel();
        let spawned = self.start(Box::pin(unconstrained(async move {
            // The receiver is gone if the handle was dropped.
            let _ = ended.send(future.await);
        })));
        Handle { spawned, output }
    }

    /// Runs `future` beside all others, with nobody waiting for it.
    pub(crate) fn detach(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.start(Box::pin(future));
    }

    fn start(&self, future: BoxFuture<'static, ()>) -> Arc<Spawned> {
        let spawned = Arc::new(Spawned {
            future: Mutex::new(Some(future)),
            is_ready: AtomicBool::new(false),
            ready: self.ready.clone(),
        });
        spawned.clone().wake();
        spawned
    }

    /// Polls `future` to its end, letting time jump from event to event.
    pub(crate) fn run<F: Future>(&self, future: F) -> Result<F::Output, Stopped> {
        self.run_until(None, future)
    }

    /// Polls `future` to its end, or until the real instant `give_up_at`.
    pub(crate) fn run_until<F: Future>(
        &self,
        give_up_at: Option<Instant>,
        future: F,
    ) -> Result<F::Output, Stopped> {
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        let waker = Waker::from(flag.clone());
        let mut context = Context::from_waker(&waker);
        // Within a runtime's task, tokio's own futures are never ready once the task has used up
        // its budget, and nothing is given back before this ends.
        let mut future = pin!(unconstrained(future));
        let mut advances: u32 = 0;
        let (mut instant, mut at_once) = (self.now(), 0);
        loop {
            if self.now() != instant {
                (instant, at_once) = (self.now(), 0);
            }
            at_once += 1;
            if at_once > MOST_AT_ONCE {
                return Err(Stopped::Standstill);
            }
            while flag.0.swap(false, Ordering::Relaxed) {
                if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                    return Ok(output);
                }
            }
            // The lock is held only to take one: polling it may wake others.
            let ready = locked(&self.ready).pop_front();
            if let Some(spawned) = ready {
                spawned.poll();
                continue;
            }
            self.advance()?;
            advances = advances.wrapping_add(1);
            let is_due = advances.is_multiple_of(CLOCK_EVERY);
            if is_due && give_up_at.is_some_and(|at| Instant::now() >= at) {
                return Err(Stopped::GivenUp);
            }
        }
    }

    /// Moves to the next instant and runs everything planned for it.
    fn advance(&self) -> Result<(), Stopped> {
        let first = locked(&self.planned).events.pop();
        let first = first.ok_or(Stopped::Deadlock)?;
        let now = first.at;
        if now == u64::MAX {
            // What takes longer than time lasts never ends.
            return Err(Stopped::Standstill);
        }
        self.now.store(now, Ordering::Relaxed);
        let (mut next, mut at_once) = (Some(first), 0);
        while let Some(event) = next {
            self.acted.fetch_add(1, Ordering::Relaxed);
            at_once += 1;
            if at_once > MOST_AT_ONCE {
                return Err(Stopped::Standstill);
            }
            match event.action {
                Action::Wake(waker) => waker.wake(),
                Action::Tick(tick) => tick.tick(now),
            }
            let mut planned = locked(&self.planned);
            next = match planned.events.peek() {
                Some(event) if event.at == now => planned.events.pop(),
                _ => None,
            };
        }
        Ok(())
    }
}

/// A future that is ready at an instant.
pub(crate) struct Until {
    engine: Engine,
    at: u64,
    planned: Option<Waker>,
}

impl Until {
    fn plan(&mut self, waker: &Waker) {
        let planned = self.planned.as_ref();
        if planned.is_none_or(|old| !old.will_wake(waker)) {
            self.engine.plan(self.at, Action::Wake(waker.clone()));
            self.planned = Some(waker.clone());
        }
    }
}

impl Future for Until {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.engine.now() >= self.at {
            return Poll::Ready(());
        }
        self.plan(context.waker());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests;
