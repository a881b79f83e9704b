//! Workflows as data, and the one interpreter that runs them.

use std::ops::Range;

use futures_util::future::{BoxFuture, try_join_all};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Functions, InvokeError, Task};

/// A state of a workflow, after Amazon States Language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Invokes one function and waits for it.
    Task {
        /// The function.
        function: &'static str,
    },
    /// Invokes a function once for each mini-batch of the round.
    Batches {
        /// The function.
        function: &'static str,
        /// The kind of state that invokes it.
        fan_out: FanOut,
    },
}

/// Kind of state that invokes a function for each mini-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FanOut {
    /// A Parallel state with a branch for each mini-batch, as the papers generate
    /// it: all run at the same time.
    Parallel,
    /// An inline Map state over the mini-batches: of its iterations, 40 run at the same time in Step
    /// Functions, `workflow.map_concurrency_limit` in a simulation, and all on `local`.
    Map,
}

impl State {
    /// The function that it invokes.
    pub fn function(&self) -> &'static str {
        match self {
            Self::Task { function } | Self::Batches { function, .. } => function,
        }
    }

    /// State transitions of one execution of this state.
    ///
    /// A task is one transition; a state with a branch or an iteration for each
    /// mini-batch is one for itself and one for each of those.
    pub fn transitions(&self, batches: usize) -> u64 {
        match self {
            Self::Task { .. } => 1,
            Self::Batches { .. } => 1 + batches as u64,
        }
    }

    /// Invocations of one execution of this state.
    pub fn invocations(&self, batches: usize) -> u64 {
        match self {
            Self::Task { .. } => 1,
            Self::Batches { .. } => batches as u64,
        }
    }

    /// Returns the least number of events that this state adds to the history of a Step Functions
    /// execution: a task is entered, scheduled, started, ended and left; a state over mini-batches
    /// is entered, started, ended and left, and so is each iteration of a map started and ended
    /// ("Get execution history", type HistoryEvent).
    pub fn events(&self, batches: usize) -> u64 {
        const TASK: u64 = 5;
        match self {
            Self::Task { .. } => TASK,
            Self::Batches { fan_out, .. } => {
                let around = match fan_out {
                    FanOut::Parallel => 0,
                    FanOut::Map => 2,
                };
                4 + batches as u64 * (TASK + around)
            }
        }
    }

    fn run<'a>(
        &'a self,
        input: &'a Task,
        batches: Range<usize>,
        functions: &'a dyn Functions,
    ) -> BoxFuture<'a, Result<(), InvokeError>> {
        Box::pin(async move {
            match self {
                Self::Task { function } => {
                    functions
                        .invoke(Task {
                            function: (*function).into(),
                            ..input.clone()
                        })
                        .await?;
                }
                Self::Batches { function, fan_out } => {
                    let number = batches.len();
                    let branches = batches.map(|batch| {
                        functions.invoke(Task {
                            function: (*function).into(),
                            batch: Some(batch),
                            ..input.clone()
                        })
                    });
                    let at_once = match fan_out {
                        FanOut::Parallel => number,
                        FanOut::Map => functions.map_concurrency(),
                    };
                    if at_once >= number {
                        try_join_all(branches).await?;
                    } else {
                        // Collected first: the compiler cannot tell that an iterator
                        // that borrows may be held over an await.
                        let branches: Vec<_> = branches.collect();
                        let running = stream::iter(branches).buffer_unordered(at_once.max(1));
                        running.try_for_each(|_| async { Ok(()) }).await?;
                    }
                }
            }
            Ok(())
        })
    }
}

/// Runs one execution: `states` in order, each with `input`'s job, rank, epoch and round.
/// `batches` are the mini-batches of that round.
pub(crate) async fn execute(
    states: &[State],
    input: &Task,
    batches: Range<usize>,
    functions: &dyn Functions,
) -> Result<(), InvokeError> {
    for state in states {
        state.run(input, batches.clone(), functions).await?;
    }
    Ok(())
}
