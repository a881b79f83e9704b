//! Runs a job to its end over whatever can start functions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::future::{BoxFuture, try_join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use thiserror::Error;

use crate::contract::requests::Ended;
use crate::contract::running::Running;
use crate::contract::workflow;
use crate::{FollowUp, FollowUps, Host, Job, Launch, Outcome, State, System, SystemError, Task};

/// Why an invocation did not end well, as its caller sees it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{function} of worker {rank} failed: {reason}")]
pub struct InvokeError {
    /// The function.
    pub function: String,
    /// The worker it worked for.
    pub rank: usize,
    /// The platform's error message.
    pub reason: String,
}

/// Starts functions, or instance processes, and waits for them.
#[async_trait]
pub trait Functions: Send + Sync {
    /// Invokes the task's function and waits for its answer.
    async fn invoke(&self, task: Task) -> Result<Outcome, InvokeError>;

    /// Returns how many iterations of an inline Map state run at the same time;
    /// without a limit by default.
    fn map_concurrency(&self) -> usize {
        usize::MAX
    }

    /// Returns the number of workers that are run by running this one: 1 by default, 0 where
    /// another one stands for it.
    fn stands_for(&self, _rank: usize) -> u64 {
        1
    }
}

/// Functions and instances of one trial, each where its system wants it.
pub struct ByHost<F, I> {
    /// The system that the functions belong to.
    pub system: &'static dyn System,
    /// Runs those on [`Host::Function`].
    pub functions: F,
    /// Runs those on [`Host::Instance`].
    pub instances: I,
    /// Those that have begun and not ended.
    pub running: Running,
}

#[async_trait]
impl<F: Functions, I: Functions> Functions for ByHost<F, I> {
    async fn invoke(&self, task: Task) -> Result<Outcome, InvokeError> {
        let _running = self.running.begin(&task);
        match self.system.deployment().host_of(&task.function) {
            Host::Function => self.functions.invoke(task).await,
            Host::Instance => self.instances.invoke(task).await,
        }
    }

    fn map_concurrency(&self) -> usize {
        self.functions.map_concurrency()
    }

    fn stands_for(&self, rank: usize) -> u64 {
        self.functions.stands_for(rank)
    }
}

/// Work that was done to run a job.
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
    /// Executions per peer and epoch.
    rounds: usize,
    /// Whether executions are the trial itself, so that one that fails ends
    /// it; otherwise, the worker that started one polls its status.
    is_workflow: bool,
    /// Whether the trial goes on where a peer's execution fails.
    survives: bool,
    /// Last execution of each peer of a trial that goes on, in the order of their ends: why it
    /// failed, if it did.
    peers: Mutex<Vec<(usize, Option<InvokeError>)>>,
    ended: Ended,
    invocations: AtomicU64,
    transitions: AtomicU64,
}

