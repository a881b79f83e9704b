//! Platforms by their names, before one is opened.

use std::path::PathBuf;

use epochcost_spec::rows::Simulation;

use super::{Cloud, Estimates, Platform, PlatformError};

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
    /// If this build has no clients for that cloud.
    fn cloud(&self) -> Result<Option<&dyn Cloud>, PlatformError> {
        Ok(None)
    }

    /// Opens the platform for one experiment. Does no work yet.
    ///
    /// # Errors
    /// If this build does not have the platform.
    fn open(&self, options: PlatformOptions) -> Result<Box<dyn Platform>, PlatformError>;
}

/// Location of trials.
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

/// Origin of a trial's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figures {
    /// Processes that ran.
    Measured,
    /// A computation in virtual time.
    Simulated,
}

/// Requirements of an experiment on its platform.
#[derive(Clone, Debug, Default)]
pub struct PlatformOptions {
    /// Experiment file, for messages.
    pub file: PathBuf,
    /// Whether real servers take the place of the embedded services.
    pub has_real_services: bool,
    /// Settings of a simulation; none where rows are not simulated.
    pub simulation: Option<Simulation>,
    /// Directory of the dataset.
    pub dataset_directory: PathBuf,
    /// Resources that rows will use, and prices; none where trials cost nothing.
    pub estimates: Option<Estimates>,
}
