//! Runs a job to its end over whatever can start functions.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures_util::future::{BoxFuture, try_join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use thiserror::Error;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::{Job, Launch, Outcome, State, System, SystemError, Task, workflow};

/// Why an invocation did not end well, as its caller sees it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{function} of worker {rank} failed: {reason}")]
pub struct InvokeError {
    /// The function.
    pub function: String,
    /// The worker it worked for.
    pub rank: usize,
    /// What the platform says.
    pub reason: String,
}

/// Starts functions, or instance processes, and waits for them.
#[async_trait]
pub trait Functions: Send + Sync {
    /// Invokes the task's function and waits for its answer.
    async fn invoke(&self, task: Task) -> Result<Outcome, InvokeError>;
}

/// Work that a running function asked for and does not wait for.
#[derive(Clone, Debug, PartialEq)]
pub enum FollowUp {
    /// An asynchronous invocation.
    Invocation(Task),
    /// An execution of the peer's state machine at the task's epoch.
    Workflow(Task),
}

/// What it took to run a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Driven {
    /// Functions invoked.
    pub invocations: u64,
    /// State transitions of workflows.
    pub transitions: u64,
}

struct Driver<'a> {
    functions: &'a dyn Functions,
    states: Vec<State>,
    invocations: AtomicU64,
    transitions: AtomicU64,
}

impl Driver<'_> {
    async fn invoke(&self, task: Task) -> Result<(), InvokeError> {
        self.invocations.fetch_add(1, Ordering::Relaxed);
        self.functions.invoke(task).await.map(|_| ())
    }

    async fn execute(&self, task: Task) -> Result<(), InvokeError> {
        workflow::execute(&self.states, &task, self.functions).await?;
        let batches = task.job.batches_per_worker;
        let sum = |count: fn(&State, usize) -> u64| -> u64 {
            self.states.iter().map(|state| count(state, batches)).sum()
        };
        self.invocations
            .fetch_add(sum(State::invocations), Ordering::Relaxed);
        self.transitions
            .fetch_add(sum(State::transitions), Ordering::Relaxed);
        Ok(())
    }

    async fn follow(&self, follow_up: FollowUp) -> Result<(), InvokeError> {
        match follow_up {
            FollowUp::Invocation(task) => self.invoke(task).await,
            FollowUp::Workflow(task) => self.execute(task).await,
        }
    }
}

/// Why a job could not be run to its end.
#[derive(Debug, Error)]
pub enum DriveError {
    /// The job's settings are not its system's.
    #[error(transparent)]
    System(#[from] SystemError),
    /// An invocation failed.
    #[error(transparent)]
    Invoke(#[from] InvokeError),
}

/// Starts what `system` launches for `job`, then everything that running
/// functions ask for, until nothing is left.
///
/// `follow_ups` receives what running functions ask for; a request must arrive
/// before the function that made it ends.
///
/// # Errors
/// The first invocation that failed; the others are dropped.
pub async fn drive(
    system: &dyn System,
    job: &Job,
    functions: &dyn Functions,
    mut follow_ups: UnboundedReceiver<FollowUp>,
) -> Result<Driven, DriveError> {
    let task = |function: &str, rank: usize| Task {
        job: job.clone(),
        function: function.into(),
        rank,
        epoch: 0,
        batch: None,
    };
    let (first, states): (Vec<Task>, Vec<State>) = match system.launch(job)? {
        Launch::Workers(workers) => (
            workers
                .into_iter()
                .map(|(function, rank)| task(function, rank))
                .collect(),
            vec![],
        ),
        Launch::Workflow { bootstrap, states } => (
            (0..job.workers).map(|rank| task(bootstrap, rank)).collect(),
            states,
        ),
    };
    let is_workflow = !states.is_empty();
    let driver = Driver {
        functions,
        states,
        invocations: AtomicU64::new(0),
        transitions: AtomicU64::new(0),
    };
    let mut running: FuturesUnordered<BoxFuture<'_, Result<(), InvokeError>>> =
        FuturesUnordered::new();
    if is_workflow {
        try_join_all(first.iter().map(|task| driver.invoke(task.clone()))).await?;
        for task in first {
            running.push(Box::pin(driver.execute(task)));
        }
    } else {
        for task in first {
            running.push(Box::pin(driver.invoke(task)));
        }
    }
    loop {
        while let Ok(follow_up) = follow_ups.try_recv() {
            running.push(Box::pin(driver.follow(follow_up)));
        }
        tokio::select! {
            biased;
            Some(follow_up) = follow_ups.recv() => {
                running.push(Box::pin(driver.follow(follow_up)));
            }
            ended = running.next() => match ended {
                Some(result) => result?,
                None => break,
            },
        }
    }
    Ok(Driven {
        invocations: driver.invocations.load(Ordering::Relaxed),
        transitions: driver.transitions.load(Ordering::Relaxed),
    })
}
