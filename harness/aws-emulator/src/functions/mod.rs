//! Lambda's API over the local platform's sandboxes.

mod package;
mod routes;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use epochcost_platform::local::{
    FunctionConfig, FunctionLimits, InvocationLines, LocalFunction, LogSink,
};
use epochcost_spec::metering::report_line::Report;
use epochcost_systems::{Outcome, Task};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use uuid::Uuid;

use self::package::{Unpacked, unpack};
use crate::api::{ACCOUNT, Refusal};
use crate::backend::Backend;
use crate::endpoints::Endpoints;
use crate::meter::Meter;
use crate::metrics::MetricStore;

pub(crate) use self::routes::routes;

/// Parts of CreateFunction's request that this emulator reads.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Create {
    function_name: String,
    memory_size: u32,
    timeout: u64,
    code: Code,
    #[serde(default)]
    ephemeral_storage: Option<Storage>,
    #[serde(default)]
    environment: Variables,
    #[serde(default)]
    tags: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Code {
    #[serde(rename = "S3Bucket")]
    bucket: String,
    #[serde(rename = "S3Key")]
    key: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Storage {
    size: u32,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Variables {
    #[serde(default)]
    variables: BTreeMap<String, String>,
}

/// Deployed function.
pub(crate) struct Function {
    arn: String,
    memory_mb: u32,
    tags: BTreeMap<String, String>,
    function: LocalFunction,
}

impl Function {
    fn configuration(&self, name: &str) -> Value {
        json!({
            "FunctionName": name,
            "FunctionArn": self.arn,
            "MemorySize": self.memory_mb,
            "Runtime": "provided.al2023",
            "State": "Active",
            "LastUpdateStatus": "Successful",
        })
    }

    /// Runs one invocation.
    pub(crate) async fn run(&self, task: &Task, request_id: Uuid) -> Result<Outcome, String> {
        self.function.invoke(task, request_id).await
    }
}

/// All deployed functions.
pub(crate) struct FunctionStore {
    backend: Backend,
    limits: FunctionLimits,
    endpoints: OnceLock<Endpoints>,
    metrics: Arc<MetricStore>,
    meter: Arc<Meter>,
    functions: Mutex<HashMap<String, Arc<Function>>>,
    /// Workers by bucket and key; each package is unpacked once.
    workers: tokio::sync::Mutex<HashMap<(String, String), Arc<Unpacked>>>,
}

impl FunctionStore {
    pub(crate) fn new(backend: Backend, meter: Arc<Meter>) -> Self {
        Self {
            backend,
            limits: FunctionLimits::detect(),
            endpoints: OnceLock::new(),
            metrics: Arc::default(),
            meter,
            functions: Mutex::default(),
            workers: tokio::sync::Mutex::default(),
        }
    }

    /// Sets the endpoints that functions receive.
    pub(crate) fn set_endpoints(&self, endpoints: Endpoints) {
        // The emulator sets them once, before it serves any request.
        let _ = self.endpoints.set(endpoints);
    }

    /// Returns the metrics of every function that ever ran.
    pub(crate) fn metrics(&self) -> Arc<MetricStore> {
        self.metrics.clone()
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, Arc<Function>>> {
        self.functions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds a function by its name or its ARN.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<Function>, Refusal> {
        let name = name.rsplit(':').next().unwrap_or(name);
        self.locked().get(name).cloned().ok_or_else(|| {
            Refusal::new(
                "ResourceNotFoundException",
                format!("Function not found: {name}"),
            )
        })
    }

    /// Removes a function; its idle sandboxes end with it, and no other begins.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Refusal> {
        self.find(name)?;
        self.locked()
            .remove(name.rsplit(':').next().unwrap_or(name));
        Ok(())
    }

    /// Returns the worker of a package, and fetches and unpacks it the first time.
    async fn worker(&self, code: &Code) -> Result<Arc<Unpacked>, Refusal> {
        let refused = |reason: String| Refusal::new("InvalidParameterValueException", reason);
        let mut workers = self.workers.lock().await;
        let place = (code.bucket.clone(), code.key.clone());
        if let Some(known) = workers.get(&place) {
            return Ok(known.clone());
        }
        let package = self.backend.object(&code.bucket, &code.key).await;
        let package = package
            .map_err(|reason| refused(format!("Error occurred while GetObject: {reason}")))?;
        let unpacked = tokio::task::spawn_blocking(move || unpack(&package)).await;
        let unpacked = unpacked
            .map_err(|error| refused(error.to_string()))?
            .map_err(|error| refused(format!("Could not unzip uploaded file: {error}")))?;
        Ok(workers.entry(place).or_insert(Arc::new(unpacked)).clone())
    }

    async fn create(&self, request: Create, region: &str) -> Result<Value, Refusal> {
        let name = request.function_name.clone();
        if self.locked().contains_key(&name) {
            return Err(Refusal::new(
                "ResourceConflictException",
                format!("Function already exist: {name}"),
            ));
        }
        let worker = self.worker(&request.code).await?;
        let function = self.start(request, &worker.program, region).await?;
        let configuration = function.configuration(&name);
        self.locked().insert(name, Arc::new(function));
        Ok(configuration)
    }

    async fn start(
        &self,
        request: Create,
        program: &Path,
        region: &str,
    ) -> Result<Function, Refusal> {
        let name = &request.function_name;
        let mut environment: Vec<(String, String)> =
            request.environment.variables.into_iter().collect();
        environment.extend(self.lambda_environment(name, region));
        let config = FunctionConfig {
            program: program.to_path_buf(),
            memory_mb: request.memory_size,
            timeout: Duration::from_secs(request.timeout),
            storage_mb: request
                .ephemeral_storage
                .map_or(512, |storage| storage.size),
            environment,
        };
        let sink = self.log_sink(name, region, request.memory_size);
        let function = LocalFunction::start(&self.limits, config, sink)
            .await
            .map_err(|error| Refusal::new("ServiceException", error.to_string()))?;
        Ok(Function {
            arn: format!("arn:aws:lambda:{region}:{ACCOUNT}:function:{name}"),
            memory_mb: request.memory_size,
            tags: request.tags,
            function,
        })
    }

    /// Returns the variables that Lambda sets for a function: its region, its name
    /// and the keys of its role; and the endpoints of this cloud for its SDK.
    fn lambda_environment(&self, name: &str, region: &str) -> Vec<(String, String)> {
        let lambda = [
            ("AWS_REGION", region),
            ("AWS_DEFAULT_REGION", region),
            ("AWS_LAMBDA_FUNCTION_NAME", name),
            ("AWS_ACCESS_KEY_ID", "emulator"),
            ("AWS_SECRET_ACCESS_KEY", "emulator"),
            ("AWS_SESSION_TOKEN", "emulator"),
        ];
        let endpoints = self.endpoints.get().into_iter();
        let endpoints = endpoints.flat_map(Endpoints::variables);
        (lambda.into_iter().chain(endpoints))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// Returns a sink that counts invocations and puts their lines into the log, one
    /// invocation after another.
    fn log_sink(&self, name: &str, region: &str, memory_mb: u32) -> LogSink {
        let (sender, mut lines) = mpsc::unbounded_channel::<InvocationLines>();
        let (backend, group) = (self.backend.clone(), format!("/aws/lambda/{name}"));
        let (metrics, name, region) = (self.metrics.clone(), name.to_owned(), region.to_owned());
        let meter = self.meter.clone();
        let of_log = region.clone();
        tokio::spawn(async move {
            while let Some(lines) = lines.recv().await {
                if let Err(error) = backend.put_lines(&of_log, &group, &lines).await {
                    eprintln!("failed to put lines into {group}: {error}");
                }
            }
        });
        Arc::new(move |lines: InvocationLines| {
            let mut reports = lines.lines.iter().rev().map(|line| line.parse());
            let report: Option<Report> = reports.find_map(Result::ok);
            if let Some(report) = report {
                let gb_s = report.billed_ms as f64 / 1e3 * f64::from(memory_mb) / 1024.0;
                meter.charge("lambda_gb_second", gb_s);
                meter.charge("lambda_request", 1.0);
                metrics.add(&region, &name, (lines.started_s, lines.ended_s), &report);
            }
            // The receiver ends with the last sender.
            let _ = sender.send(lines);
        })
    }
}
