use epochcost_channels::ChannelError;
use epochcost_systems::SystemError;
use thiserror::Error;

/// Why something could not be simulated.
#[derive(Debug, Error)]
pub enum SimulationError {
    /// There is no such training system.
    #[error("there is no system {system:?}")]
    UnknownSystem {
        /// The name.
        system: String,
    },
    /// The job is not one of its system's, or its data are too few.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A store refused the dataset.
    #[error(transparent)]
    Channel(#[from] ChannelError),
}
