//! The machine of an invocation: its share of cores, its network, its clock.

use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use epochcost_kernels::hash;
use epochcost_systems::{ArithmeticMeter, Clock, Pause, PollTarget, SkippedPolls, Task};
use futures_util::future::{Either, select};

use crate::engine::{Engine, locked, nanoseconds};
use crate::profile::{Profile, ServiceModel};
use crate::resource::Resource;
use crate::services::Services;

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
    /// vCPUs that this station may use at once.
    vcpus: f64,
    /// Threads of a computation, each of which uses one core at most.
    threads: f64,
    arithmetic_bytes_per_s: f64,
    /// Bytes of vector arithmetic that the trial's systems have done and no station
    /// was charged for.
    arithmetic: ArithmeticMeter,
    /// The network of this station, shared by its own transfers.
    bytes_per_s: f64,
    transfers: Mutex<usize>,
    /// Nanoseconds of arithmetic that were done and not waited for yet.
    debt: AtomicU64,
    /// Nanoseconds of the next request that have passed already.
    ahead: AtomicU64,
    /// Instant of the last pause between two polls.
    paused: AtomicU64,
    /// The trial's services.
    pub(crate) services: Services,
}

/// Random differences in how fast a crowded host serves those that compute on it:
/// its scheduler does not let all of them progress alike.
pub(crate) struct Jitter {
    /// Standard deviation of a computation's time, relative to its mean.
    spread: f64,
    seed: u64,
    draws: AtomicU64,
}

impl Jitter {
    /// Makes the jitter of `task` on the host of `profile`, which is crowded if
    /// there are more workers than cores. Seeded by the job's seed and the task.
    pub(crate) fn new(task: &Task, profile: &Profile<f64>) -> Self {
        let host = profile.host.as_ref();
        let crowded = host.filter(|host| task.job.workers as f64 > host.cores);
        let batch = task.batch.map_or(0, |batch| batch as u64 + 1);
        let numbers = [task.rank as u64, task.epoch as u64, batch];
        let letters = task.function.bytes().map(u64::from);
        Self {
            spread: crowded.map_or(0.0, |host| host.compute_spread),
            seed: numbers
                .into_iter()
                .chain(letters)
                .fold(task.job.seed, hash::mix),
            draws: AtomicU64::new(0),
        }
    }

    /// Returns the next computation's time relative to the mean: uniform, and never
    /// negative.
    fn factor(&self) -> f64 {
        let draw = self.draws.fetch_add(1, Ordering::Relaxed);
        let unit = f64::from(hash::unit_f32(hash::mix(self.seed, draw)));
        // A unit of a uniform distribution has a standard deviation of 1 / √12.
        (1.0 + self.spread * 12f64.sqrt() * (unit - 0.5)).max(0.0)
    }
}

/// Sizes and rates of a station.
pub(crate) struct StationSpec {
    pub(crate) vcpus: f64,
    pub(crate) arithmetic_bytes_per_s: f64,
    pub(crate) bytes_per_s: f64,
}

impl Station {
    pub(crate) fn new(
        engine: &Engine,
        host: Option<&Resource>,
        services: &Services,
        arithmetic: &ArithmeticMeter,
        spec: &StationSpec,
        jitter: Jitter,
    ) -> Self {
        Self {
            engine: engine.clone(),
            host: host.cloned(),
            jitter,
            vcpus: spec.vcpus,
            // Platforms set as many threads for a function.
            threads: spec.vcpus.round().max(1.0),
            arithmetic_bytes_per_s: spec.arithmetic_bytes_per_s,
            arithmetic: arithmetic.clone(),
            bytes_per_s: spec.bytes_per_s,
            transfers: Mutex::new(0),
            debt: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
            paused: AtomicU64::new(u64::MAX),
            services: services.clone(),
        }
    }

    /// Returns the vCPUs that a computation gets on an idle machine. On a shared host,
    /// a function has as many threads as its whole vCPUs, and a thread uses one core
    /// at most.
    pub(crate) fn vcpus(&self) -> f64 {
        match self.host {
            Some(_) => self.vcpus.min(self.threads),
            None => self.vcpus,
        }
    }

