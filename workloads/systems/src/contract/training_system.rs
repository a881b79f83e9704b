use async_trait::async_trait;
use epochcost_kernels::optimizer::OptimizerSpec;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Deployment, Fidelity, Job, Names, Outcome, Result, SettingsError, World};

/// A training system with typed settings: the trait that its file implements.
///
/// What depends on a job is in [`BoundSystem`](crate::BoundSystem), which the file implements for
/// [`Bound`](crate::Bound), with the settings parsed and checked.
#[async_trait]
pub trait TrainingSystem: Send + Sync + 'static {
    /// Every difference between the fidelities, one field each.
    type Settings: Serialize + DeserializeOwned + JsonSchema + Send + Sync;

    /// Its names, and its source.
    fn names(&self) -> Names;

    /// What it is deployed on, and what is billed for it.
    fn deployment(&self) -> Deployment;

    /// The settings of a fidelity.
    fn defaults(&self, fidelity: Fidelity) -> Self::Settings;

    /// Refuses settings that contradict each other.
    ///
    /// # Errors
    /// Names the setting.
    fn check(&self, _settings: &Self::Settings) -> Result<(), SettingsError> {
        Ok(())
    }

    /// Refuses a job that cannot be trained under these settings.
    ///
    /// # Errors
    /// Names the setting, or the job's field.
    fn check_job(&self, _job: &Job, _settings: &Self::Settings) -> Result<(), SettingsError> {
        Ok(())
    }

    /// Whether an attacker can read the gradients of honest workers before it sends its
    /// own; false by default.
    fn attackers_see_honest(&self) -> bool {
        false
    }

    /// The optimizer of the source that this fidelity follows.
    fn optimizer(&self, fidelity: Fidelity) -> OptimizerSpec;

    /// Runs one invocation: the function, rank, epoch and batch of the world's task. The function is
    /// one of its deployment.
    ///
    /// # Errors
    /// Whatever made the invocation fail.
    async fn run(&self, world: &mut World, settings: Self::Settings) -> Result<Outcome>;
}
