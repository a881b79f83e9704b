//! A worker, which runs tasks.

use std::sync::Arc;
use std::time::Duration;

use epochcost_channels::client::{TcpLinks, claim, open_objects, open_queue, open_tensors};
use epochcost_channels::{Absent, Link, Links, Queue};
use epochcost_models::GpuWatch;
use epochcost_systems::{
    Channels, Device, GpuUsage, HookedCompute, Job, Launch, Outcome, Record, Recorder, System,
    Task, World, find,
};
use tokio::sync::Mutex;

use crate::compute::{JobModel, Model, locked};
use crate::control::Control;
use crate::environment::{Environment, Platform};
use crate::faults::Injected;
use crate::host::{HostClock, WorkerError};
use crate::output::Output;
use crate::process::OwnProcess;

/// The state that a worker keeps between invocations.
pub struct Worker {
    environment: Environment,
    clock: Arc<HostClock>,
    control: Arc<Control>,
    channels: Mutex<Option<Channels>>,
    model: std::sync::Mutex<Option<Model>>,
}

impl Worker {
    /// Makes a worker, which connects and loads nothing before its first task.
    ///
    /// # Errors
    /// [`WorkerError`] when the environment is unusable.
    pub fn new(environment: Environment) -> Result<Self, WorkerError> {
        Ok(Self {
            control: Arc::new(Control::new(&environment.platform)?),
            environment,
            clock: Arc::new(HostClock::new()),
            channels: Mutex::default(),
            model: std::sync::Mutex::default(),
        })
    }

    /// Returns whether another invocation under the same request has begun the task:
    /// Lambda's queue delivers a request at least once, and sometimes twice
    /// ("Asynchronous invocation"). Two invocations of one worker would take each
    /// other's messages. Only AWS has such a queue, and only the first invocations of a
    /// trial pass through it.
    ///
    /// # Errors
    /// [`WorkerError`] when the system is unknown or the object store fails.
    pub async fn is_repeated(&self, task: &Task, request: &str) -> Result<bool, WorkerError> {
        if matches!(self.environment.platform, Platform::Local(_)) || !is_launched(task)? {
            return Ok(false);
        }
        let Environment { objects, scope, .. } = &self.environment;
        Ok(!claim(objects, scope, &format!("requests/{request}")).await?)
    }

    /// Runs one task, which the platform ends after `limit`, if there is one.
    ///
    /// Connections are kept from one task to the next, but not after a failure: the next
    /// invocation opens them anew.
    ///
    /// # Errors
    /// [`WorkerError`] when the task cannot begin, or fails.
    pub async fn run(&self, task: Task, limit: Option<Duration>) -> Result<Outcome, WorkerError> {
        let outcome = self.run_connected(task, limit).await;
        if outcome.is_err() {
            *self.channels.lock().await = None;
        }
        outcome
    }

    /// Runs one task over kept or new connections.
    async fn run_connected(
        &self,
        task: Task,
        limit: Option<Duration>,
    ) -> Result<Outcome, WorkerError> {
        // The world: channels, model, clock.
        let system = system(&task)?;
        let mut channels = self.channels().await?;
        if let Some(allowance) = self.environment.allowance {
            channels.objects = channels.objects.allowed(allowance);
        }
        let (rank, device) = (task.rank, task.job.device);
        let model = self.model(&task.job)?;
        let kept = model.clone();
        let model = JobModel::new(model, &task.job)?;
        let faults = &self.environment.faults;
        let faults = Injected::new(faults, &task.function, self.control.clone());
        channels.queue = faults.messages.before(channels.queue);
        let compute = HookedCompute::boxed(faults.clone(), Box::new(model));
        let mut world = World::new(
            task,
            &channels,
            compute,
            self.control.clone(),
            self.clock.clone(),
            Arc::new(Output),
        )
        .with_limit(limit)
        .with_resources(Arc::new(OwnProcess))
        .with_stage_hook(Arc::new(faults));
        // The task itself, with the use of the GPU.
        let watch = (device == Device::Cuda).then(GpuWatch::start).flatten();
        let outcome = system.run(&mut world).await;
        let used = watch.and_then(GpuWatch::stop);
        if let Some(usage) = used.filter(|_| kept.is_on_gpu()) {
            Output.record(Record::Gpu(gpu_usage(rank, usage)));
        }
        if let Some(text) = kept.take_warning() {
            Output.record(Record::Warning { rank, text });
        }
        Ok(outcome?)
    }

