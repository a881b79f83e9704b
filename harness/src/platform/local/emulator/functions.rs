//! Lambda's API over the local platform's sandboxes.

use std::collections::{BTreeMap, HashMap};
use std::io::{Cursor, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use epochcost_systems::{Outcome, Task};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::backend::Backend;
use super::metrics::MetricStore;
use super::{ACCOUNT, Endpoints, Refusal, header, region};
use crate::platform::local::account::{Admission, Caller};
use crate::platform::local::collector::Collector;
use crate::platform::local::host::{Host, InvocationLines};
use crate::platform::local::lambda::{FunctionSpec, Lambda};
use crate::platform::local::limits::Limits;
use crate::platform::local::runtime_api::RuntimeApi;
use crate::rows::sandbox::Account;

type Answer = Result<Response, Refusal>;

/// The parts of CreateFunction's request that matter here.
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

/// A deployed function.
pub(super) struct Function {
    arn: String,
    memory_mb: u32,
    tags: BTreeMap<String, String>,
    lambda: Lambda,
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

    /// One invocation with a task of the system's own words.
    pub(super) async fn run(&self, task: &Task, request_id: Uuid) -> Result<Outcome, String> {
        self.lambda.serve(task, request_id).await
    }
}

/// Every deployed function.
pub(super) struct FunctionStore {
    backend: Backend,
    limits: Arc<Limits>,
    endpoints: OnceLock<Endpoints>,
    metrics: Arc<MetricStore>,
    functions: Mutex<HashMap<String, Arc<Function>>>,
    /// Workers by bucket and key, unpacked once.
    workers: tokio::sync::Mutex<HashMap<(String, String), Arc<Unpacked>>>,
}

struct Unpacked {
    program: PathBuf,
    _directory: TempDir,
}

impl FunctionStore {
    pub(super) fn new(backend: Backend) -> Self {
        Self {
            backend,
            limits: Arc::new(Limits::detect()),
            endpoints: OnceLock::new(),
            metrics: Arc::default(),
            functions: Mutex::default(),
            workers: tokio::sync::Mutex::default(),
        }
    }

    /// Where this cloud is, for the functions themselves.
    pub(super) fn set_endpoints(&self, endpoints: Endpoints) {
        // They are set once, by the emulator whose they are.
        let _ = self.endpoints.set(endpoints);
    }

    /// What CloudWatch knows of every function that ever ran.
    pub(super) fn metrics(&self) -> Arc<MetricStore> {
        self.metrics.clone()
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, Arc<Function>>> {
        self.functions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A function by its name or its ARN.
    pub(super) fn find(&self, name: &str) -> Result<Arc<Function>, Refusal> {
        let name = name.rsplit(':').next().unwrap_or(name);
        self.locked().get(name).cloned().ok_or_else(|| {
            Refusal::new(
                "ResourceNotFoundException",
                format!("Function not found: {name}"),
            )
        })
    }

    /// The worker of a package, unpacked.
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
        program: &FilePath,
        region: &str,
    ) -> Result<Function, Refusal> {
        let name = &request.function_name;
        let host = Arc::new(Host {
            program: program.to_path_buf(),
            environment: Vec::new(),
            limits: self.limits.clone(),
            collector: Arc::new(Collector::default()),
            logs: Some(self.log_sink(name, region)),
            ends: Default::default(),
        });
        let api = RuntimeApi::start()
            .await
            .map_err(|error| Refusal::new("ServiceException", error.to_string()))?;
        let mut environment: Vec<(String, String)> =
            request.environment.variables.into_iter().collect();
        environment.extend(self.of_lambda(name, region));
        let spec = FunctionSpec {
            memory_mb: request.memory_size,
            timeout: Duration::from_secs(request.timeout),
            storage_mb: request
                .ephemeral_storage
                .map_or(512, |storage| storage.size),
            environment,
        };
        let admission = Admission::new(Account::default());
        Ok(Function {
            arn: format!("arn:aws:lambda:{region}:{ACCOUNT}:function:{name}"),
            memory_mb: request.memory_size,
            tags: request.tags,
            lambda: Lambda::new(host, api, spec, admission, Caller::Events),
        })
    }

    /// What Lambda sets for a function in an account: its region and the keys
    /// of its role; and, by the SDK's own variables, where this cloud is.
    fn of_lambda(&self, name: &str, region: &str) -> Vec<(String, String)> {
        let of_lambda = [
            ("AWS_REGION", region),
            ("AWS_DEFAULT_REGION", region),
            ("AWS_LAMBDA_FUNCTION_NAME", name),
            ("AWS_ACCESS_KEY_ID", "emulator"),
            ("AWS_SECRET_ACCESS_KEY", "emulator"),
            ("AWS_SESSION_TOKEN", "emulator"),
        ];
        let endpoints = self.endpoints.get().into_iter();
        let endpoints = endpoints.flat_map(Endpoints::variables);
        (of_lambda.into_iter().chain(endpoints))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// Counts invocations, and puts their lines into the log, one after another.
    fn log_sink(&self, name: &str, region: &str) -> crate::platform::local::host::LogSink {
        let (sender, mut lines) = mpsc::unbounded_channel::<InvocationLines>();
        let (backend, group) = (self.backend.clone(), format!("/aws/lambda/{name}"));
        let (metrics, name, region) = (self.metrics.clone(), name.to_owned(), region.to_owned());
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
            if let Some(report) = reports.find_map(Result::ok) {
                metrics.ran(&region, &name, (lines.started_s, lines.ended_s), &report);
            }
            // The receiver ends with the last sender.
            let _ = sender.send(lines);
        })
    }
}

/// Writes the package's `bootstrap` into a directory of its own.
fn unpack(package: &[u8]) -> std::io::Result<Unpacked> {
    let directory = TempDir::with_prefix("epochcost-function-")?;
    let mut archive = zip::ZipArchive::new(Cursor::new(package)).map_err(std::io::Error::other)?;
    let mut file = archive
        .by_name("bootstrap")
        .map_err(std::io::Error::other)?;
    let program = directory.path().join("bootstrap");
    let mode = file.unix_mode().unwrap_or(0o644);
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    let mut written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode & 0o777)
        .open(&program)?;
    std::io::Write::write_all(&mut written, &content)?;
    Ok(Unpacked {
        program,
        _directory: directory,
    })
}

