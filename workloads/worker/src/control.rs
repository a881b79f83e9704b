//! Invocations by Lambda's API and workflow executions by Step Functions': those
//! services themselves, or the local platform's control API.

use std::env;

use async_trait::async_trait;
use bytes::Bytes;
use epochcost_channels::ChannelError;
use epochcost_channels::client::{Signer, https, plain_http};
use epochcost_systems::{
    ExecutionStatus, Invoke, Outcome, Result, SystemError, Task, execution_name,
};
use reqwest::{Client, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::environment::{Deployment, Platform};

/// Lambda's name in signatures.
const LAMBDA: &str = "lambda";
/// Step Functions' name in signatures.
const STATES: &str = "states";

/// A client of both services.
pub struct Control {
    /// Endpoint of Lambda.
    lambda: String,
    /// Endpoint of Step Functions.
    states: String,
    /// Deployed names and the signer, on AWS.
    deployed: Option<(Deployment, Signer)>,
    client: Client,
}

/// The used part of StartExecution's answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Started {
    execution_arn: String,
}

/// The used parts of DescribeExecution's answer.
#[derive(Deserialize)]
struct Described {
    status: String,
    cause: Option<String>,
}

/// The used part of a failed function's answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FunctionError {
    error_message: String,
}

impl Control {
    /// Makes a client of the platform's services.
    ///
    /// # Errors
    /// [`ChannelError`] when AWS' own settings in the environment are unusable.
    pub fn new(platform: &Platform) -> Result<Self, ChannelError> {
        // The services of AWS speak HTTPS unless a variable names another endpoint.
        let client = match platform {
            Platform::Local(_) => plain_http()?,
            Platform::Aws(_) => https()?,
        };
        Ok(match platform {
            Platform::Local(endpoint) => Self {
                lambda: endpoint.clone(),
                states: endpoint.clone(),
                deployed: None,
                client,
            },
            Platform::Aws(deployment) => Self {
                lambda: endpoint("LAMBDA", LAMBDA, &deployment.region),
                states: endpoint("SFN", STATES, &deployment.region),
                deployed: Some((
                    deployment.clone(),
                    Signer::from_environment(&deployment.region)?,
                )),
                client,
            },
        })
    }

    /// Returns the name under which the platform knows `function`.
    fn name<'a>(&'a self, function: &'a str) -> Result<&'a str> {
        match &self.deployed {
            None => Ok(function),
            Some((deployment, _)) => (deployment.functions.get(function))
                .map(String::as_str)
                .ok_or_else(|| SystemError::invoke(function, "it is not deployed")),
        }
    }

    /// Returns the name or ARN of the system's state machine.
    fn state_machine<'a>(&'a self, task: &'a Task) -> Result<&'a str> {
        match &self.deployed {
            None => Ok(&task.job.system),
            Some((deployment, _)) => (deployment.state_machine.as_deref())
                .ok_or_else(|| SystemError::invoke(&task.function, "no state machine is deployed")),
        }
    }

    /// Posts `body`, signed on AWS, and returns the answer if its status is a success.
    async fn send(
        &self,
        service: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: String,
        what: &str,
    ) -> Result<Response> {
        // The request; AWS' services take signed ones only.
        let body = Bytes::from(body);
        let mut request = self.client.post(url);
        match &self.deployed {
            None => {
                for (name, value) in headers {
                    request = request.header(*name, *value);
                }
            }
            Some((_, signer)) => {
                let signed = signer.headers(service, url, headers, body.clone());
                for (name, value) in signed
                    .await
                    .map_err(|error| SystemError::invoke(what, error.to_string()))?
                {
                    request = request.header(name, value);
                }
            }
        }
        // The answer, or the reason of a refusal.
        let sent = request.body(body).send().await;
        let response = sent.map_err(|error| SystemError::invoke(what, error.to_string()))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = response.text().await.unwrap_or_default();
        Err(SystemError::invoke(what, format!("{status}: {text}")))
    }

    /// Invokes the task's function; `kind` is `RequestResponse` or `Event`.
    async fn invoke(&self, task: &Task, kind: &str) -> Result<Response> {
        let name = self.name(&task.function)?;
        let url = format!("{}/2015-03-31/functions/{name}/invocations", self.lambda);
        let headers = [("x-amz-invocation-type", kind)];
        let body = written(task)?;
        self.send(LAMBDA, &url, &headers, body, &task.function)
            .await
    }