    /// Returns the connections of an earlier invocation, or opens them.
    async fn channels(&self) -> Result<Channels, WorkerError> {
        let mut kept = self.channels.lock().await;
        if let Some(channels) = kept.as_ref() {
            return Ok(channels.clone());
        }
        Ok(kept.insert(connect(&self.environment).await?).clone())
    }

    /// Returns the job's model, loaded by the first invocation.
    fn model(&self, job: &Job) -> Result<Model, WorkerError> {
        let mut kept = locked(&self.model);
        if let Some(model) = kept.as_ref().filter(|model| model.suits(job)) {
            return Ok(model.clone());
        }
        let Environment {
            cpu_fallback,
            precision,
            ..
        } = self.environment;
        let model = Model::load(job, cpu_fallback, precision)?;
        Ok(kept.insert(model).clone())
    }
}

fn system(task: &Task) -> Result<&'static dyn System, WorkerError> {
    let name = &task.job.system;
    find(name).ok_or_else(|| WorkerError::UnknownSystem(name.clone()))
}

/// Returns whether a trial starts with the task's function; else a running worker
/// invoked it.
fn is_launched(task: &Task) -> Result<bool, WorkerError> {
    Ok(match system(task)?.bind(&task.job)?.launch() {
        Launch::Workers(workers) => workers.iter().any(|(name, _)| *name == task.function),
        Launch::Workflow { bootstrap } => bootstrap == task.function,
    })
}

/// Converts the use of the GPU into its form in results.
fn gpu_usage(rank: usize, usage: epochcost_models::GpuUsage) -> GpuUsage {
    GpuUsage {
        rank,
        name: usage.name,
        memory_mb: usage.memory_mb,
        device_memory_mb: usage.device_memory_mb,
        utilisation: usage.utilisation,
        samples: usage.samples,
    }
}

/// Opens the channels that the environment names.
async fn connect(environment: &Environment) -> Result<Channels, WorkerError> {
    let scope = &environment.scope;
    let objects = open_objects(&environment.objects, scope)?;
    let mut tensors = Vec::with_capacity(environment.tensors.len());
    for endpoint in &environment.tensors {
        tensors.push(open_tensors(endpoint, scope, &objects).await?);
    }
    let queue = match &environment.queue {
        Some(endpoint) => open_queue(endpoint, scope, &objects).await?,
        None => Queue::new(Arc::new(Absent::QUEUE)),
    };
    // On AWS no rule lets workers reach each other: systems that need it are refused there.
    let links = match environment.platform {
        Platform::Local(_) => Links::new(Arc::new(TcpLinks::new("127.0.0.1"))),
        Platform::Aws(_) => Links::new(Arc::new(Absent::LINKS)),
    };
    let Some(shape) = &environment.network else {
        return Ok(Channels {
            objects,
            tensors: Arc::new(tensors),
            queue,
            links,
        });
    };
    // All channels are behind this process's one link.
    let (link, latency) = (Link::new(shape), shape.latency_ms);
    let tensors = tensors
        .into_iter()
        .map(|store| store.shaped(&link, latency.tensors));
    Ok(Channels {
        objects: objects.shaped(&link, latency.objects),
        tensors: Arc::new(tensors.collect::<Vec<_>>()),
        queue: queue.shaped(&link, latency.queue),
        // Workers are as far from each other as from a tensor store.
        links: links.shaped(&link, latency.tensors),
    })
}
