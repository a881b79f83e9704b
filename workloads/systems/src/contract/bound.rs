//! A system over a job whose settings it has parsed: every [`TrainingSystem`]
//! is a [`System`].

use async_trait::async_trait;
use epochcost_kernels::optimizer::OptimizerSpec;
use schemars::Schema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::contract::settings::{parse, resolve};
use crate::{
    BoundSystem, Deployment, Fidelity, Job, Names, OfJob, Outcome, Result, SettingsError, System,
    SystemError, TrainingSystem, World,
};

/// A system, a job, and the job's settings, parsed once and checked.
pub struct Bound<'a, S: TrainingSystem> {
    pub(crate) job: &'a Job,
    pub(crate) settings: S::Settings,
    system: &'a S,
}

/// Parses the settings of `job` and checks that they fit each other and the job.
///
/// # Errors
/// Names the setting that does not fit.
pub(crate) fn settings_of<S: TrainingSystem>(
    system: &S,
    job: &Job,
) -> Result<S::Settings, SettingsError> {
    let name = system.names().name;
    let settings = parse(name, &job.settings)?;
    system.check(&settings)?;
    system.check_job(job, &settings)?;
    job.techniques().check(name, job)?;
    if let Some(attack) = &job.attack {
        attack.check(name, job, system.attackers_see_honest())?;
    }
    Ok(settings)
}

#[async_trait]
impl<S: TrainingSystem> System for S
where
    for<'a> Bound<'a, S>: BoundSystem,
{
    fn names(&self) -> Names {
        TrainingSystem::names(self)
    }

    fn deployment(&self) -> Deployment {
        TrainingSystem::deployment(self)
    }

    fn settings(
        &self,
        fidelity: Fidelity,
        overrides: &Map<String, Value>,
    ) -> Result<Value, SettingsError> {
        let name = self.name();
        let settings = resolve(name, &self.defaults(fidelity), overrides)?;
        self.check(&parse(name, &settings)?)?;
        Ok(settings)
    }

    fn settings_schema(&self) -> Schema {
        let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
        settings
            .into_generator()
            .into_root_schema_for::<S::Settings>()
    }

    fn optimizer(&self, fidelity: Fidelity) -> OptimizerSpec {
        TrainingSystem::optimizer(self, fidelity)
    }

    fn bind<'a>(&'a self, job: &'a Job) -> Result<Box<dyn BoundSystem + 'a>> {
        let settings = settings_of(self, job)?;
        Ok(Box::new(Bound {
            system: self,
            job,
            settings,
        }))
    }

    async fn run(&self, world: &mut World) -> Result<Outcome> {
        let (functions, function) = (
            TrainingSystem::deployment(self).functions,
            &world.task.function,
        );
        if functions
            .iter()
            .all(|known| known.name != function.as_str())
        {
            return Err(SystemError::UnknownFunction {
                system: self.name(),
                function: function.clone(),
            });
        }
        let settings = settings_of(self, &world.task.job)?;
        TrainingSystem::run(self, world, settings).await
    }
}

impl<S: TrainingSystem> OfJob for Bound<'_, S> {
    fn job(&self) -> &Job {
        self.job
    }

    fn deployment(&self) -> Deployment {
        self.system.deployment()
    }
}
