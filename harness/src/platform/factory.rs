//! Platforms by their names, before one is opened.

use std::path::PathBuf;

use super::{Cloud, Estimates, Platform, PlatformError};
use crate::rows::Simulation;

/// A platform of the registry.
pub trait Factory: Sync {
    /// Returns the word for it in experiments, options and results.
    fn name(&self) -> &'static str;

    /// Returns where its trials run, which decides how reports describe its figures.
    fn site(&self) -> Site;

    /// Returns whether the field `services` chooses what serves its channels.
    fn has_services(&self) -> bool {
        false
    }

    /// Returns the cloud behind it, if its trials cost money.
    ///
    /// # Errors
    /// Where this build has no clients for that cloud.
    fn cloud(&self) -> Result<Option<&dyn Cloud>, PlatformError> {
        Ok(None)
    }

    /// Opens the platform for one experiment. Does no work yet.
    ///
    /// # Errors
    /// Where this build does not have the platform.
    fn open(&self, options: PlatformOptions) -> Result<Box<dyn Platform>, PlatformError>;
}

/// Where trials run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// Real processes on this machine.
    ThisMachine,
    /// Virtual time: durations are computed from profiles.
    VirtualTime,
    /// A cloud of this name, as prose has it.
    Cloud(&'static str),
}

impl Site {
    /// Returns whether trials there cost money.
    pub fn is_cloud(self) -> bool {
        matches!(self, Self::Cloud(_))
    }

    /// Returns where figures of trials there come from.
    pub fn figures(self) -> Figures {
        match self {
            Self::ThisMachine | Self::Cloud(_) => Figures::Measured,
            Self::VirtualTime => Figures::Simulated,
        }
    }
}

/// Where the figures of a trial come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figures {
    /// Processes that ran.
    Measured,
    /// A computation in virtual time.
    Simulated,
}

/// What an experiment asks of a platform.
#[derive(Clone, Debug, Default)]
pub struct PlatformOptions {
    /// Experiment file, for messages.
    pub file: PathBuf,
    /// Whether real servers take the place of the embedded services.
    pub has_real_services: bool,
    /// What a simulation is computed from; none where rows are not simulated.
    pub simulation: Option<Simulation>,
    /// Directory of the dataset.
    pub dataset_directory: PathBuf,
    /// What rows will use and what that costs; none where trials cost nothing.
    pub estimates: Option<Estimates>,
}
