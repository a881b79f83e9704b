//! The machine of an invocation: its share of cores, its network, its clock.

mod chance;
mod fate;
mod lateness;
mod transfer;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use epochcost_channels::ChannelError;
use epochcost_systems::{Arithmetic, ArithmeticMeter, Clock, Pause, PollTarget, SkippedPolls};
use futures_util::future::{Either, select};

pub(crate) use self::chance::Chance;
use self::chance::Jitter;
use self::fate::Fate;
pub(crate) use self::fate::{Asking, Injected};
use self::lateness::Lateness;
use crate::draws::Draws;
use crate::engine::{Engine, locked, nanoseconds};
use crate::gpus::{GpuWork, Gpus};
use crate::network::{Direction, Network, Peer};
use crate::profile::{InterpretedModel, ServiceModel, Spread};
use crate::resource::Resource;
use crate::services::{Backend, Services};

/// Shortest pause after a poll that took no time: with none, virtual time would stand
/// still for ever.
const LEAST_PERIOD: Duration = Duration::from_millis(1);

/// The simulated machine on which one invocation, or one instance, computes and
/// communicates.
pub(crate) struct Station {
    pub(crate) engine: Engine,
    /// The cores of the host, if all stations share one.
    host: Option<Resource>,
    jitter: Jitter,
    pub(crate) spec: StationSpec,
    /// Threads of a computation, each of which uses one core at most.
    threads: f64,
    /// Bytes of vectors that were read and written in it, and not paid for yet.
    device_bytes: AtomicU64,
    /// Replicas of the model on this machine, each on a GPU of its own.
    replicas: AtomicUsize,
    /// What its process held in memory.
    pub(crate) held: Held,
    /// Bytes of vector arithmetic that the trial's systems have done and no station
    /// was charged for.
    arithmetic: ArithmeticMeter,
    draws: Draws,
    /// The network of the VPC that it shares with all functions.
    vpc: Option<Resource>,
    transfers: Mutex<usize>,
    /// Nanoseconds of arithmetic that were done and not waited for yet.
    debt: AtomicU64,
    /// Nanoseconds of the next request that have passed already.
    ahead: AtomicU64,
    /// Instant of the last pause between two polls.
    paused: AtomicU64,
    work: Work,
    /// Injected faults of its process.
    pub(crate) fate: Fate,
    /// Workers for which this one stands, itself included.
    alike: u64,
    /// How late these are behind it; none without draws, and where it stands for itself alone.
    lateness: Option<Mutex<Lateness>>,
    /// Operations on the object store that are under way.
    under_way: AtomicUsize,
    /// The trial's services.
    pub(crate) services: Services,
}

/// The largest of what a process held, which decides how much memory it needed.
#[derive(Default)]
pub(crate) struct Held {
    step_samples: AtomicU64,
    data_bytes: AtomicU64,
}

impl Held {
    /// Notes a step, or an evaluation, of so many samples.
    pub(crate) fn note_step(&self, samples: usize) {
        (self.step_samples).fetch_max(samples as u64, Ordering::Relaxed);
    }

    /// Notes records of the dataset that were fetched at once: a worker's shard stays in memory.
    pub(crate) fn note_data(&self, bytes: u64) {
        self.data_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Returns the samples of the largest step; 0 if there was none.
    pub(crate) fn step_samples(&self) -> usize {
        self.step_samples.load(Ordering::Relaxed) as usize
    }

    /// Returns the bytes of the largest part of the dataset.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes.load(Ordering::Relaxed)
    }
}

/// An operation that is under way.
pub(crate) struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The worker and the function of a station.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) rank: usize,
    pub(crate) function: String,
}

/// The memory of a GPU.
#[derive(Clone)]
pub(crate) struct DeviceMemory {
    /// Bytes of vectors per second.
    pub(crate) bytes_per_s: f64,
    pub(crate) gpus: Arc<Gpus>,
    /// Whether other functions may share the GPU.
    pub(crate) shares: bool,
}

/// Sizes and rates of a station.
pub(crate) struct StationSpec {
    /// vCPUs that it may use at once.
    pub(crate) vcpus: f64,
    pub(crate) arithmetic_bytes_per_s: f64,
    /// The memory in which the model is; none: the machine's.
    pub(crate) device: Option<DeviceMemory>,
    /// The network of this station, shared by its own transfers.
    pub(crate) bytes_per_s: f64,
    /// Credit and connections of the sandbox.
    pub(crate) network: Arc<Network>,
    /// What the client takes in addition, if it is interpreted.
    pub(crate) interpreted: Option<InterpretedModel<f64>>,
    /// Whether payloads become vectors, which the client decodes and encodes.
    pub(crate) has_codec: bool,
    /// Times of one computation over their mean.
    pub(crate) compute_spread: Option<Spread>,
    /// Whether it may share its GPU with others.
    pub(crate) shares_gpu: bool,
    /// Whether it is a function's, which share the network of a VPC.
    pub(crate) is_function: bool,
}

