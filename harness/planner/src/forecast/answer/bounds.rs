//! Lower bounds of a setting's seconds and dollars: those of computing its gradients.

use epochcost_simulator::profile::{ModelCost, Profile};
use epochcost_spec::cost::{self, CostModel, PriceBook};
use epochcost_spec::rows::Row;
use epochcost_systems::{BoundSystem, Deployment, Device, Host, Job, State, find};

use super::bench::{Bench, Point, reference};
use super::goal::Price;
use crate::forecast::places::Draw;

/// Share by which bounds are lower than what they are computed from, for rounding.
const ROUNDING: f64 = 1e-6;

/// No bound.
const NOTHING: Price = Price {
    seconds: 0.0,
    usd: 0.0,
};

/// Where and for how long the gradients of a point are computed.
struct Work {
    host: Host,
    /// Seconds of all steps on the vCPUs or the GPU of one worker.
    compute_s: f64,
    /// Most steps that are computed at the same time.
    at_once: f64,
    /// Memory of a function that computes a step, MB.
    memory_mb: f64,
}

/// Returns the seconds and dollars that no simulation of a point in a draw goes below: every gradient is
/// computed, on as many machines or functions as there can be, and these are paid for as long.
///
/// # Errors
/// The reason why it is impossible.
pub(super) fn before(bench: &Bench<'_>, point: &Point, draw: Draw) -> Result<Price, String> {
    known(bench, point, draw).unwrap_or(Ok(NOTHING))
}

/// Returns the bound of a point; none where there is none.
fn known(bench: &Bench<'_>, point: &Point, draw: Draw) -> Option<Result<Price, String>> {
    let site = &bench.sites[point.site];
    let (row, job) = (&point.row, &point.row.job);
    let (profile, prices) = bench.at(point, draw);
    let (profile, prices) = (&*profile, &*prices);
    // Draws of single events and shares of one machine are not bounded here.
    if profile.draws.is_some() || profile.host.is_some() {
        return None;
    }
    let reference = reference(bench.stands, row, site.device())?;
    let system = find(&job.system)?;
    let bound = system.bind(job).ok()?;
    let deployment = system.deployment();
    let cost = site.cost(&reference, draw);
    let work = work(row, &*bound, &deployment, profile, &cost)?;
    let size_mb = f64::from(row.memory_mb);
    if bench.stands.limits && work.host == Host::Function && work.memory_mb > size_mb {
        let needs_mb = work.memory_mb;
        return Some(Err(format!(
            "a step needs {needs_mb:.0} MB of {size_mb} MB"
        )));
    }
    let boot_s = match work.host {
        Host::Function => 0.0,
        Host::Instance => profile.instance.boot_s,
    };
    let usd = match bench.account {
        CostModel::Full => usd(row, &work, &deployment, profile, prices),
        CostModel::Paper => 0.0,
    };
    let below = |figure: f64| figure * (1.0 - ROUNDING);
    Some(Ok(Price {
        seconds: below(boot_s + work.compute_s / work.at_once),
        usd: below(usd),
    }))
}

/// Returns the work of a point; none where its functions and instances both compute.
fn work(
    row: &Row,
    bound: &dyn BoundSystem,
    deployment: &Deployment,
    profile: &Profile<f64>,
    cost: &ModelCost,
) -> Option<Work> {
    let job = &row.job;
    let fan_out = bound.states().into_iter().find_map(|state| match state {
        State::Batches { function, .. } => Some(function),
        State::Task { .. } => None,
    });
    let host = match fan_out {
        Some(function) => deployment.host_of(function),
        None => {
            let host = deployment.worker_host();
            let mut functions = deployment.functions.iter();
            functions
                .all(|function| function.host == host)
                .then_some(host)?
        }
    };
    let vcpus = match host {
        Host::Function => profile.function.vcpus(row.memory_mb),
        Host::Instance => profile.instance.vcpus,
    };
    let batches = job.workers * job.batches_per_worker;
    let workers = job.workers as f64;
    let at_once = match fan_out {
        Some(_) if host == Host::Function => profile.function.concurrency_limit.min(batches as f64),
        Some(_) => batches as f64,
        None => workers,
    };
    Some(Work {
        host,
        compute_s: compute_s(job, cost, vcpus),
        at_once: at_once.max(1.0),
        memory_mb: profile.function.resident_mb + smallest_step_mb(job, cost),
    })
}

/// Returns the seconds of all steps, one after the other. The last mini-batch of a worker may
/// be smaller, so that a step less of each counts.
fn compute_s(job: &Job, cost: &ModelCost, vcpus: f64) -> f64 {
    let steps = job.workers * job.batches_per_worker.saturating_sub(1);
    let samples = steps * job.batch_size;
    let used = samples.min(job.data.train_samples);
    let vcpus = match cost.device {
        Device::Cuda => 1.0,
        Device::Cpu => vcpus,
    };
    let each_epoch_s = steps as f64 * cost.fixed_s + used as f64 * cost.sample_s;
    job.epochs as f64 * each_epoch_s * cost.slowdown(vcpus)
}

/// Returns the memory of a whole step, MB; of none where a worker has too few samples for one.
fn smallest_step_mb(job: &Job, cost: &ModelCost) -> f64 {
    let of_a_worker = job.data.train_samples / job.workers.max(1);
    if of_a_worker < job.batch_size {
        return 0.0;
    }
    cost.peak_mb(job.batch_size)
}

/// Returns the dollars of the machines and functions for as long as they compute.
fn usd(
    row: &Row,
    work: &Work,
    deployment: &Deployment,
    profile: &Profile<f64>,
    prices: &PriceBook,
) -> f64 {
    let usd = match work.host {
        Host::Function => {
            let own = profile.function_price.as_deref();
            cost::function_rate_usd(deployment.paper_account, row.memory_mb, own, prices)
                .map(|rate| work.compute_s * rate)
        }
        Host::Instance => {
            let workers = row.job.workers;
            let each_s = (work.compute_s / workers as f64).max(profile.instance.minimum_billed_s);
            let machine_s = deployment.machines.count(workers) as f64 * each_s;
            cost::instance_usd(machine_s, &row.instance_type, prices)
        }
    };
    // What has no price is refused when it is simulated.
    usd.unwrap_or(0.0)
}
