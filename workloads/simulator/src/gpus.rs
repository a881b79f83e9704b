//! The GPUs of a trial: which worker computes on which, how functions share one, and how
//! busy each was.
//!
//! A step keeps a GPU busy for the time of its samples; for the rest, its fixed time, the
//! host prepares and launches. Alone, a function leaves the GPU idle for that time; on a
//! shared GPU, others compute in it. With n functions whose steps keep a GPU busy for a
//! share u of their time, the throughput of the GPU is min(n, 1/u) times that of one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use epochcost_systems::{GpuUsage, Record};

use crate::engine::{Engine, locked};
use crate::limits::{Infeasible, Limit};
use crate::model::Simulation;
use crate::profile::GpuModel;
use crate::resource::Resource;

/// Samples per second of a GPU's use, as NVML's on real ones.
const SAMPLES_PER_S: f64 = 5.0;

/// The GPUs of a trial, as one of the trainings at once sees them.
#[derive(Clone)]
pub(crate) struct Gpus {
    engine: Engine,
    model: Option<GpuModel<f64>>,
    workers: usize,
    has_limits: bool,
    /// Trainings on them at once, and which of these this is.
    jobs: u64,
    job: u64,
    devices: Arc<Mutex<BTreeMap<usize, Device>>>,
}

/// One GPU.
struct Device {
    /// Its time, which the functions on it share.
    time: Resource,
    /// Seconds in which it computed.
    busy_s: f64,
    began: u64,
    ended: u64,
    /// Memory of each worker of each training on it, MB.
    memory_mb: BTreeMap<(u64, usize), f64>,
}

/// A computation of a step, or an evaluation.
#[derive(Clone, Copy)]
pub(crate) struct GpuWork {
    /// The worker.
    pub(crate) rank: usize,
    /// Whether it is a function's, which may share its GPU.
    pub(crate) shares: bool,
    /// Seconds that it takes alone.
    pub(crate) seconds: f64,
    /// Seconds of these in which the GPU computes.
    pub(crate) busy_s: f64,
    /// Memory of the model and the samples, MB.
    pub(crate) memory_mb: f64,
}

impl Gpus {
    pub(crate) fn new(engine: &Engine, simulation: &Simulation) -> Self {
        Self {
            engine: engine.clone(),
            model: simulation.profile.function.gpu.clone(),
            workers: simulation.job.workers,
            has_limits: simulation.has_limits,
            jobs: simulation.jobs,
            job: 0,
            devices: Arc::default(),
        }
    }

    /// Returns them as another training sees them.
    pub(crate) fn of_job(&self, job: u64) -> Self {
        Self {
            job,
            ..self.clone()
        }
    }

    /// Returns the number of functions of a training per GPU.
    fn sharing(&self, work: &GpuWork) -> usize {
        let model = self.model.as_ref().filter(|_| work.shares);
        model.map_or(1, |model| model.functions.round().max(1.0) as usize)
    }

    /// Returns the GPU of a worker: as in KubeML, its rank modulo their number. Instances are each
    /// training's own.
    fn number(&self, work: &GpuWork) -> usize {
        work.rank % self.workers.div_ceil(self.sharing(work)).max(1)
    }

    /// Changes the GPU of `work`, which begins to exist with its first.
    fn with<R>(&self, work: &GpuWork, change: impl FnOnce(&mut Device) -> R) -> R {
        let mut devices = locked(&self.devices);
        let device = devices.entry(self.number(work)).or_insert_with(|| Device {
            time: Resource::new(&self.engine, 1.0),
            busy_s: 0.0,
            began: self.engine.now(),
            ended: 0,
            memory_mb: BTreeMap::new(),
        });
        change(device)
    }

    /// Computes, at the speed that the other functions on the GPU leave.
    pub(crate) async fn compute(&self, work: &GpuWork) {
        let time = self.with(work, |device| device.time.clone());
        let is_shared = self.sharing(work) > 1 || (self.jobs > 1 && work.shares);
        let is_shared = is_shared && work.busy_s > 0.0;
        if is_shared && work.seconds > 0.0 {
            let most = work.busy_s / work.seconds;
            time.consume(work.busy_s, most).await;
        } else {
            self.engine.seconds(work.seconds).await;
        }
        self.note(work);
    }

    /// Counts a computation that ended now.
    pub(crate) fn note(&self, work: &GpuWork) {
        let now = self.engine.now();
        let context_mb = self.model.as_ref().map_or(0.0, |model| model.context_mb);
        self.with(work, |device| {
            let began = now.saturating_sub((work.seconds * 1e9) as u64);
            device.began = device.began.min(began);
            device.ended = now;
            device.busy_s += work.busy_s;
            let memory_mb = device.memory_mb.entry((self.job, work.rank)).or_default();
            *memory_mb = memory_mb.max(work.memory_mb + context_mb);
        });
    }

    /// Returns the GPU whose memory does not hold the models of its functions, if any.
    pub(crate) fn exceeded(&self) -> Option<Infeasible> {
        let limit_mb = self.model.as_ref().filter(|_| self.has_limits)?.memory_mb;
        let devices = locked(&self.devices);
        devices.iter().find_map(|(number, device)| {
            let functions = device.memory_mb.len();
            let needed_mb = device.memory_mb();
            let is_over = functions > 1 && needed_mb > limit_mb;
            is_over.then(|| Infeasible {
                limit: Limit::Memory,
                reason: format!(
                    "{functions} functions on GPU {number} need {needed_mb:.0} MB of {limit_mb:.0} MB"
                ),
            })
        })
    }

    /// Returns how each GPU was used, from its first computation to its last.
    pub(crate) fn usage(&self) -> Vec<Record> {
        let devices = locked(&self.devices);
        let usage = devices.iter().map(|(number, device)| {
            let seconds = device.ended.saturating_sub(device.began) as f64 * 1e-9;
            let share = if seconds > 0.0 {
                (device.busy_s / seconds).min(1.0)
            } else {
                0.0
            };
            Record::Gpu(GpuUsage {
                rank: *number,
                name: "modelled".to_owned(),
                memory_mb: None,
                device_memory_mb: device.memory_mb(),
                utilisation: share,
                samples: (seconds * SAMPLES_PER_S).ceil() as usize,
            })
        });
        usage.collect()
    }
}

impl Device {
    fn memory_mb(&self) -> f64 {
        self.memory_mb.values().sum()
    }
}
