//! Functions as AWS Lambda runs them: sandboxes started on demand and kept warm.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use epochcost_systems::{Functions, InvokeError, Outcome, Task};

use super::host::Host;
use super::runtime_api::RuntimeApi;
use super::sandbox::Sandbox;

/// Concurrent executions that an account may have ("Lambda quotas", default).
/// Beyond it AWS refuses; there is no other limit here, since functions that
/// wait for each other would starve behind one.
const ACCOUNT_CONCURRENCY: usize = 1_000;

/// The configuration that all functions of a trial share.
#[derive(Clone, Copy, Debug)]
pub(super) struct FunctionSpec {
    /// Memory size, MB.
    pub(super) memory_mb: u32,
    /// When an invocation is ended.
    pub(super) timeout: Duration,
}

/// The functions of one trial.
pub(super) struct Lambda {
    host: Arc<Host>,
    api: RuntimeApi,
    spec: FunctionSpec,
    /// Idle sandboxes by function, the most recently used last.
    warm: Mutex<HashMap<String, Vec<Sandbox>>>,
    running: AtomicUsize,
}

impl Lambda {
    /// No sandbox runs yet.
    pub(super) fn new(host: Arc<Host>, api: RuntimeApi, spec: FunctionSpec) -> Self {
        Self {
            host,
            api,
            spec,
            warm: Mutex::default(),
            running: AtomicUsize::new(0),
        }
    }

    fn take_warm(&self, function: &str) -> Option<Sandbox> {
        self.warm
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_mut(function)?
            .pop()
    }

    fn keep_warm(&self, function: &str, sandbox: Sandbox) {
        let mut warm = self.warm.lock().unwrap_or_else(PoisonError::into_inner);
        warm.entry(function.to_owned()).or_default().push(sandbox);
    }

    async fn serve(&self, task: &Task) -> Result<Outcome, String> {
        let _running = Running::enter(&self.running)?;
        let mut sandbox = match self.take_warm(&task.function) {
            Some(sandbox) => sandbox,
            None => Sandbox::start(&self.host, &self.api, &task.function, self.spec).await?,
        };
        let served = sandbox.serve(task).await?;
        if served.alive {
            self.keep_warm(&task.function, sandbox);
        }
        self.host.collector.invocation(served.invocation);
        served.result
    }
}

#[async_trait]
impl Functions for Lambda {
    async fn invoke(&self, task: Task) -> Result<Outcome, InvokeError> {
        self.serve(&task).await.map_err(|reason| InvokeError {
            function: task.function,
            rank: task.rank,
            reason,
        })
    }
}

/// One of the account's concurrent executions.
struct Running<'a>(&'a AtomicUsize);

impl<'a> Running<'a> {
    fn enter(running: &'a AtomicUsize) -> Result<Self, String> {
        let entered = Self(running);
        if running.fetch_add(1, Ordering::Relaxed) >= ACCOUNT_CONCURRENCY {
            return Err(format!(
                "TooManyRequestsException: {ACCOUNT_CONCURRENCY} functions run already, \
                 the default limit of an account"
            ));
        }
        Ok(entered)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
