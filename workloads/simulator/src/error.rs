//! Why a simulation cannot run.

use epochcost_channels::ChannelError;
use epochcost_systems::SystemError;
use thiserror::Error;

/// Why something could not be simulated.
#[derive(Debug, Error)]
pub enum SimulationError {
    /// The job names an unknown training system.
    #[error("there is no system {system:?}")]
    UnknownSystem {
        /// The name.
        system: String,
    },
    /// The job does not fit its system, or its dataset is too small.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A store refused the dataset.
    #[error(transparent)]
    Channel(#[from] ChannelError),
}