impl Driver<'_> {
    async fn invoke(&self, task: Task) -> Result<Outcome, InvokeError> {
        let alike = self.functions.stands_for(task.rank);
        self.invocations.fetch_add(alike, Ordering::Relaxed);
        self.functions.invoke(task).await
    }

    async fn execute(&self, task: Task) -> Result<(), InvokeError> {
        let batches = task.minibatches(self.rounds);
        workflow::execute(&self.states, &task, batches.clone(), self.functions).await?;
        let batches = batches.len();
        let alike = self.functions.stands_for(task.rank);
        let sum = |count: fn(&State, usize) -> u64| -> u64 {
            let of_states = self.states.iter().map(|state| count(state, batches));
            alike * of_states.sum::<u64>()
        };
        self.invocations
            .fetch_add(sum(State::invocations), Ordering::Relaxed);
        self.transitions
            .fetch_add(sum(State::transitions), Ordering::Relaxed);
        Ok(())
    }

    /// Runs an execution of the trial itself. One that fails ends the trial, unless the system
    /// goes on without the peer.
    async fn execute_peer(&self, task: Task) -> Result<(), InvokeError> {
        let rank = task.rank;
        let result = self.execute(task).await;
        if !self.survives {
            return result;
        }
        let mut peers = self.peers();
        peers.retain(|(peer, _)| *peer != rank);
        peers.push((rank, result.err()));
        Ok(())
    }

    fn peers(&self) -> MutexGuard<'_, Vec<(usize, Option<InvokeError>)>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn follow(&self, follow_up: FollowUp) -> Result<(), InvokeError> {
        match follow_up {
            FollowUp::Call { task, answer } => {
                // A caller that is gone has failed, and reports it itself.
                let _ = answer.send(self.invoke(task).await);
                Ok(())
            }
            FollowUp::Invocation(task) => self.invoke(task).await.map(drop),
            FollowUp::Workflow { task, name } if self.is_workflow => {
                let result = self.execute_peer(task).await;
                self.ended.note(&name, &result);
                result
            }
            FollowUp::Workflow { task, name } => {
                let result = self.execute(task).await;
                self.ended.note(&name, &result);
                Ok(())
            }
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
/// `follow_ups` receives what running functions ask for.
///
/// # Errors
/// The first invocation that failed without a caller waiting for it; the others are
/// dropped. Of a system that goes on without failed peers: only when all have failed.
pub async fn drive(
    system: &dyn System,
    job: &Job,
    functions: &dyn Functions,
    follow_ups: FollowUps,
) -> Result<Driven, DriveError> {
    let task = |function: &str, rank: usize| Task {
        job: job.clone(),
        function: function.into(),
        rank,
        epoch: 0,
        batch: None,
        round: 0,
    };
    let FollowUps {
        received: mut follow_ups,
        ended,
    } = follow_ups;
    // Find the tasks to start.
    let bound = system.bind(job)?;
    let (first, is_workflow): (Vec<Task>, bool) = match bound.launch() {
        Launch::Workers(workers) => {
            let is_run = |(_, rank): &(_, usize)| functions.stands_for(*rank) > 0;
            let workers = workers.into_iter().filter(is_run);
            let tasks = workers.map(|(function, rank)| task(function, rank));
            (tasks.collect(), false)
        }
        Launch::Workflow { bootstrap } => {
            let ranks = (0..job.workers).filter(|rank| functions.stands_for(*rank) > 0);
            let tasks = ranks.map(|rank| task(bootstrap, rank));
            (tasks.collect(), true)
        }
    };
    let driver = Driver {
        functions,
        states: bound.states(),
        rounds: bound.rounds(),
        is_workflow,
        survives: bound.survives_lost_peers(),
        peers: Mutex::default(),
        ended,
        invocations: AtomicU64::new(0),
        transitions: AtomicU64::new(0),
    };
    // Start them; a workflow, once every peer has been prepared.
    let mut running: FuturesUnordered<BoxFuture<'_, Result<(), InvokeError>>> =
        FuturesUnordered::new();
    if is_workflow {
        try_join_all(first.iter().map(|task| driver.invoke(task.clone()))).await?;
        let peers = bound.first_peers();
        for task in first.into_iter().filter(|task| task.rank < peers) {
            running.push(Box::pin(driver.execute_peer(task)));
        }
    } else {
        for task in first {
            running.push(Box::pin(async { driver.invoke(task).await.map(drop) }));
        }
    }
    // Start what running functions ask for, until nothing is left.
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
    // Without a peer that is left, nothing was trained.
    let lost: Option<Vec<InvokeError>> = driver.peers().drain(..).map(|(_, why)| why).collect();
    if let Some(first) = lost.unwrap_or_default().first() {
        return Err(first.clone().into());
    }
    Ok(Driven {
        invocations: driver.invocations.load(Ordering::Relaxed),
        transitions: driver.transitions.load(Ordering::Relaxed),
    })
}
