//! Functions of the local platform for other programs: a stand-in for Lambda deploys
//! them one by one, without a trial.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use epochcost_spec::rows::sandbox::Account;
use epochcost_systems::{Outcome, Task};
use uuid::Uuid;

use super::account::{Admission, Caller};
use super::clock::TrialClock;
use super::collector::Collector;
use super::host::{Host, LogSink};
use super::lambda::{FunctionSpec, Lambda};
use super::limits::Limits;
use super::runtime_api::RuntimeApi;

/// Limits on CPU, memory and storage that this machine can enforce; detected
/// once and shared by all functions of a program.
#[derive(Clone, Debug)]
pub struct FunctionLimits(Arc<Limits>);

impl FunctionLimits {
    /// Detects which limits this machine can enforce.
    pub fn detect() -> Self {
        Self(Arc::new(Limits::detect()))
    }
}

/// Configuration of a function, as in Lambda's `CreateFunction`.
#[derive(Clone, Debug)]
pub struct FunctionConfig {
    /// Path of the worker binary.
    pub program: PathBuf,
    /// Memory size, MB.
    pub memory_mb: u32,
    /// Time limit of an invocation.
    pub timeout: Duration,
    /// Size of `/tmp`, MB.
    pub storage_mb: u32,
    /// Environment variables, names and values.
    pub environment: Vec<(String, String)>,
}

/// A function that is invoked asynchronously or waited for, in sandboxes that are
/// started on demand and kept warm. Dropping it ends its idle sandboxes.
pub struct LocalFunction(Lambda);

impl LocalFunction {
    /// Creates a function under the limits of a new account. No sandbox runs yet;
    /// `logs` receives the log lines of every invocation that ends.
    ///
    /// # Errors
    /// When the Runtime API finds no free port on the loopback interface.
    pub async fn start(
        limits: &FunctionLimits,
        config: FunctionConfig,
        logs: LogSink,
    ) -> std::io::Result<Self> {
        let host = Arc::new(Host {
            root: config.program.parent().map(Path::to_owned),
            program: config.program,
            environment: Vec::new(),
            limits: limits.0.clone(),
            collector: Arc::new(Collector::default()),
            clock: TrialClock::start(),
            logs: Some(logs),
            ends: Default::default(),
        });
        let api = RuntimeApi::start().await?;
        let spec = FunctionSpec {
            memory_mb: config.memory_mb,
            function_memory_mb: Default::default(),
            timeout: config.timeout,
            storage_mb: config.storage_mb,
            environment: config.environment,
        };
        let admission = Admission::new(Account::default());
        Ok(Self(Lambda::new(
            host,
            api,
            spec,
            admission,
            Caller::Events,
        )))
    }

    /// Runs one invocation under `request_id`, and tries again as Lambda's queue
    /// does where the account refuses it.
    ///
    /// # Errors
    /// The reason of the failure, as Lambda reports it.
    pub async fn invoke(&self, task: &Task, request_id: Uuid) -> Result<Outcome, String> {
        self.0.serve(task, request_id).await
    }
}