impl Station {
    pub(crate) fn new(
        engine: &Engine,
        services: &Services,
        arithmetic: &ArithmeticMeter,
        spec: StationSpec,
        chance: Chance,
        work: Work,
    ) -> Self {
        let alike = services.population.stands_for(work.rank);
        let drawn = chance.draws.seed().filter(|_| alike > 1);
        Self {
            alike,
            lateness: drawn.map(|seed| Mutex::new(Lateness::new(seed))),
            under_way: AtomicUsize::new(0),
            work,
            fate: Fate::default(),
            engine: engine.clone(),
            host: services.host.clone(),
            jitter: chance.jitter,
            draws: chance.draws,
            // Platforms set as many threads for a function.
            threads: spec.vcpus.round().max(1.0),
            device_bytes: AtomicU64::new(0),
            replicas: AtomicUsize::new(1),
            held: Held::default(),
            arithmetic: arithmetic.clone(),
            vpc: services.vpc.clone().filter(|_| spec.is_function),
            transfers: Mutex::new(0),
            debt: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
            paused: AtomicU64::new(u64::MAX),
            services: services.clone(),
            spec: StationSpec {
                // On a shared host, its cores do the arithmetic of models.
                device: spec.device.filter(|_| services.host.is_none()),
                ..spec
            },
        }
    }

    /// Returns the vCPUs that a computation gets on an idle machine. On a shared host,
    /// a function has as many threads as its whole vCPUs, and a thread uses one core
    /// at most.
    pub(crate) fn vcpus(&self) -> f64 {
        match self.host {
            Some(_) => self.spec.vcpus.min(self.threads),
            None => self.spec.vcpus,
        }
    }

    /// Returns the rank of the worker.
    pub(crate) fn rank(&self) -> usize {
        self.work.rank
    }

    /// Returns the number of workers that use a service as this one does, at the same time.
    pub(crate) fn alike(&self) -> u64 {
        self.alike
    }

    /// Returns the number of workers that use one tensor store as this one does, at the same time.
    pub(crate) fn alike_at_store(&self, direction: Direction) -> u64 {
        let is_read = direction == Direction::Read;
        let population = &self.services.population;
        population.at_store(self.work.rank, &self.work.function, is_read)
    }

    /// Charges for the arithmetic that the system's code did since its last request.
    /// One station's code runs at a time, up to its next request, so that the count
    /// is this station's.
    fn note_arithmetic(&self) {
        let Arithmetic {
            mut host_bytes,
            mut device_bytes,
        } = self.arithmetic.take();
        if self.spec.device.is_none() {
            host_bytes += std::mem::take(&mut device_bytes);
        }
        if host_bytes > 0 {
            // One thread adds vectors.
            let rate = self.spec.arithmetic_bytes_per_s * self.spec.vcpus.min(1.0);
            let nanoseconds = nanoseconds(host_bytes as f64 / rate);
            self.debt.fetch_add(nanoseconds, Ordering::Relaxed);
        }
        self.device_bytes.fetch_add(device_bytes, Ordering::Relaxed);
    }

    /// Takes the time of arithmetic in the memory of the GPU, or at once of those of all replicas.
    async fn settle_on_device(&self, bytes: u64) {
        let Some(device) = self.spec.device.as_ref().filter(|_| bytes > 0) else {
            return;
        };
        let seconds = bytes as f64 / device.bytes_per_s;
        let work = |rank| GpuWork {
            rank,
            shares: device.shares,
            seconds,
            busy_s: seconds,
            memory_mb: 0.0,
        };
        device.gpus.compute(&work(self.work.rank)).await;
        for replica in 1..self.replicas.load(Ordering::Relaxed) {
            device.gpus.note(&work(self.work.rank + replica));
        }
    }

    /// Notes the number of replicas of the model on this machine.
    pub(crate) fn note_replicas(&self, replicas: usize) {
        self.replicas.store(replicas.max(1), Ordering::Relaxed);
    }

