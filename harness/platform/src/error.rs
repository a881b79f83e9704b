//! Why a platform could not do its part.

use std::error::Error;

use epochcost_simulator::SimulationError;

use epochcost_spec::exit::Exit;

/// Reason why a platform could not run a trial.
#[derive(Debug, thiserror::Error)]
pub enum PlatformError {
    /// The worker binary could not be found or built.
    #[error("failed to get the worker: {0}")]
    Worker(String),
    /// A service could not be started.
    #[error("failed to start {service}: {reason}")]
    Service {
        /// Name of the service.
        service: &'static str,
        /// Reason that it gave.
        reason: String,
    },
    /// A row cannot be simulated.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// The platform lacks something that the experiment needs.
    #[error("this platform lacks {what}: {remedy}")]
    Lacks {
        /// Missing part.
        what: String,
        /// Action that would supply it.
        remedy: String,
    },
    /// The platform refuses what was asked of it.
    #[error("{what}\n  = help: {remedy}")]
    Refused {
        /// Exit code that the refusal ends with.
        exit: Exit,
        /// Reason of the refusal, as a sentence.
        what: String,
        /// Action that would do instead.
        remedy: String,
    },
    /// A trial was run before the platform was prepared and begun: a fault of
    /// this program.
    #[error("failed to run a trial: the platform {0} is not ready")]
    NotPrepared(&'static str),
    /// A cloud could not do its part.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// The operating system refused.
    #[error("failed to {doing}")]
    Io {
        /// Attempted operation.
        doing: String,
        /// Answer of the operating system.
        source: std::io::Error,
    },
}

impl PlatformError {
    /// Returns the refusal of something that this build, machine or account lacks.
    pub fn lacking(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::refused(Exit::Lacks, what, remedy)
    }

    /// Returns the refusal of an option that cannot be.
    pub fn usage(problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::refused(Exit::Usage, problem, remedy)
    }

    /// Returns the error of a service that could not be started or does not do its part.
    pub fn service(service: &'static str, reason: impl ToString) -> Self {
        let reason = reason.to_string();
        Self::Service { service, reason }
    }

    /// Returns the error of something for workers that cannot be written as JSON.
    pub fn unwritable(what: &'static str) -> impl Fn(serde_json::Error) -> Self {
        move |error| Self::Worker(format!("unwritable {what}: {error}"))
    }

    /// Wraps an error of the operating system; `doing` follows "failed to".
    pub fn io(doing: impl Into<String>) -> impl Fn(std::io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io {
            doing: doing.clone(),
            source,
        }
    }

    /// Returns the exit code that the error ends with.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Lacks { .. } | Self::Worker(_) => Exit::Lacks,
            Self::Refused { exit, .. } => *exit,
            Self::Simulation(error) if error.is_of_the_setting() => Exit::Usage,
            Self::Cloud(error) => error.exit,
            Self::Service { .. } | Self::Simulation(_) | Self::NotPrepared(_) | Self::Io { .. } => {
                Exit::Internal
            }
        }
    }

    fn refused(exit: Exit, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Refused {
            exit,
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

/// An error of a cloud's client.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct CloudError {
    /// Exit code that the error ends with.
    exit: Exit,
    /// Error of the client.
    source: Box<dyn Error + Send + Sync>,
}

impl CloudError {
    /// Returns `source` with the exit code that it ends with.
    pub fn new(exit: Exit, source: impl Error + Send + Sync + 'static) -> Self {
        let source = Box::new(source);
        Self { exit, source }
    }

    /// Returns the client's own error, if it is a `T`.
    pub fn downcast_ref<T: Error + 'static>(&self) -> Option<&T> {
        self.source.downcast_ref()
    }
}
