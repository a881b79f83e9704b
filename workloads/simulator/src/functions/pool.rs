//! Concurrency of an account's invocations, and its sandboxes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use crate::engine::{Engine, locked};
use crate::model::Simulation;
use crate::network::Network;
use crate::notify::{Signal, Signalled};

/// A sandbox of a function.
#[derive(Clone)]
pub(crate) struct Sandbox {
    pub(crate) id: u64,
    /// Whether it holds the built model.
    pub(crate) is_built: Arc<AtomicBool>,
    /// Its network.
    pub(crate) network: Arc<Network>,
    /// Peak memory so far, MB.
    pub(crate) peak_mb: f64,
}

#[derive(Default)]
struct Function {
    idle: Vec<Sandbox>,
    /// Sandboxes that it may gain, and the instant of that count.
    tokens: Option<(f64, u64)>,
}

#[derive(Default)]
struct State {
    running: usize,
    /// Signals to the invocations that wait for a permit, in order.
    waiting: VecDeque<Arc<Mutex<Signal>>>,
    functions: BTreeMap<String, Function>,
}

/// The sandboxes of an account's functions.
pub(crate) struct Pool {
    engine: Engine,
    /// Concurrent invocations, and sandboxes that a function may gain in ten seconds;
    /// none without limits.
    limits: Option<(usize, f64)>,
    state: Mutex<State>,
}

impl Pool {
    pub(crate) fn new(engine: &Engine, simulation: &Simulation) -> Self {
        let function = &simulation.profile.function;
        let limits = (
            function.concurrency_limit as usize,
            function.scaling_per_10_s,
        );
        Self {
            engine: engine.clone(),
            limits: simulation.has_limits.then_some(limits),
            state: Mutex::default(),
        }
    }

    /// Waits until so many more invocations, which are alike, may run. More than one never waits:
    /// they are simulated as one only where all may run at once.
    pub(crate) async fn acquire(&self, alike: usize) -> Permit<'_> {
        let waiting = {
            let mut state = locked(&self.state);
            let limit = self.limits.map_or(usize::MAX, |(running, _)| running);
            if state.running < limit || alike > 1 {
                state.running += alike;
                None
            } else {
                let waiting = Signalled::default();
                state.waiting.push_back(waiting.0.clone());
                Some(waiting)
            }
        };
        if let Some(waiting) = waiting {
            waiting.await;
        }
        Permit { pool: self, alike }
    }

    /// Takes the idle sandbox of `function` that was used last, if it has one.
    pub(crate) fn take_idle(&self, function: &str) -> Option<Sandbox> {
        locked(&self.state).functions.get_mut(function)?.idle.pop()
    }

    /// Waits until `function` may gain the last of so many sandboxes.
    pub(crate) async fn gain(&self, function: &str, sandboxes: u64) {
        let Some((_, per_10_s)) = self.limits else {
            return;
        };
        let now = self.engine.now();
        let ready = {
            let mut state = locked(&self.state);
            let function = state.functions.entry(function.to_owned()).or_default();
            let (mut tokens, since) = function.tokens.unwrap_or((per_10_s, now));
            let refill = (now.saturating_sub(since)) as f64 * 1e-10 * per_10_s;
            tokens = (tokens + refill).min(per_10_s) - sandboxes as f64;
            function.tokens = Some((tokens, now.max(since)));
            // Debts of tokens are waited for in the order in which they were made.
            now + (-tokens.min(0.0) * 1e10 / per_10_s) as u64
        };
        self.engine.until(ready).await;
    }

    /// Returns a sandbox to the idle ones.
    pub(crate) fn give_back(&self, function: &str, sandbox: Sandbox) {
        let mut state = locked(&self.state);
        let function = state.functions.entry(function.to_owned()).or_default();
        function.idle.push(sandbox);
    }
}

/// The permission of one invocation, or of several that are alike, to run; given back when
/// dropped.
pub(crate) struct Permit<'a> {
    pool: &'a Pool,
    alike: usize,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut state = locked(&self.pool.state);
        state.running -= self.alike - 1;
        // The permit goes to the invocation that has waited longest.
        while let Some(signal) = state.waiting.pop_front() {
            if Arc::strong_count(&signal) > 1 {
                return locked(&signal).give();
            }
        }
        state.running -= 1;
    }
}