    /// Waits for the time of past arithmetic, and undergoes the faults that were met.
    pub(crate) async fn settle(&self) {
        self.undergo().await;
        self.note_arithmetic();
        // Taken together: requests at once pay for what was before them once, in turn.
        let debt = self.debt.swap(0, Ordering::Relaxed);
        let device_bytes = self.device_bytes.swap(0, Ordering::Relaxed);
        if debt > 0 {
            match &self.host {
                Some(host) => {
                    let share = self.spec.vcpus.min(1.0);
                    host.consume(debt as f64 * 1e-9 * share, share).await;
                }
                None => self.engine.until(self.engine.now() + debt).await,
            }
        }
        self.settle_on_device(device_bytes).await;
    }

    /// Computes for `core_s` of one core, which take `seconds` here if no other station
    /// computes.
    pub(crate) async fn compute(&self, core_s: f64, seconds: f64) {
        self.settle().await;
        match &self.host {
            // The serial part of a computation leaves cores to other stations.
            Some(host) if seconds > 0.0 => {
                let core_s_here = core_s * self.jitter.factor();
                host.consume(core_s_here, core_s / seconds).await;
            }
            Some(_) => {}
            None => {
                let factor = self.drawn(self.spec.compute_spread.as_ref(), seconds);
                self.engine.seconds(seconds * factor).await;
            }
        }
    }

    /// Draws how long an event of `mean_s` on average takes over that mean.
    fn drawn(&self, spread: Option<&Spread>, mean_s: f64) -> f64 {
        let factor = self.draws.factor(spread);
        if let (Some(lateness), Some(spread)) = (&self.lateness, spread) {
            // Of several at once, each delays the whole by its part.
            let at_once = self.under_way.load(Ordering::Relaxed).max(1);
            locked(lateness).note(spread, mean_s / at_once as f64, factor);
        }
        factor
    }

    /// Counts an operation as under way until the guard is dropped.
    pub(crate) fn begin_operation(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(&self.under_way)
    }

    /// Returns the instant at which worker `other`, for which this one stands, comes to where it
    /// is now.
    pub(crate) fn instant_of(&self, other: usize) -> u64 {
        let late = match &self.lateness {
            Some(lateness) if other != self.work.rank => locked(lateness).of(other),
            _ => 0,
        };
        self.engine.now() + late
    }

    /// Does `act` with each of `all`, at the instant of each: now, where that is now.
    pub(crate) fn at_instants<T, F, A>(&self, mut all: Vec<(u64, T)>, act: A)
    where
        T: Send + 'static,
        F: Future<Output = ()> + Send + 'static,
        A: Fn(T) -> F + Send + Sync + 'static,
    {
        // The sort is stable: what is due at one instant keeps its order.
        all.sort_by_key(|(at, _)| *at);
        let engine = self.engine.clone();
        self.engine.detach(async move {
            for (at, one) in all {
                engine.until(at).await;
                act(one).await;
            }
        });
    }

    /// Computes `work` on its GPU.
    pub(crate) async fn compute_on(&self, gpus: &Gpus, work: GpuWork) {
        if self.host.is_some() {
            self.compute(work.seconds, work.seconds).await;
            return gpus.note(&work);
        }
        self.settle().await;
        let factor = self.drawn(self.spec.compute_spread.as_ref(), work.seconds);
        let work = GpuWork {
            seconds: work.seconds * factor,
            busy_s: work.busy_s * factor,
            ..work
        };
        gpus.compute(&work).await;
    }

    /// Makes a client of the object store, in programs that make one per request: its next
    /// request opens a connection.
    ///
    /// Returns whether the program is one of these.
    pub(crate) async fn make_client(&self) -> bool {
        let model = self.spec.interpreted.as_ref();
        let Some(core_s) = model.and_then(|model| model.client_core_s) else {
            return false;
        };
        self.settle().await;
        self.spec.network.disconnect(Peer::Objects);
        self.engine.seconds(core_s / self.spec.vcpus.min(1.0)).await;
        true
    }

    /// Waits until a request reaches its server over a connection that exists since the instant
    /// `connected`, and as long as a broken server lets it wait.
    ///
    /// # Errors
    /// [`ChannelError::Unreachable`] while the server is dead, and if it died since.
    pub(crate) async fn request(
        &self,
        server: &Backend,
        direction: Direction,
        connected: u64,
    ) -> Result<(), ChannelError> {
        let (service, peer) = (&*server.model, server.peer);
        self.settle().await;
        if let Some(host) = &self.host {
            host.consume(service.host_core_s_per_request, self.spec.vcpus.min(1.0))
                .await;
        }
        let (mean_s, spread) = match direction {
            Direction::Read => (service.request_latency_s, &service.read_spread),
            Direction::Write => (
                service.write_latency_s.unwrap_or(service.request_latency_s),
                &service.write_spread,
            ),
        };
        if let Some(lateness) = self.lateness.as_ref().filter(|_| peer == Peer::Objects) {
            locked(lateness).request(direction == Direction::Read);
        }
        let mut latency_s = mean_s * self.drawn(spread.as_ref(), mean_s);
        let opens = |_: &f64| self.spec.network.connects(peer);
        if let Some(connection_s) = service.connection_s.filter(opens) {
            latency_s += connection_s;
        }
        if let Some(client) = &self.spec.interpreted {
            latency_s += client.request_core_s / self.spec.vcpus.min(1.0);
        }
        let ahead = self.ahead.swap(0, Ordering::Relaxed);
        let latency = nanoseconds(latency_s).saturating_sub(ahead);
        if latency > 0 {
            self.engine.until(self.engine.now() + latency).await;
        }
        server.pass(&self.engine, connected).await
    }

