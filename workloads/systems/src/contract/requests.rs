//! What running functions ask of the platform, and how they learn the result.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::{Invoke, InvokeError, Outcome, Result, SystemError, Task};

/// Status of an execution of a state machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionStatus {
    /// The execution is in progress.
    Running,
    /// The execution went through all states.
    Succeeded,
    /// A state failed.
    Failed {
        /// The state that failed, and the cause.
        reason: String,
    },
}

/// Work that a running function asked for.
#[derive(Debug)]
pub enum FollowUp {
    /// An invocation whose caller waits for the answer.
    Call {
        /// The task to invoke.
        task: Task,
        /// Receives how the invocation ended.
        answer: oneshot::Sender<Result<Outcome, InvokeError>>,
    },
    /// An asynchronous invocation.
    Invocation(Task),
    /// An execution of the system's state machine.
    Workflow {
        /// Input of the execution.
        task: Task,
        /// The execution's name.
        name: String,
    },
}

type Executions = Arc<Mutex<HashMap<String, ExecutionStatus>>>;

fn locked(executions: &Executions) -> MutexGuard<'_, HashMap<String, ExecutionStatus>> {
    executions.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The side of those who ask. What is asked for arrives before this returns,
/// so before the function that asked can end.
#[derive(Clone, Debug)]
pub struct Requests {
    follow_ups: UnboundedSender<FollowUp>,
    executions: Executions,
}

/// The side of the caller that [drives](crate::drive) the job.
#[derive(Debug)]
pub struct FollowUps {
    pub(crate) received: UnboundedReceiver<FollowUp>,
    pub(crate) ended: Ended,
}

/// Statuses of ended executions.
#[derive(Clone, Debug)]
pub(crate) struct Ended(Executions);

impl Ended {
    pub(crate) fn note(&self, name: &str, result: &Result<(), InvokeError>) {
        let status = match result {
            Ok(()) => ExecutionStatus::Succeeded,
            Err(error) => ExecutionStatus::Failed {
                reason: error.to_string(),
            },
        };
        locked(&self.0).insert(name.to_owned(), status);
    }
}

/// Creates both sides of a trial's requests.
pub fn requests() -> (Requests, FollowUps) {
    let (follow_ups, received) = unbounded_channel();
    let executions = Executions::default();
    let asking = Requests {
        follow_ups,
        executions: executions.clone(),
    };
    let driving = FollowUps {
        received,
        ended: Ended(executions),
    };
    (asking, driving)
}

/// The name of the execution with this input: one per peer, epoch and round.
pub fn execution_name(task: &Task) -> String {
    let name = format!("{}-{}-{}", task.job.trial, task.rank, task.epoch);
    match task.round {
        0 => name,
        round => format!("{name}-{round}"),
    }
}

impl Requests {
    fn send(&self, function: String, follow_up: FollowUp) -> Result<()> {
        let sent = self.follow_ups.send(follow_up);
        sent.map_err(|_| SystemError::invoke(function, "the trial is over"))
    }
}

#[async_trait]
impl Invoke for Requests {
    async fn call(&self, task: Task) -> Result<Outcome> {
        let function = task.function.clone();
        let failed = |reason: String| SystemError::invoke(function.clone(), reason);
        let (answer, answered) = oneshot::channel();
        self.send(function.clone(), FollowUp::Call { task, answer })?;
        let ended = answered
            .await
            .map_err(|_| failed("the trial is over".into()))?;
        ended.map_err(|error| failed(error.reason))
    }

    async fn forget(&self, task: Task) -> Result<()> {
        self.send(task.function.clone(), FollowUp::Invocation(task))
    }

    async fn start_workflow(&self, task: Task) -> Result<String> {
        let name = execution_name(&task);
        let running = ExecutionStatus::Running;
        let known = locked(&self.executions).insert(name.clone(), running);
        if known.is_some() {
            // As Step Functions answers: a name stands for one execution.
            let reason = format!("ExecutionAlreadyExists: {name}");
            return Err(SystemError::invoke(task.function, reason));
        }
        let function = task.function.clone();
        let asked = name.clone();
        self.send(function, FollowUp::Workflow { task, name: asked })?;
        Ok(name)
    }

    async fn status(&self, execution: &str) -> Result<ExecutionStatus> {
        let known = locked(&self.executions).get(execution).cloned();
        known.ok_or_else(|| SystemError::invoke(execution, "ExecutionDoesNotExist"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::Map;

    use super::*;
    use crate::{Fidelity, testing};

    fn task() -> Task {
        Task {
            job: testing::job("p2p_lambda", Fidelity::Paper, 2, &Map::new()).unwrap(),
            function: "compute_gradients".into(),
            rank: 1,
            epoch: 2,
            batch: None,
            round: 0,
        }
    }

    #[tokio::test]
    async fn a_caller_is_told_how_the_call_ended() {
        let (requests, mut follow_ups) = requests();
        let ends = [
            Ok(Outcome::Finished),
            Err(InvokeError {
                function: "compute_gradients".into(),
                rank: 1,
                reason: "out of memory".into(),
            }),
        ];
        for end in ends {
            let asking = requests.clone();
            let call = tokio::spawn(async move { asking.call(task()).await });
            let Some(FollowUp::Call {
                task: asked,
                answer,
            }) = follow_ups.received.recv().await
            else {
                panic!("nothing was asked for");
            };
            assert_eq!(asked, task());
            answer.send(end.clone()).unwrap();
            match (call.await.unwrap(), end) {
                (Ok(answered), Ok(outcome)) => assert_eq!(answered, outcome),
                (Err(error), Err(_)) => assert!(error.to_string().ends_with("out of memory")),
                (answered, _) => panic!("{answered:?}"),
            }
        }
        drop(follow_ups);
        let error = requests.call(task()).await.unwrap_err();
        assert!(error.to_string().ends_with("the trial is over"));
    }

    #[tokio::test]
    async fn an_execution_runs_once_and_ends() {
        let (requests, follow_ups) = requests();
        let name = requests.start_workflow(task()).await.unwrap();
        assert_eq!(name, "trial-1-2");
        let status = requests.status(&name).await.unwrap();
        assert_eq!(status, ExecutionStatus::Running);
        assert!(requests.start_workflow(task()).await.is_err());
        follow_ups.ended.note(&name, &Ok(()));
        let status = requests.status(&name).await.unwrap();
        assert_eq!(status, ExecutionStatus::Succeeded);
        assert!(requests.status("another").await.is_err());
    }
}
