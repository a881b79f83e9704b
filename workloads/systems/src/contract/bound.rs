//! A system over a job whose settings it has parsed: every [`TrainingSystem`]
//! is a [`System`].

use async_trait::async_trait;
use epochcost_channels::Traffic;
use epochcost_kernels::optimizer::OptimizerSpec;
use schemars::Schema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::contract::settings::{parse, resolve};
use crate::{
    BoundSystem, DataLayout, Deployment, Fidelity, Job, Launch, Outcome, QueueService, Replicas,
    Result, SettingsError, Sizes, State, StepRecord, Symmetry, System, SystemError, TrainingSystem,
    World,
};

/// A system, a job, and the job's settings, parsed once and checked.
struct Bound<'a, S: TrainingSystem> {
    system: &'a S,
    job: &'a Job,
    settings: S::Settings,
}

/// Parses the settings of `job` and checks that they fit each other and the job.
///
/// # Errors
/// Names the setting that does not fit.
pub(crate) fn settings_of<S: TrainingSystem>(
    system: &S,
    job: &Job,
) -> Result<S::Settings, SettingsError> {
    let settings = parse(system.name(), &job.settings)?;
    system.check(&settings)?;
    system.check_job(job, &settings)?;
    job.techniques().check(system.name(), job)?;
    if let Some(attack) = &job.attack {
        attack.check(system.name(), job, system.attackers_see_honest())?;
    }
    Ok(settings)
}

#[async_trait]
impl<S: TrainingSystem> System for S {
    fn name(&self) -> &'static str {
        TrainingSystem::name(self)
    }

    fn title(&self) -> &'static str {
        TrainingSystem::title(self)
    }

    fn noun(&self) -> String {
        TrainingSystem::noun(self)
    }

    fn about(&self) -> &'static str {
        TrainingSystem::about(self)
    }

    fn deployment(&self) -> Deployment {
        TrainingSystem::deployment(self)
    }

    fn settings(
        &self,
        fidelity: Fidelity,
        overrides: &Map<String, Value>,
    ) -> Result<Value, SettingsError> {
        let name = TrainingSystem::name(self);
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
                system: TrainingSystem::name(self),
                function: function.clone(),
            });
        }
        let settings = settings_of(self, &world.task.job)?;
        TrainingSystem::run(self, world, settings).await
    }
}

impl<S: TrainingSystem> BoundSystem for Bound<'_, S> {
    fn data_layout(&self) -> DataLayout {
        self.system.data_layout(&self.settings)
    }

    fn trains_on_the_rest(&self) -> bool {
        self.system.trains_on_the_rest()
    }

    fn launch(&self) -> Launch {
        self.system.launch(self.job, &self.settings)
    }

    fn waits(&self) -> bool {
        self.system.waits(&self.settings)
    }

    fn queue_service(&self) -> QueueService {
        self.system.queue_service(&self.settings)
    }

    fn tensor_stores(&self) -> usize {
        self.system.tensor_stores(self.job, &self.settings)
    }

    fn states(&self) -> Vec<State> {
        self.system.states(&self.settings)
    }

    fn rounds(&self) -> usize {
        self.system.rounds(self.job, &self.settings)
    }

    fn steps_per_epoch(&self) -> usize {
        self.system.steps_per_epoch(self.job, &self.settings)
    }

    fn first_peers(&self) -> usize {
        self.system.first_peers(self.job, &self.settings)
    }

    fn survives_lost_peers(&self) -> bool {
        self.system.survives_lost_peers(&self.settings)
    }

    fn traffic(&self, sizes: Sizes) -> Result<Traffic> {
        self.system.traffic(self.job, &self.settings, sizes)
    }

    fn traffic_of(&self, sizes: Sizes, steps: &[&StepRecord]) -> Result<Traffic> {
        let (system, settings) = (self.system, &self.settings);
        if self.job.techniques().early_stopping.is_none() {
            return system.traffic_of(self.job, settings, sizes, steps);
        }
        let job = self.job.as_run(steps);
        system.traffic_of(&job, settings, sizes, steps)
    }

    fn states_bytes(&self) -> bool {
        self.system.states_bytes(&self.settings)
    }

    fn resident_gradients(&self, function: &str, rank: usize) -> f64 {
        let (system, settings) = (self.system, &self.settings);
        let vectors = system.resident_vectors(self.job, settings, function, rank);
        vectors as f64 / system.resident_parts(settings, function).max(1) as f64
    }

    fn symmetry(&self) -> Symmetry {
        self.system.symmetry(&self.settings)
    }

    fn replicas(&self) -> Replicas {
        self.system.replicas(&self.settings)
    }
}