    /// Has the local platform break a server, by the number of the injected fault.
    ///
    /// # Errors
    /// [`SystemError::Invoke`] when the platform does not.
    pub async fn break_server(&self, fault: usize) -> Result<()> {
        let url = format!("{}/faults/{fault}", self.lambda);
        let sent = self.send(LAMBDA, &url, &[], String::new(), "a fault of a server");
        sent.await.map(drop)
    }

    /// Calls `action` of Step Functions' JSON protocol.
    async fn step_functions<A: DeserializeOwned>(
        &self,
        action: &str,
        body: Value,
        what: &str,
    ) -> Result<A> {
        let target = format!("AWSStepFunctions.{action}");
        let headers = [
            ("x-amz-target", target.as_str()),
            ("content-type", "application/x-amz-json-1.0"),
        ];
        let url = format!("{}/", self.states);
        let response = self.send(STATES, &url, &headers, body.to_string(), what);
        read(response.await?, what).await
    }

    /// Returns the input of an execution. On AWS the state machine needs the numbers
    /// of the mini-batches, which its definition cannot count.
    fn input(&self, task: &Task) -> Result<String> {
        if self.deployed.is_none() {
            return written(task);
        }
        let system = epochcost_systems::find(&task.job.system);
        let bound = system.map(|system| system.bind(&task.job)).transpose()?;
        let rounds = bound.map_or(1, |bound| bound.rounds());
        let mut input = json!(task);
        // The definition names the round of every input.
        input["round"] = json!(task.round);
        input["batches"] = task.minibatches(rounds).collect();
        Ok(input.to_string())
    }
}

/// Returns the endpoint of a service: that of the SDK's own variables in the
/// environment, or AWS'.
fn endpoint(variable: &str, service: &str, region: &str) -> String {
    let own = env::var(format!("AWS_ENDPOINT_URL_{variable}"));
    own.or_else(|_| env::var("AWS_ENDPOINT_URL"))
        .map(|endpoint| endpoint.trim_end_matches('/').to_owned())
        .unwrap_or_else(|_| {
            let china = if region.starts_with("cn-") { ".cn" } else { "" };
            format!("https://{service}.{region}.amazonaws.com{china}")
        })
}

#[async_trait]
impl Invoke for Control {
    async fn call(&self, task: Task) -> Result<Outcome> {
        let response = self.invoke(&task, "RequestResponse").await?;
        if response.headers().contains_key("x-amz-function-error") {
            let error: FunctionError = read(response, &task.function).await?;
            return Err(SystemError::invoke(&task.function, error.error_message));
        }
        read(response, &task.function).await
    }

    async fn forget(&self, task: Task) -> Result<()> {
        self.invoke(&task, "Event").await.map(drop)
    }

    async fn start_workflow(&self, task: Task) -> Result<String> {
        let body = json!({
            "stateMachineArn": self.state_machine(&task)?,
            "name": execution_name(&task),
            "input": self.input(&task)?,
        });
        let what = "an execution of the workflow";
        let started: Started = self.step_functions("StartExecution", body, what).await?;
        Ok(started.execution_arn)
    }

    async fn status(&self, execution: &str) -> Result<ExecutionStatus> {
        let body = json!({ "executionArn": execution });
        let described: Described = self
            .step_functions("DescribeExecution", body, execution)
            .await?;
        Ok(match described.status.as_str() {
            "RUNNING" => ExecutionStatus::Running,
            "SUCCEEDED" => ExecutionStatus::Succeeded,
            other => ExecutionStatus::Failed {
                reason: described.cause.unwrap_or_else(|| other.to_owned()),
            },
        })
    }
}

fn written(task: &Task) -> Result<String> {
    serde_json::to_string(task).map_err(|error| {
        SystemError::invoke(
            &task.function,
            format!("the task cannot be written: {error}"),
        )
    })
}

async fn read<A: DeserializeOwned>(response: Response, what: &str) -> Result<A> {
    let unreadable =
        |reason: String| SystemError::invoke(what, format!("its answer is unreadable: {reason}"));
    let body = response.bytes().await;
    let body = body.map_err(|error| unreadable(error.to_string()))?;
    serde_json::from_slice(&body).map_err(|error| unreadable(error.to_string()))
}
