//! Why a simulation cannot run.

use epochcost_channels::ChannelError;
use epochcost_systems::{Job, System, SystemError, find};
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
    /// The workers are too many to simulate each, and none can stand for others.
    #[error(
        "{system}: {workers} workers make {requests} requests and are not alike, so that each would be simulated; \
         use fewer workers, or {instead}"
    )]
    TooMany {
        /// The system.
        system: String,
        /// Number of workers.
        workers: usize,
        /// Requests of the exchange.
        requests: u64,
        /// The setting in which one worker can stand for others.
        instead: String,
    },
    /// The dataset is cut into more objects than the memory of a simulation is meant for.
    #[error(
        "{system} reads its data from {objects} objects, and {most} are the most that are simulated; use larger \
         mini-batches or fewer samples"
    )]
    TooManyObjects {
        /// The system.
        system: String,
        /// Objects of the dataset.
        objects: usize,
        /// The most.
        most: usize,
    },
    /// The workers that are simulated take more steps than memory and patience are meant for.
    #[error(
        "{system} takes {steps} steps of the workers that are simulated, and {most} are the most; use fewer epochs, \
         mini-batches or workers"
    )]
    TooManySteps {
        /// The system.
        system: String,
        /// Steps of all workers that are simulated.
        steps: u64,
        /// The most.
        most: u64,
    },
    /// Computing takes longer than virtual time is meant for.
    #[error(
        "{system}: computing takes {years:.0} years, and {most} are the most that are simulated"
    )]
    TooLong {
        /// The system.
        system: String,
        /// Years of all steps of a worker.
        years: f64,
        /// The most.
        most: f64,
    },
    /// The real time that was given was over first.
    #[error("not simulated to its end: the time was over after {events} events")]
    GivenUp {
        /// Events so far.
        events: u64,
    },
    /// The job does not fit its system, or its dataset is too small.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A store refused the dataset.
    #[error(transparent)]
    Channel(#[from] ChannelError),
}

/// Returns the system of a job.
pub(crate) fn system_of(job: &Job) -> Result<&'static dyn System, SimulationError> {
    find(&job.system).ok_or_else(|| SimulationError::UnknownSystem {
        system: job.system.clone(),
    })
}

impl SimulationError {
    /// Returns whether the setting is more than this program simulates, though nothing in it is
    /// wrong.
    pub fn is_too_much(&self) -> bool {
        matches!(
            self,
            Self::TooMany { .. }
                | Self::TooManyObjects { .. }
                | Self::TooManySteps { .. }
                | Self::TooLong { .. }
        )
    }

    /// Returns whether another setting would be simulated.
    pub fn is_of_the_setting(&self) -> bool {
        self.is_too_much() || matches!(self, Self::UnknownSystem { .. } | Self::System(_))
    }
}
