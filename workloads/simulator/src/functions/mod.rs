//! Functions and instances that exist in virtual time only.

mod calls;
mod instances;
mod lambda;
mod pool;
mod start;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use epochcost_channels::Traffic;
use epochcost_systems::{
    ArithmeticMeter, Compute, Faults, HookedCompute, InvokeError, MessageFaults, Outcome, Record,
    Recorder, Requests, Result as SystemResult, System, SystemError, Task, Totals, World,
};
use futures_util::future::{Either, select};
use tokio::sync::oneshot;

pub(crate) use calls::Calls;
pub(crate) use instances::Instances;
pub(crate) use lambda::Lambda;
pub(crate) use pool::Pool;
pub(crate) use start::Starts;

use crate::channels::channels;
use crate::compute::ModelledCompute;
use crate::engine::{Engine, Handle, locked};
use crate::gpus::Gpus;
use crate::model::{Invocation, MakeCompute, Simulation};
use crate::population::Population;
use crate::profile::Profile;
use crate::recorded::Recorded;
use crate::services::Services;
use crate::station::{Asking, Chance, DeviceMemory, Held, Injected, Station, StationSpec, Work};

/// The context that all invocations of a trial share.
pub(crate) struct Trial {
    pub(crate) system: &'static dyn System,
    pub(crate) engine: Engine,
    pub(crate) services: Services,
    pub(crate) gpus: Arc<Gpus>,
    /// Its description; events are drawn by the training's own seed.
    pub(crate) simulation: Simulation,
    pub(crate) real: Option<Arc<MakeCompute>>,
    pub(crate) recorded: Option<Arc<Recorded>>,
    pub(crate) requests: Requests,
    pub(crate) arithmetic: ArithmeticMeter,
    pub(crate) records: Arc<Records>,
    pub(crate) invocations: Mutex<Calls>,
    /// Most requests of an invocation to the object store, of each kind.
    pub(crate) most_requests: Arc<Mutex<BTreeMap<String, Traffic>>>,
    pub(crate) serial: AtomicU64,
}

/// An invocation before its code runs.
pub(crate) struct Invoked {
    world: World,
    /// Its machine.
    pub(crate) station: Arc<Station>,
    /// The end of its process by an injected fault; none without faults.
    death: Option<oneshot::Receiver<&'static str>>,
}

impl Invoked {
    /// The same invocation, which the platform ends after `limit`.
    pub(crate) fn with_limit(mut self, limit: Option<Duration>) -> Self {
        self.world = self.world.with_limit(limit);
        self
    }
}

impl Trial {
    /// Returns the seconds of virtual time since the trial's start.
    pub(crate) fn seconds(&self) -> f64 {
        self.engine.now() as f64 * 1e-9
    }

    /// Returns the profile of its platform.
    pub(crate) fn profile(&self) -> &Profile<f64> {
        &self.simulation.profile
    }

    /// Returns the memory of the GPUs that gradients are computed on, which functions may share.
    pub(crate) fn device_memory(&self, shares: bool) -> Option<DeviceMemory> {
        Some(DeviceMemory {
            bytes_per_s: self.simulation.cost.vector_bytes_per_s?,
            gpus: self.gpus.clone(),
            shares,
        })
    }

