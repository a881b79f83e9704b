//! The platform's control API: invocations as Lambda's, workflow executions as
//! Step Functions'.

use async_trait::async_trait;
use epochcost_systems::{
    ExecutionStatus, Invoke, Outcome, Result, SystemError, Task, execution_name,
};
use reqwest::{Client, RequestBuilder, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A client of the control API.
pub struct Control {
    endpoint: String,
    client: Client,
}

/// The part of StartExecution's answer that matters here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Started {
    execution_arn: String,
}

/// The parts of DescribeExecution's answer that matter here.
#[derive(Deserialize)]
struct Described {
    status: String,
    cause: Option<String>,
}

/// The part of a failed function's answer that matters here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FunctionError {
    error_message: String,
}

impl Control {
    /// Of the API at `endpoint`.
    pub fn new(endpoint: &str) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            client: Client::new(),
        }
    }

    async fn send(&self, request: RequestBuilder, function: &str) -> Result<Response> {
        let sent = request.send().await;
        let response = sent.map_err(|error| failed(function, error.to_string()))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = response.text().await.unwrap_or_default();
        Err(failed(function, format!("{status}: {text}")))
    }

    fn invocation(&self, task: &Task, kind: &str) -> Result<RequestBuilder> {
        let url = format!(
            "{}/2015-03-31/functions/{}/invocations",
            self.endpoint, task.function
        );
        let request = self.client.post(url).header("x-amz-invocation-type", kind);
        Ok(request.body(written(task)?))
    }

    async fn step_functions<A: DeserializeOwned>(
        &self,
        action: &str,
        body: Value,
        what: &str,
    ) -> Result<A> {
        let request = self
            .client
            .post(&self.endpoint)
            .header("x-amz-target", format!("AWSStepFunctions.{action}"))
            .header("content-type", "application/x-amz-json-1.0")
            .body(body.to_string());
        let response = self.send(request, what).await?;
        read(response, what).await
    }
}

#[async_trait]
impl Invoke for Control {
    async fn call(&self, task: Task) -> Result<Outcome> {
        let request = self.invocation(&task, "RequestResponse")?;
        let response = self.send(request, &task.function).await?;
        if response.headers().contains_key("x-amz-function-error") {
            let error: FunctionError = read(response, &task.function).await?;
            return Err(failed(&task.function, error.error_message));
        }
        read(response, &task.function).await
    }

    async fn forget(&self, task: Task) -> Result<()> {
        let request = self.invocation(&task, "Event")?;
        self.send(request, &task.function).await.map(drop)
    }

    async fn start_workflow(&self, task: Task) -> Result<String> {
        let body = json!({
            "stateMachineArn": task.job.system,
            "name": execution_name(&task),
            "input": written(&task)?,
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

fn failed(function: &str, reason: String) -> SystemError {
    SystemError::Invoke {
        function: function.to_owned(),
        reason,
    }
}

fn written(task: &Task) -> Result<String> {
    serde_json::to_string(task).map_err(|error| {
        failed(
            &task.function,
            format!("the task cannot be written: {error}"),
        )
    })
}

async fn read<A: DeserializeOwned>(response: Response, what: &str) -> Result<A> {
    let unreadable = |reason: String| failed(what, format!("its answer is unreadable: {reason}"));
    let body = response.bytes().await;
    let body = body.map_err(|error| unreadable(error.to_string()))?;
    serde_json::from_slice(&body).map_err(|error| unreadable(error.to_string()))
}
