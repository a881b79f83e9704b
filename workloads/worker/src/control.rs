//! The platform's control API: asynchronous invocations as Lambda's, workflow
//! executions as Step Functions'.

use async_trait::async_trait;
use epochcost_systems::{Invoke, Result, SystemError, Task};
use reqwest::{Client, RequestBuilder};
use serde_json::json;

/// A client of the control API.
pub struct Control {
    endpoint: String,
    client: Client,
}

impl Control {
    /// Of the API at `endpoint`.
    pub fn new(endpoint: &str) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            client: Client::new(),
        }
    }

    async fn send(&self, request: RequestBuilder, function: &str) -> Result<()> {
        let failed = |reason: String| SystemError::Invoke {
            function: function.to_owned(),
            reason,
        };
        let response = request
            .send()
            .await
            .map_err(|error| failed(error.to_string()))?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let text = response.text().await.unwrap_or_default();
        Err(failed(format!("{status}: {text}")))
    }
}

#[async_trait]
impl Invoke for Control {
    async fn forget(&self, task: Task) -> Result<()> {
        let url = format!(
            "{}/2015-03-31/functions/{}/invocations",
            self.endpoint, task.function
        );
        let request = self
            .client
            .post(url)
            .header("x-amz-invocation-type", "Event")
            .body(json(&task)?);
        self.send(request, &task.function).await
    }

    async fn start_workflow(&self, task: Task) -> Result<()> {
        let body = json!({
            "stateMachineArn": task.job.system,
            "name": format!("{}-{}-{}", task.job.trial, task.rank, task.epoch),
            "input": json(&task)?,
        });
        let request = self
            .client
            .post(&self.endpoint)
            .header("x-amz-target", "AWSStepFunctions.StartExecution")
            .header("content-type", "application/x-amz-json-1.0")
            .body(body.to_string());
        self.send(request, "the next execution of the workflow")
            .await
    }
}

fn json(task: &Task) -> Result<String> {
    serde_json::to_string(task).map_err(|error| SystemError::Invoke {
        function: task.function.clone(),
        reason: format!("the task cannot be written: {error}"),
    })
}