    /// Returns a number that is unique in the trial.
    pub(crate) fn next_id(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes the world of one invocation on `spec`'s machine.
    pub(crate) fn world(
        self: &Arc<Self>,
        task: Task,
        spec: StationSpec,
        is_built: Arc<AtomicBool>,
    ) -> SystemResult<Invoked> {
        // The machine.
        let work = Work {
            rank: task.rank,
            function: task.function.clone(),
        };
        let station = Arc::new(Station::new(
            &self.engine,
            &self.services,
            &self.arithmetic,
            spec,
            Chance::new(&task, self.profile()),
            work,
        ));
        // The model on it.
        let compute = ModelledCompute {
            trial: self.clone(),
            station: station.clone(),
            is_built,
            real: self.real.as_ref().map(|make| (**make)()).transpose()?,
        };
        // The channels from it, and the faults that are injected.
        let mut channels = channels(&station);
        let faults = &self.simulation.faults;
        let injected = (!faults.is_empty()).then(|| Injected {
            faults: Faults::new(faults, &task.function),
            station: station.clone(),
            recorder: self.records.clone(),
            messages: MessageFaults::new(self.records.clone()),
        });
        if let Some(injected) = &injected {
            channels.queue = injected.messages.before(channels.queue);
        }
        let death = injected.as_ref().map(|_| station.fate.death());
        let compute: Box<dyn Compute> = match &injected {
            Some(injected) => HookedCompute::boxed(injected.clone(), Box::new(compute)),
            None => Box::new(compute),
        };
        let requests = Arc::new(Asking {
            requests: self.requests.clone(),
            station: station.clone(),
        });
        let mut world = World::new(
            task,
            &channels,
            compute,
            requests,
            station.clone(),
            self.records.clone(),
        );
        if let Some(injected) = injected {
            world = world.with_stage_hook(Arc::new(injected));
        }
        Ok(Invoked {
            world,
            station,
            death,
        })
    }

    /// Spawns an invocation: of thousands that run at once, the engine polls only those
    /// that were woken.
    pub(crate) fn run(&self, invoked: Invoked) -> Handle<SystemResult<Outcome>> {
        let (system, arithmetic) = (self.system, self.arithmetic.clone());
        let most_requests = self.most_requests.clone();
        let Invoked {
            mut world, death, ..
        } = invoked;
        let code = async move {
            let outcome = arithmetic.scope(system.run(&mut world)).await;
            // Arithmetic after the last request takes time, too.
            world.clock.sleep(Duration::ZERO).await;
            let mut most = locked(&most_requests);
            let of_function = most.entry(world.task.function.clone()).or_default();
            *of_function = of_function.zip(world.object_requests(), u64::max);
            outcome
        };
        let Some(death) = death else {
            return self.engine.spawn(code);
        };
        self.engine.spawn(async move {
            match select(Box::pin(code), death).await {
                Either::Left((outcome, _)) => outcome,
                // The sender lives as long as the code.
                Either::Right((reason, _)) => Err(SystemError::Compute(
                    reason.unwrap_or("its process ended").to_owned(),
                )),
            }
        })
    }

    /// Returns the peak memory of an invocation, MB: the worker's own, its data, and the larger
    /// of a training step and the vectors that are exchanged. A step's own holds its mini-batch.
    pub(crate) fn peak_mb(&self, task: &Task, held: &Held) -> f64 {
        let bound = self.system.bind(&task.job);
        let gradients = bound.map_or(0.0, |bound| {
            bound.resident_gradients(&task.function, task.rank)
        });
        let mb = |bytes: f64| bytes / f64::from(1 << 20);
        let exchanged = mb(gradients * self.simulation.sizes.gradient_bytes() as f64);
        let step = match held.step_samples() {
            0 => 0.0,
            samples => self.simulation.cost.peak_mb(samples),
        };
        let batch_bytes = held.step_samples() * task.job.data.record_bytes;
        let data = mb(held.data_bytes().saturating_sub(batch_bytes as u64) as f64);
        self.profile().function.resident_mb + data + exchanged.max(step)
    }

    /// Records an invocation that ended.
    pub(crate) fn record(&self, mut invocation: Invocation) {
        invocation.alike = self.alike(invocation.task.rank);
        locked(&self.invocations).add(invocation);
    }

    /// Returns the number of workers for which `rank` stands, itself included.
    pub(crate) fn alike(&self, rank: usize) -> u64 {
        self.services.population.stands_for(rank)
    }
}

/// Returns the error of `task`, which failed for `reason`.
fn failed(task: &Task, reason: impl ToString) -> InvokeError {
    InvokeError {
        function: task.function.clone(),
        rank: task.rank,
        reason: reason.to_string(),
    }
}

/// The records of a trial.
pub(crate) struct Records {
    keeps_steps: bool,
    population: Arc<Population>,
    pub(crate) kept: Mutex<Vec<Record>>,
    pub(crate) totals: Mutex<Totals>,
    /// An observer that receives the number of ended steps.
    progress: Box<dyn Fn(u64) + Send + Sync>,
}

impl Records {
    pub(crate) fn new(
        keeps_steps: bool,
        population: Arc<Population>,
        progress: Box<dyn Fn(u64) + Send + Sync>,
    ) -> Self {
        Self {
            keeps_steps,
            population,
            kept: Mutex::default(),
            totals: Mutex::default(),
            progress,
        }
    }
}

impl Recorder for Records {
    /// Notes for how many workers a step's worker stands.
    fn record(&self, record: Record) {
        let Record::Step(mut step) = record else {
            locked(&self.kept).push(record);
            return;
        };
        step.alike = self.population.stands_for(step.rank);
        let mut totals = locked(&self.totals);
        totals.note(&step);
        (self.progress)(totals.steps);
        if self.keeps_steps {
            locked(&self.kept).push(Record::Step(step));
        }
    }
}
