use std::time::Duration;

use epochcost_channels::ChannelError;
use epochcost_kernels::KernelError;
use thiserror::Error;

use crate::SettingsError;

/// Why an invocation of a training system failed.
#[derive(Debug, Error)]
pub enum SystemError {
    /// A channel failed.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// Arithmetic on values of different shapes.
    #[error("failed to combine gradients: {0}")]
    Kernel(#[from] KernelError),
    /// Something that another worker had to publish did not come.
    #[error("gave up waiting for {what} after {waited:.1?}")]
    TimedOut {
        /// Description of the awaited value.
        what: String,
        /// Duration of the wait.
        waited: Duration,
    },
    /// A gradient or an evaluation could not be computed.
    #[error("failed to compute: {0}")]
    Compute(String),
    /// The task names something that its system does not know.
    #[error("{system} has no function {function:?}")]
    UnknownFunction {
        /// The system.
        system: &'static str,
        /// The function asked for.
        function: String,
    },
    /// The system's settings are unusable.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A message or an object is not what the protocol requires.
    #[error("{what} is malformed: {reason}")]
    Malformed {
        /// The message or object.
        what: String,
        /// The defect.
        reason: String,
    },
    /// The dataset in the store is not what the job states.
    #[error("dataset object {key:?} is unusable: {reason}")]
    Data {
        /// The object's key.
        key: String,
        /// The defect.
        reason: String,
    },
    /// The platform could not start what this worker asked for.
    #[error("failed to invoke {function}: {reason}")]
    Invoke {
        /// The function or workflow.
        function: String,
        /// The platform's error message.
        reason: String,
    },
}

impl SystemError {
    /// Returns the error of a message or an object that is not what the protocol requires.
    pub(crate) fn malformed(what: impl Into<String>, reason: impl Into<String>) -> Self {
        let (what, reason) = (what.into(), reason.into());
        Self::Malformed { what, reason }
    }

    /// Returns the error of a dataset object that is not what the job states.
    pub(crate) fn data(key: impl Into<String>, reason: impl Into<String>) -> Self {
        let (key, reason) = (key.into(), reason.into());
        Self::Data { key, reason }
    }

    /// Returns the error of work that the platform could not start.
    pub fn invoke(function: impl Into<String>, reason: impl Into<String>) -> Self {
        let (function, reason) = (function.into(), reason.into());
        Self::Invoke { function, reason }
    }
}
