//! Where an invocation is: its share of cores, its network, its clock.

use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use epochcost_kernels::hash;
use epochcost_systems::{Clock, Pause, PollTarget, SkippedPolls, Task, take_arithmetic_bytes};
use futures_util::future::{Either, select};

use crate::engine::{Engine, locked, nanoseconds};
use crate::profile::{Profile, ServiceModel};
use crate::resource::Resource;
use crate::services::Services;

/// Where neither a look nor the pause after it takes time, time would stand
/// still for ever.
const LEAST_PERIOD: Duration = Duration::from_millis(1);

/// What one invocation, or one instance, computes and communicates with.
pub(crate) struct Station {
    pub(crate) engine: Engine,
    /// The cores of the one host that everything shares, if it does.
    host: Option<Resource>,
    uneven: Uneven,
    /// vCPUs that this station may use at once.
    vcpus: f64,
    /// Cores that its threads can use at once.
    threads: f64,
    arithmetic_bytes_per_s: f64,
    /// The network of this station, shared by its own transfers.
    bytes_per_s: f64,
    transfers: Mutex<usize>,
    /// Nanoseconds of arithmetic that were done and not yet waited for.
    debt: AtomicU64,
    /// Nanoseconds of the next request that have passed already.
    ahead: AtomicU64,
    /// When it last paused between two looks.
    paused: AtomicU64,
    pub(crate) services: Services,
}

/// How unevenly a crowded host serves those who compute on it: its scheduler
/// does not let all of them go on alike.
pub(crate) struct Uneven {
    /// Standard deviation of a computation's time, relative to its mean.
    spread: f64,
    seed: u64,
    draws: AtomicU64,
}

impl Uneven {
    /// Of `task` on the host of `profile`: crowded where there are more workers
    /// than cores. Drawn from the job's seed, and what the task is.
    pub(crate) fn of(task: &Task, profile: &Profile<f64>) -> Self {
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

    /// The next computation's time over its mean: uniform, and never negative.
    fn factor(&self) -> f64 {
        let draw = self.draws.fetch_add(1, Ordering::Relaxed);
        let unit = f64::from(hash::unit_f32(hash::mix(self.seed, draw)));
        // A unit of a uniform distribution has a standard deviation of 1 / √12.
        (1.0 + self.spread * 12f64.sqrt() * (unit - 0.5)).max(0.0)
    }
}

/// What a station is made of.
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
        spec: &StationSpec,
        uneven: Uneven,
    ) -> Self {
        Self {
            engine: engine.clone(),
            host: host.cloned(),
            uneven,
            vcpus: spec.vcpus,
            // As the platforms set the threads of a function.
            threads: spec.vcpus.round().max(1.0),
            arithmetic_bytes_per_s: spec.arithmetic_bytes_per_s,
            bytes_per_s: spec.bytes_per_s,
            transfers: Mutex::new(0),
            debt: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
            paused: AtomicU64::new(u64::MAX),
            services: services.clone(),
        }
    }

    /// vCPUs that a computation gets when nobody else wants them. On a shared
    /// host, a function has as many threads as its whole vCPUs, and a thread
    /// uses one core at most.
    pub(crate) fn vcpus(&self) -> f64 {
        match self.host {
            Some(_) => self.vcpus.min(self.threads),
            None => self.vcpus,
        }
    }

    /// Charges for the arithmetic that the system's code did since it last
    /// gave way. Only one station's code runs at a time, up to its next
    /// request, so what was counted is this station's.
    fn note_arithmetic(&self) {
        let bytes = take_arithmetic_bytes();
        if bytes > 0 {
            // Vectors are added up by one thread.
            let rate = self.arithmetic_bytes_per_s * self.vcpus.min(1.0);
            let nanoseconds = nanoseconds(bytes as f64 / rate);
            self.debt.fetch_add(nanoseconds, Ordering::Relaxed);
        }
    }

    /// Lets the time of past arithmetic pass.
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

    /// Computes what takes `core_s` on one core, and `seconds` here if nobody
    /// else computes.
    pub(crate) async fn compute(&self, core_s: f64, seconds: f64) {
        self.settle().await;
        match &self.host {
            // Cores that the serial part of a computation leaves idle are for others.
            Some(host) if seconds > 0.0 => {
                let core_s_here = core_s * self.uneven.factor();
                host.consume(core_s_here, core_s / seconds).await;
            }
            Some(_) => {}
            None => self.engine.seconds(seconds).await,
        }
    }

    /// Lets a request reach its service.
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

/// Counts a transfer while it lasts.
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

    /// Looks are left out up to the one that may find what is watched: the
    /// first whose request reaches the service after a change.
    async fn pause(&self, pause: &Pause<'_>) -> SkippedPolls {
        self.settle().await;
        let (interval, look) = (nanos(pause.interval), nanos(pause.poll));
        let period = interval + look;
        let may_skip = self.services.leaves_out_looks && period > 0;
        if !may_skip || pause.target == PollTarget::Other {
            let now = self.engine.now();
            let stands_still = self.paused.swap(now, Ordering::Relaxed) == now;
            let interval = match stands_still && pause.interval.is_zero() {
                true => LEAST_PERIOD,
                false => pause.interval,
            };
            self.engine.sleep(interval).await;
            return SkippedPolls::default();
        }
        let began = self.engine.now();
        let is_there = pin!(self.services.wait_for(pause.target));
        let looks = match pause.at_most {
            u64::MAX => {
                is_there.await;
                looks_before(self.engine.now() - began, period)
            }
            at_most => {
                let patience = began.saturating_add(period.saturating_mul(at_most));
                match select(is_there, self.engine.until(patience)).await {
                    Either::Left(_) => looks_before(self.engine.now() - began, period),
                    Either::Right(_) => at_most,
                }
            }
        };
        let now = self.engine.now();
        let starts = began + looks * period + interval;
        if starts > now {
            self.engine.until(starts).await;
        }
        let under_way = now.saturating_sub(starts);
        self.ahead.store(under_way, Ordering::Relaxed);
        SkippedPolls {
            count: looks,
            under_way: Duration::from_nanos(under_way),
        }
    }
}

/// How many looks, the first of which reaches its service after `period`, reach
/// it before `elapsed`.
fn looks_before(elapsed: u64, period: u64) -> u64 {
    elapsed.div_ceil(period).saturating_sub(1)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}
