//! Workflows as data, and the one interpreter that runs them.

use futures_util::future::{BoxFuture, try_join_all};

use crate::{Functions, InvokeError, Task};

/// A state of a workflow, after Amazon States Language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Invokes one function and waits for it.
    Task {
        /// The function.
        function: &'static str,
    },
    /// Invokes a function once for each mini-batch, all at the same time.
    MapBatches {
        /// The function.
        function: &'static str,
    },
}

impl State {
    /// The function that it invokes.
    pub fn function(&self) -> &'static str {
        match self {
            Self::Task { function } | Self::MapBatches { function } => function,
        }
    }

    /// State transitions of one execution of this state.
    ///
    /// A task is one transition; a parallel state is one for itself and one
    /// for each branch.
    pub fn transitions(&self, batches: usize) -> u64 {
        match self {
            Self::Task { .. } => 1,
            Self::MapBatches { .. } => 1 + batches as u64,
        }
    }

    /// Invocations of one execution of this state.
    pub fn invocations(&self, batches: usize) -> u64 {
        match self {
            Self::Task { .. } => 1,
            Self::MapBatches { .. } => batches as u64,
        }
    }

    fn run<'a>(
        &'a self,
        input: &'a Task,
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
                Self::MapBatches { function } => {
                    let branches = (0..input.job.batches_per_worker).map(|batch| {
                        functions.invoke(Task {
                            function: (*function).into(),
                            batch: Some(batch),
                            ..input.clone()
                        })
                    });
                    try_join_all(branches).await?;
                }
            }
            Ok(())
        })
    }
}

/// Runs one execution: `states` in order, each with `input`'s job, rank and epoch.
pub(crate) async fn execute(
    states: &[State],
    input: &Task,
    functions: &dyn Functions,
) -> Result<(), InvokeError> {
    for state in states {
        state.run(input, functions).await?;
    }
    Ok(())
}
