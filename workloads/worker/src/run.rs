//! One task from its world to its outcome.

use std::sync::Arc;

use epochcost_channels::TensorStore;
use epochcost_channels::client::{RedisQueue, RedisTensors, S3Objects};
use epochcost_systems::{Channels, Job, Outcome, Record, Recorder, Task, World, find};
use tokio::sync::OnceCell;

use crate::compute::{JobModel, Loaded, Model};
use crate::control::Control;
use crate::environment::Environment;
use crate::faults::Faulty;
use crate::host::{HostClock, WorkerError};
use crate::output::Output;
use crate::process::OwnProcess;

/// What a worker keeps from one invocation to the next.
pub struct Worker {
    environment: Environment,
    clock: Arc<HostClock>,
    control: Arc<Control>,
    channels: OnceCell<Channels>,
    model: std::sync::Mutex<Option<Model>>,
}

impl Worker {
    /// Nothing is connected or loaded before the first task.
    pub fn new(environment: Environment) -> Self {
        Self {
            control: Arc::new(Control::new(&environment.control)),
            environment,
            clock: Arc::new(HostClock::new()),
            channels: OnceCell::new(),
            model: std::sync::Mutex::default(),
        }
    }

    /// Runs one task.
    pub async fn run(&self, task: Task) -> Result<Outcome, WorkerError> {
        let system = find(&task.job.system)
            .ok_or_else(|| WorkerError::UnknownSystem(task.job.system.clone()))?;
        let channels = self
            .channels
            .get_or_try_init(|| connect(&self.environment))
            .await?;
        let model = JobModel::new(self.model(&task.job, task.rank)?, &task.job)?;
        let compute = Box::new(Faulty::new(model, self.environment.faults.clone()));
        let mut world = World::new(
            task,
            channels,
            compute,
            self.control.clone(),
            self.clock.clone(),
            Arc::new(Output),
        )
        .with_resources(Arc::new(OwnProcess));
        Ok(system.run(&mut world).await?)
    }

    /// The job's model, made by the first invocation.
    fn model(&self, job: &Job, rank: usize) -> Result<Model, WorkerError> {
        let mut kept = self
            .model
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(model) = kept.as_ref().filter(|model| model.suits(job)) {
            return Ok(model.clone());
        }
        let Loaded { model, warning } = Model::load(job, self.environment.cpu_fallback)?;
        if let Some(text) = warning {
            Output.record(Record::Warning { rank, text });
        }
        Ok(kept.insert(model).clone())
    }
}

async fn connect(environment: &Environment) -> Result<Channels, WorkerError> {
    let mut tensors: Vec<Arc<dyn TensorStore>> = Vec::with_capacity(environment.tensors.len());
    for endpoint in &environment.tensors {
        tensors.push(Arc::new(RedisTensors::connect(endpoint).await?));
    }
    Ok(Channels {
        objects: Arc::new(S3Objects::new(&environment.objects)),
        tensors: Arc::new(tensors),
        queue: Arc::new(RedisQueue::connect(&environment.queue).await?),
    })
}