    /// Sends a message of `bytes` to another station: the latency of a request between
    /// instances, which is that of one to a tensor store, and the time of the bytes on
    /// this station's network, whose other direction is free.
    pub(crate) async fn link(&self, bytes: u64) {
        self.settle().await;
        let store = self.services.tensors.first();
        let model = store.map(|store| &store.server.model);
        let core_s = |of: fn(&ServiceModel<f64>) -> f64| model.map_or(0.0, |model| of(model));
        if let Some(host) = &self.host {
            let per_byte = core_s(|service| service.host_core_s_per_byte);
            let used = core_s(|service| service.host_core_s_per_request);
            let used = used + bytes as f64 * per_byte;
            host.consume(used, self.spec.vcpus.min(1.0)).await;
        }
        let latency_s = core_s(|service| service.request_latency_s);
        let seconds = latency_s + bytes as f64 / self.spec.bytes_per_s;
        self.engine.seconds(seconds).await;
    }
}

#[async_trait]
impl Clock for Station {
    fn now(&self) -> Duration {
        self.note_arithmetic();
        let bytes = self.device_bytes.load(Ordering::Relaxed) as f64;
        let device = self.spec.device.as_ref();
        let on_device = device.map_or(0.0, |device| bytes / device.bytes_per_s);
        let debt = self.debt.load(Ordering::Relaxed) + nanoseconds(on_device);
        Duration::from_nanos(self.engine.now() + debt)
    }

    async fn sleep(&self, duration: Duration) {
        self.settle().await;
        self.engine.sleep(duration).await;
    }

    /// Leaves out polls up to the one that may find what is awaited: the first whose
    /// request reaches the service after a change.
    async fn pause(&self, pause: &Pause<'_>) -> SkippedPolls {
        // Where polls may not be left out, only the interval passes.
        self.settle().await;
        let (interval, poll) = (nanos(pause.interval), nanos(pause.poll));
        let period = interval + poll;
        let may_skip = self.services.leaves_out_polls && period > 0;
        if !may_skip || pause.target == PollTarget::Other {
            let now = self.engine.now();
            let stands_still = self.paused.swap(now, Ordering::Relaxed) == now;
            let interval = if stands_still && pause.interval.is_zero() {
                LEAST_PERIOD
            } else {
                pause.interval
            };
            self.engine.sleep(interval).await;
            // All that wait for the same workers go on when the last of these has come.
            if let Some(lateness) = &self.lateness {
                locked(lateness).release();
            }
            return SkippedPolls::default();
        }
        // Time passes until the change, or until as many polls as may be left out.
        let began = self.engine.now();
        let changed = pin!(self.services.wait_for(pause.target));
        let polls = match pause.at_most {
            u64::MAX => {
                changed.await;
                polls_before(self.engine.now() - began, period)
            }
            at_most => {
                let patience = began.saturating_add(period.saturating_mul(at_most));
                match select(changed, self.engine.until(patience)).await {
                    Either::Left(_) => polls_before(self.engine.now() - began, period),
                    Either::Right(_) => at_most,
                }
            }
        };
        // The next poll may be under way: then its request has part of its latency
        // behind it.
        let now = self.engine.now();
        if let Some(lateness) = self.lateness.as_ref().filter(|_| now > began) {
            locked(lateness).release();
        }
        let starts = began + polls * period + interval;
        if starts > now {
            self.engine.until(starts).await;
        }
        let under_way = now.saturating_sub(starts);
        self.ahead.store(under_way, Ordering::Relaxed);
        SkippedPolls {
            count: polls,
            under_way: Duration::from_nanos(under_way),
        }
    }
}

/// Returns how many polls, the first of which reaches its service after `period`,
/// reach it before `elapsed`.
fn polls_before(elapsed: u64, period: u64) -> u64 {
    elapsed.div_ceil(period).saturating_sub(1)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}
