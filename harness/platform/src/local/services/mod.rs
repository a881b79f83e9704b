//! The services that the workers of a trial talk through.

mod embedded;
mod real;

use std::fmt::Display;

use epochcost_spec::metering::Server;
use epochcost_spec::rows::Row;
use epochcost_systems::DataLayout;

use crate::{PlatformError, TrialData};

pub(super) use real::{Real, check};
pub use real::{object_server, redis_module, requirements};

/// Servers of the channels of a run's trials.
#[derive(Debug)]
pub(super) enum Provider {
    /// Servers in this process, new for every trial.
    Embedded,
    /// Real servers.
    Real(Real),
}

/// The services of one trial; what was started for it alone stops when dropped.
pub(super) enum Services {
    /// Servers in this process.
    Embedded(embedded::Services),
    /// Names on real servers.
    Real(Box<real::Trial>),
}

impl Provider {
    /// Starts the services of one trial, with its dataset stored in `layout`.
    pub(super) async fn start(
        &self,
        row: &Row,
        layout: DataLayout,
        data: &TrialData,
    ) -> Result<Services, PlatformError> {
        Ok(match self {
            Self::Embedded => Services::Embedded(
                embedded::Services::start(&row.job, row.tensor_stores(), layout, data).await?,
            ),
            Self::Real(real) => Services::Real(Box::new(real.trial(row, layout, data).await?)),
        })
    }

    /// Returns the real servers that trials run on.
    pub(super) async fn servers(&self) -> Vec<Server> {
        match self {
            Self::Embedded => Vec::new(),
            Self::Real(real) => real.used().await,
        }
    }
}

/// Returns what makes the error of a service of an error.
fn failed<E: Display>(service: &'static str) -> impl Fn(E) -> PlatformError {
    move |error| PlatformError::service(service, error)
}

impl Services {
    /// Returns the environment variables in which workers of one of the trainings at once find them.
    pub(super) fn environment(&self, training: usize) -> Vec<(String, String)> {
        match self {
            Self::Embedded(services) => services.environment().into(),
            Self::Real(trial) => trial.environment(training),
        }
    }

    /// Waits until a service has ended and returns a message; for ever where none does.
    pub(super) async fn broken(&mut self) -> String {
        match self {
            Self::Embedded(_) => std::future::pending().await,
            Self::Real(trial) => trial.broken().await,
        }
    }

    /// Deletes what the trial left; returns the reason if that failed.
    pub(super) async fn end(self) -> Option<String> {
        match self {
            Self::Embedded(_) => None,
            Self::Real(trial) => trial.end().await.err(),
        }
    }
}
