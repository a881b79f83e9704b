//! Functions as AWS Lambda runs them: sandboxes started on demand and kept warm.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use epochcost_systems::{Functions, InvokeError, Outcome, Task};
use tokio::time::sleep;
use uuid::Uuid;

use super::account::{Admission, Caller, Running, Throttle};
use super::host::Host;
use super::runtime_api::RuntimeApi;
use super::sandbox::Sandbox;
use crate::locked;

/// The configuration that all functions of a trial share.
#[derive(Clone, Debug)]
pub(super) struct FunctionSpec {
    /// Memory size, MB.
    pub(super) memory_mb: u32,
    /// Memory sizes of functions that have their own, MB, by name.
    pub(super) function_memory_mb: BTreeMap<String, u32>,
    /// Time limit of an invocation.
    pub(super) timeout: Duration,
    /// Size of `/tmp`, MB.
    pub(super) storage_mb: u32,
    /// The functions' own environment variables.
    pub(super) environment: Vec<(String, String)>,
}

impl FunctionSpec {
    /// Memory size of one function, MB.
    pub(super) fn memory_of(&self, function: &str) -> u32 {
        let own = self.function_memory_mb.get(function);
        own.copied().unwrap_or(self.memory_mb)
    }
}

/// The functions of one trial.
pub(super) struct Lambda {
    host: Arc<Host>,
    api: RuntimeApi,
    spec: FunctionSpec,
    account: Admission,
    caller: Caller,
    /// Idle sandboxes by function, the most recently used last.
    warm: Mutex<HashMap<String, Vec<Sandbox>>>,
}

impl Lambda {
    /// Creates the functions; starts no sandbox.
    pub(super) fn new(
        host: Arc<Host>,
        api: RuntimeApi,
        spec: FunctionSpec,
        account: Admission,
        caller: Caller,
    ) -> Self {
        Self {
            host,
            api,
            spec,
            account,
            caller,
            warm: Mutex::default(),
        }
    }

    /// Runs one invocation; retries it after refusals as often as its caller does.
    pub(super) async fn serve(&self, task: &Task, request_id: Uuid) -> Result<Outcome, String> {
        let (began, mut refusals) = (Instant::now(), 0);
        loop {
            let throttle = match self.admit(&task.function) {
                Ok(admitted) => return self.run(task, request_id, admitted).await,
                Err(throttle) => throttle,
            };
            refusals += 1;
            let wait = self.caller.waits(refusals, began.elapsed());
            let retried = wait.is_some() && self.caller == Caller::Workflow;
            self.host.collector.throttled(retried);
            match wait {
                Some(wait) => sleep(wait).await,
                None => return Err(throttle.to_string()),
            }
        }
    }

    fn admit(&self, function: &str) -> Result<Admitted<'_>, Throttle> {
        let running = self.account.enter()?;
        let warm = locked(&self.warm).get_mut(function).and_then(Vec::pop);
        if warm.is_none() {
            self.account.gain(function)?;
        }
        Ok((warm, running))
    }

    async fn run(
        &self,
        task: &Task,
        request_id: Uuid,
        (warm, _running): Admitted<'_>,
    ) -> Result<Outcome, String> {
        let mut sandbox = match warm {
            Some(sandbox) => sandbox,
            None => Sandbox::start(&self.host, &self.api, task, &self.spec).await?,
        };
        let served = sandbox.serve(task, request_id).await?;
        if served.alive {
            let mut warm = locked(&self.warm);
            warm.entry(task.function.clone()).or_default().push(sandbox);
        }
        self.host.collector.invocation(served.invocation);
        served.result
    }
}

/// An invocation that may run, and the warm sandbox that it reuses, if there is one.
type Admitted<'a> = (Option<Sandbox>, Running<'a>);

#[async_trait]
impl Functions for Lambda {
    async fn invoke(&self, task: Task) -> Result<Outcome, InvokeError> {
        let served = self.serve(&task, Uuid::new_v4()).await;
        served.map_err(|reason| InvokeError {
            function: task.function,
            rank: task.rank,
            reason,
        })
    }
}