    /// Charges for the arithmetic that the system's code did since its last request.
    /// One station's code runs at a time, up to its next request, so that the count
    /// is this station's.
    fn note_arithmetic(&self) {
        let bytes = self.arithmetic.take();
        if bytes > 0 {
            // One thread adds vectors.
            let rate = self.arithmetic_bytes_per_s * self.vcpus.min(1.0);
            let nanoseconds = nanoseconds(bytes as f64 / rate);
            self.debt.fetch_add(nanoseconds, Ordering::Relaxed);
        }
    }

    /// Waits for the time of past arithmetic.
    pub(crate) async fn settle(&self) {
        self.note_arithmetic();
        let debt = self.debt.swap(0, Ordering::Relaxed);
        if debt == 0 {
            return;
        }
        match &self.host {
            Some(host) => {
                let share = self.vcpus.min(1.0);
                host.consume(debt as f64 * 1e-9 * share, share).await;
            }
            None => self.engine.until(self.engine.now() + debt).await,
        }
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
            None => self.engine.seconds(seconds).await,
        }
    }

    /// Waits until a request reaches its service.
    pub(crate) async fn request(&self, service: &ServiceModel<f64>) {
        self.settle().await;
        if let Some(host) = &self.host {
            host.consume(service.host_core_s_per_request, self.vcpus.min(1.0))
                .await;
        }
        let ahead = self.ahead.swap(0, Ordering::Relaxed);
        let latency = nanoseconds(service.request_latency_s).saturating_sub(ahead);
        if latency > 0 {
            self.engine.until(self.engine.now() + latency).await;
        }
    }

    /// Sends a message of `bytes` to another station: the latency of a request between
    /// instances, which is that of one to a tensor store, and the time of the bytes on
    /// this station's network, whose other direction is free.
    pub(crate) async fn link(&self, bytes: u64) {
        self.settle().await;
        let model = self
            .services
            .tensors
            .first()
            .map(|store| &store.model.service);
        let core_s = |of: fn(&ServiceModel<f64>) -> f64| model.map_or(0.0, of);
        if let Some(host) = &self.host {
            let per_byte = core_s(|service| service.host_core_s_per_byte);
            let used = core_s(|service| service.host_core_s_per_request);
            let used = used + bytes as f64 * per_byte;
            host.consume(used, self.vcpus.min(1.0)).await;
        }
        let latency_s = core_s(|service| service.request_latency_s);
        let seconds = latency_s + bytes as f64 / self.bytes_per_s;
        self.engine.seconds(seconds).await;
    }

    /// Moves `bytes` between this station and a server.
    pub(crate) async fn transfer(
        &self,
        service: &ServiceModel<f64>,
        server: &Resource,
        bytes: u64,
    ) {
        if bytes == 0 {
            return;
        }
        let _transfer = Transfer::begin(&self.transfers);
        let own = self.bytes_per_s / *locked(&self.transfers) as f64;
        let rate = service.stream_bytes_per_s.min(own);
        match &self.host {
            Some(host) if service.host_core_s_per_byte > 0.0 => {
                let cost = service.host_core_s_per_byte;
                host.consume(bytes as f64 * cost, rate * cost).await;
            }
            _ => server.consume(bytes as f64, rate).await,
        }
    }
}

/// A transfer, counted until it is dropped.
struct Transfer<'a>(&'a Mutex<usize>);

impl<'a> Transfer<'a> {
    fn begin(transfers: &'a Mutex<usize>) -> Self {
        *locked(transfers) += 1;
        Self(transfers)
    }
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        *locked(self.0) -= 1;
    }
}

#[async_trait]
impl Clock for Station {
    fn now(&self) -> Duration {
        self.note_arithmetic();
        Duration::from_nanos(self.engine.now() + self.debt.load(Ordering::Relaxed))
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