fn answered(status: StatusCode, body: Value) -> Response {
    (
        status,
        [("content-type", "application/json")],
        body.to_string(),
    )
        .into_response()
}

pub(super) async fn create(
    State(store): State<Arc<FunctionStore>>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let request = serde_json::from_slice(&body)
        .map_err(|error| Refusal::new("InvalidParameterValueException", error.to_string()))?;
    let created = store.create(request, &region(&headers)).await?;
    Ok(answered(StatusCode::CREATED, created))
}

pub(super) async fn list(State(store): State<Arc<FunctionStore>>, headers: HeaderMap) -> Response {
    let in_region = format!(":{}:", region(&headers));
    let functions: Vec<Value> = (store.locked().iter())
        .filter(|(_, function)| function.arn.contains(&in_region))
        .map(|(name, function)| function.configuration(name))
        .collect();
    answered(StatusCode::OK, json!({ "Functions": functions }))
}

pub(super) async fn configuration(
    State(store): State<Arc<FunctionStore>>,
    Path(name): Path<String>,
) -> Answer {
    Ok(answered(
        StatusCode::OK,
        store.find(&name)?.configuration(&name),
    ))
}

pub(super) async fn remove(
    State(store): State<Arc<FunctionStore>>,
    Path(name): Path<String>,
) -> Answer {
    store.find(&name)?;
    // Its idle sandboxes end with it.
    store.locked().remove(&name);
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn tags(
    State(store): State<Arc<FunctionStore>>,
    Path(arn): Path<String>,
) -> Answer {
    let function = store.find(&arn)?;
    Ok(answered(StatusCode::OK, json!({ "Tags": function.tags })))
}

/// Nothing is repeated here anyway.
pub(super) async fn event_config(
    State(store): State<Arc<FunctionStore>>,
    Path(name): Path<String>,
) -> Answer {
    let function = store.find(&name)?;
    let answer = json!({ "FunctionArn": function.arn, "MaximumRetryAttempts": 0 });
    Ok(answered(StatusCode::OK, answer))
}

/// How often Lambda's queue delivers an event: once at least. More only where
/// a test asks for it.
fn deliveries(headers: &HeaderMap) -> usize {
    let asked = header(headers, "x-emulator-deliveries");
    asked.and_then(|count| count.parse().ok()).unwrap_or(1)
}

pub(super) async fn invoke(
    State(store): State<Arc<FunctionStore>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let function = store.find(&name)?;
    let task: Task = serde_json::from_slice(&body).map_err(|error| {
        let reason = format!("Could not parse request body: {error}");
        Refusal::new("InvalidRequestContentException", reason)
    })?;
    let request_id = Uuid::new_v4();
    let id = [("x-amzn-requestid", request_id.to_string())];
    match header(&headers, "x-amz-invocation-type") {
        Some("Event") => {
            for _ in 0..deliveries(&headers) {
                let (function, task) = (function.clone(), task.clone());
                tokio::spawn(async move { function.run(&task, request_id).await });
            }
            Ok((StatusCode::ACCEPTED, id).into_response())
        }
        _ => Ok(match function.run(&task, request_id).await {
            Ok(outcome) => (id, json!(outcome).to_string()).into_response(),
            Err(reason) => (
                id,
                [("x-amz-function-error", "Unhandled")],
                json!({ "errorMessage": reason }).to_string(),
            )
                .into_response(),
        }),
    }
}
