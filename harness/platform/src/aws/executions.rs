//! Executions of a trial's state machine.

use std::collections::BTreeSet;
use std::iter::successors;
use std::time::Duration;

use epochcost_aws::deployment;
use epochcost_aws::invoke::{self, Execution};
use epochcost_systems::{State, Task, execution_name, named, states};
use tokio::time::{Instant, sleep};

use super::context::{LogTail, POLL_INTERVAL, Trial};
use super::progress::WorkerProgress;
use super::unusable;
use crate::{PlatformError, Progress};

/// Time for which Step Functions may not know an execution that was started: its
/// answers are eventually consistent ("DescribeExecution").
const PATIENCE: Duration = Duration::from_secs(20);

/// The state machine of a trial.
struct Machine {
    name: String,
    states: Vec<State>,
    /// Executions per peer and epoch.
    rounds: usize,
}

impl Machine {
    fn of(trial: &Trial<'_>) -> Result<Self, PlatformError> {
        let (scope, job) = (&trial.aws.scope, trial.job());
        let bound = trial.system.bind(job).map_err(unusable)?;
        Ok(Self {
            name: deployment::state_machine_name(scope, &job.system, trial.place),
            states: trial.training.states().map_err(unusable)?,
            rounds: bound.rounds(),
        })
    }

    /// Returns the invocations of the execution for a task.
    fn invocations(&self, task: &Task) -> usize {
        let batches = task.minibatches(self.rounds).len();
        let invoked = self.states.iter().map(|state| state.invocations(batches));
        invoked.sum::<u64>() as usize
    }

    /// Returns the ARN of the execution for a task.
    fn execution(&self, trial: &Trial<'_>, task: &Task) -> String {
        let name = format!("execution:{}:{}", self.name, execution_name(task));
        trial.aws.scope.arn("states", &name)
    }
}

/// Starts an execution of every peer and follows those that each starts for its
/// next epoch. Returns the state transitions of those that succeeded, and adds their
/// invocations to `tail`.
pub(super) async fn follow(
    trial: &Trial<'_>,
    tail: &mut LogTail,
    progress: &dyn Progress,
) -> Result<(WorkerProgress, u64), PlatformError> {
    let machine = Machine::of(trial)?;
    let clients = &trial.aws.clients;
    let Some(function) = machine.states.first().map(State::function) else {
        return Ok((WorkerProgress::Ended, 0));
    };
    let arn = (trial.aws.scope).arn("states", &format!("stateMachine:{}", machine.name));
    let mut running = Vec::new();
    for rank in 0..trial.job().workers {
        let task = trial.task(function, rank);
        let input = states::input(&task, machine.rounds).to_string();
        let arn = invoke::execute(clients, &arn, &execution_name(&task), &input).await?;
        running.push((task, arn));
    }
    let mut transitions = 0;
    while let Some((task, arn)) = running.pop() {
        match invoke::describe_execution(clients, &arn).await? {
            Execution::Succeeded => {
                transitions += invoke::transitions(clients, &arn).await?;
                tail.known += machine.invocations(&task);
                running.extend(next(trial, &machine, task).await?);
            }
            Execution::Failed(reason) => {
                let (rank, epoch) = (task.rank, task.epoch);
                let text = format!("the workflow of peer {rank} failed in epoch {epoch}: {reason}");
                return Ok((WorkerProgress::Failed(text), transitions));
            }
            Execution::Running | Execution::Absent => {
                running.insert(0, (task, arn));
                if tail.is_over() {
                    let running = running.iter();
                    let running: BTreeSet<_> = running
                        .map(|(task, _)| ("workflow".to_owned(), task.rank))
                        .collect();
                    return Ok((WorkerProgress::Running(named(running.iter())), transitions));
                }
                sleep(POLL_INTERVAL / 2).await;
                tail.poll(trial, progress).await?;
            }
        }
    }
    Ok((WorkerProgress::Ended, transitions))
}

/// Returns the task and execution that the last state of a task's execution started;
/// `None` after the last round, or where training ended early.
async fn next(
    trial: &Trial<'_>,
    machine: &Machine,
    task: Task,
) -> Result<Option<(Task, String)>, PlatformError> {
    let Some(next) = task.next_round(machine.rounds) else {
        return Ok(None);
    };
    let (arn, since) = (machine.execution(trial, &next), Instant::now());
    while invoke::describe_execution(&trial.aws.clients, &arn).await? == Execution::Absent {
        if since.elapsed() > PATIENCE {
            return Ok(None);
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(Some((next, arn)))
}

/// Returns the state transitions of the executions that workers on instances started,
/// one per worker, epoch and round, and adds the invocations of those that succeeded to
/// `tail`.
pub(super) async fn count(trial: &Trial<'_>, tail: &mut LogTail) -> Result<u64, PlatformError> {
    let machine = Machine::of(trial)?;
    let clients = &trial.aws.clients;
    let Some(function) = machine.states.first().map(State::function) else {
        return Ok(0);
    };
    let mut transitions = 0;
    for rank in 0..trial.job().workers {
        let first = trial.task(function, rank);
        let tasks = successors(Some(first), |task| task.next_round(machine.rounds));
        for task in tasks {
            let arn = machine.execution(trial, &task);
            let execution = invoke::describe_execution(clients, &arn).await?;
            if execution != Execution::Absent {
                transitions += invoke::transitions(clients, &arn).await?;
            }
            if execution == Execution::Succeeded {
                tail.known += machine.invocations(&task);
            }
        }
    }
    Ok(transitions)
}
