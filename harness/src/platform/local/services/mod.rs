//! The services that the workers of a trial talk through.

mod embedded;
mod real;

use epochcost_systems::DataLayout;

use crate::platform::{PlatformError, TrialData};
use crate::rows::Row;

pub(super) use real::Real;
pub use real::{Missing, Programs, Requirement, ServerUsed, check, requirements};

/// What serves the channels of a run's trials.
#[derive(Debug)]
pub(super) enum Provider {
    /// This process, anew for every trial.
    Embedded,
    /// Real servers.
    Real(Real),
}

/// The services of one trial; what was started for it alone stops when dropped.
pub(super) enum Services {
    /// In this process.
    Embedded(embedded::Services),
    /// On real servers.
    Real(Box<real::Trial>),
}

impl Provider {
    /// The services of one trial, with its dataset where `layout` says.
    pub(super) async fn start(
        &self,
        row: &Row,
        layout: DataLayout,
        data: &TrialData,
    ) -> Result<Services, PlatformError> {
        Ok(match self {
            Self::Embedded => {
                Services::Embedded(embedded::Services::start(&row.job, layout, data).await?)
            }
            Self::Real(real) => Services::Real(Box::new(real.trial(row, layout, data).await?)),
        })
    }
}

impl Services {
    /// Where workers find them, as environment variables.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        match self {
            Self::Embedded(services) => services.environment().into(),
            Self::Real(trial) => trial.environment(),
        }
    }

    /// Waits until a service is no more, and says which; for ever where all stay.
    pub(super) async fn broken(&mut self) -> String {
        match self {
            Self::Embedded(_) => std::future::pending().await,
            Self::Real(trial) => trial.broken().await,
        }
    }

    /// Deletes what the trial left; why that failed, if it did.
    pub(super) async fn end(self) -> Option<String> {
        match self {
            Self::Embedded(_) => None,
            Self::Real(trial) => (trial.end().await.err()).map(|error| crate::chain::chain(&error)),
        }
    }
}
