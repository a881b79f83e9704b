//! Functions in virtual time: sandboxes, cold starts, limits.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use epochcost_systems::{Functions, Host, InvokeError, Outcome, Task};
use futures_util::future::{Either, select};

use super::pool::{Pool, Sandbox};
use super::start::Starts;
use super::{Trial, failed};
use crate::engine::nanoseconds;
use crate::limits::{Infeasible, Limit};
use crate::model::{Invocation, Simulation};
use crate::network::Network;
use crate::station::StationSpec;

/// AWS Lambda, or the platform that the profile describes instead.
pub(crate) struct Lambda {
    trial: Arc<Trial>,
    pool: Arc<Pool>,
    starts: Starts,
    /// Longest invocation, seconds; none without limits and faults.
    timeout_s: Option<f64>,
    /// Whether a state machine invokes the functions.
    is_workflow: bool,
}

impl Lambda {
    pub(crate) fn new(trial: Arc<Trial>, pool: Arc<Pool>, is_workflow: bool) -> Self {
        let Simulation {
            profile,
            timeout_s,
            has_limits,
            faults,
            ..
        } = &trial.simulation;
        Self {
            pool,
            starts: Starts::new(&trial.engine, profile, !is_workflow),
            // A process that hangs is ended, whatever the limits.
            timeout_s: (*has_limits || !faults.is_empty())
                .then_some(timeout_s.min(profile.function.timeout_s_limit)),
            is_workflow,
            trial,
        }
    }

    fn memory_of(&self, function: &str) -> u32 {
        let simulation = &self.trial.simulation;
        let own = simulation.function_memory_mb.get(function);
        own.copied().unwrap_or(simulation.memory_mb)
    }

    fn spec(&self, sandbox: &Sandbox, memory_mb: u32) -> StationSpec {
        let profile = self.trial.profile();
        let function = &profile.function;
        StationSpec {
            vcpus: function.vcpus(memory_mb),
            arithmetic_bytes_per_s: function.arithmetic_bytes_per_s,
            device: self.trial.device_memory(true),
            bytes_per_s: function.bytes_per_s(memory_mb),
            network: sandbox.network.clone(),
            interpreted: profile.interpreted(),
            has_codec: true,
            compute_spread: function.compute_spread.clone(),
            shares_gpu: true,
            is_function: true,
        }
    }

    /// Takes an idle sandbox, or starts one: then with the seconds of its init.
    async fn sandbox(&self, function: &str, alike: u64) -> (Sandbox, Option<f64>) {
        if let Some(sandbox) = self.pool.take_idle(function) {
            return (sandbox, None);
        }
        let profile = self.trial.profile();
        self.pool.gain(function, alike).await;
        let (placed_s, init_s) = self.starts.sandbox_s(profile);
        self.trial.engine.seconds(placed_s + init_s).await;
        let sandbox = Sandbox {
            id: self.trial.next_id(),
            is_built: Arc::default(),
            network: Arc::new(Network::new(
                profile.function.network_credit.as_ref(),
                self.trial.engine.now(),
            )),
            peak_mb: 0.0,
        };
        (sandbox, Some(init_s))
    }

    /// Returns the limit of memory or time that the invocation exceeded, if any.
    fn exceeded(&self, peak_mb: f64, function: &str, timed_out: bool) -> Option<Infeasible> {
        let simulation = &self.trial.simulation;
        let timeout_s = self.timeout_s.filter(|_| simulation.has_limits)?;
        let memory_mb = self.memory_of(function);
        // Memory that is too small ends a function before its time is up.
        let (limit, reason) = if peak_mb > f64::from(memory_mb) {
            let reason = format!("{function} needs {peak_mb:.0} MB of {memory_mb} MB");
            (Limit::Memory, reason)
        } else if timed_out && simulation.faults.is_empty() {
            let reason = format!("{function} runs for more than {timeout_s:.0} s");
            (Limit::Duration, reason)
        } else {
            return None;
        };
        Some(Infeasible { limit, reason })
    }
}

#[async_trait]
impl Functions for Lambda {
    async fn invoke(&self, task: Task) -> Result<Outcome, InvokeError> {
        let (trial, function) = (&self.trial, task.function.clone());
        // The call reaches a sandbox.
        let profile = trial.profile();
        if self.is_workflow {
            let latency_s = profile.workflow.transition_latency_s;
            trial.engine.seconds(latency_s).await;
        }
        let alike = trial.alike(task.rank);
        let _permit = self.pool.acquire(alike as usize).await;
        self.starts.call(profile, alike).await;
        let (mut sandbox, init_s) = self.sandbox(&function, alike).await;
        // The code runs until it ends or its time is over.
        let started = trial.engine.now();
        let is_built = sandbox.is_built.clone();
        let memory_mb = self.memory_of(&function);
        let invoked = trial
            .world(task.clone(), self.spec(&sandbox, memory_mb), is_built)
            .map_err(|error| failed(&task, error))?
            .with_limit(self.timeout_s.map(Duration::from_secs_f64));
        let station = invoked.station.clone();
        let running = trial.run(invoked);
        let (ended, timed_out) = match self.timeout_s {
            None => (running.await, false),
            Some(limit) => {
                let deadline = trial.engine.until(started + nanoseconds(limit));
                match select(running, deadline).await {
                    Either::Left((outcome, _)) => (outcome, false),
                    Either::Right(_) => (Ok(Outcome::Finished), true),
                }
            }
        };
        // Memory and time decide how it ended.
        let peak_mb = trial.peak_mb(&task, &station.held);
        sandbox.peak_mb = sandbox.peak_mb.max(peak_mb);
        let over = self.exceeded(peak_mb, &function, timed_out);
        let error = match (&over, &ended) {
            (Some(over), _) => Some(over.to_string()),
            (None, Err(error)) => Some(error.to_string()),
            (None, Ok(_)) if timed_out => {
                let timeout_s = self.timeout_s.unwrap_or_default();
                Some(format!("Task timed out after {timeout_s:.2} seconds"))
            }
            (None, Ok(_)) => None,
        };
        // A failed sandbox serves no further invocation.
        trial.record(Invocation {
            id: trial.next_id(),
            task: (&task).into(),
            host: Host::Function,
            sandbox: sandbox.id,
            started_s: started as f64 * 1e-9,
            duration_s: (trial.engine.now() - started) as f64 * 1e-9,
            init_s,
            memory_mb: Some(memory_mb),
            peak_memory_mb: sandbox.peak_mb,
            error: error.clone(),
            alike: 1,
        });
        if let Some(over) = over {
            trial.services.hit(over);
        } else if error.is_none() {
            self.pool.give_back(&function, sandbox);
        }
        match error {
            Some(reason) => Err(failed(&task, reason)),
            None => ended.map_err(|error| failed(&task, error)),
        }
    }

    fn map_concurrency(&self) -> usize {
        let limit = self.trial.profile().workflow.map_concurrency_limit;
        let has_limits = self.trial.simulation.has_limits;
        if has_limits {
            limit as usize
        } else {
            usize::MAX
        }
    }

    fn stands_for(&self, rank: usize) -> u64 {
        self.trial.alike(rank)
    }
}
