//! One setting in virtual time: its seconds, dollars, traffic and memory.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use epochcost_channels::Traffic;
use epochcost_judge::analysis::{covered_s, machine_epochs, pace};
use epochcost_platform::Invoked;
use epochcost_platform::sim::{CLASSES_ABOVE, invocation, package_mb};
use epochcost_record::ResultsError;
use epochcost_simulator::profile::Profile;
use epochcost_simulator::{
    Infeasible, Limit, Options, Simulated, Simulation, SimulationError, refused, simulate,
};
use epochcost_spec::cost::instances::memory_mb;
use epochcost_spec::cost::{self, Bill, CostModel, Pace, PriceBook, Usage};
use epochcost_spec::metering::Invocation;
use epochcost_spec::rows::Row;
use epochcost_systems::{ChannelTraffic, Host, StageSeconds, find};
use serde::Serialize;

use crate::error::Result;

/// What came of a simulation: the run reached its end, or was kept from it.
pub(super) type Outcome<T> = Result<T, Obstacle>;

/// What keeps a setting from its end.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Obstacle {
    /// A limit of the platform.
    Infeasible(Infeasible),
    /// The system failed, and no limit is to blame.
    Failed(String),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Infeasible(limit) => limit.fmt(f),
            Self::Failed(reason) => reason.fmt(f),
        }
    }
}

/// Seconds by stage, in the paper's words.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct StageMeans {
    /// Getting training data from the store.
    pub(super) fetch_dataset: f64,
    /// Forward and backward.
    pub(super) compute_gradients: f64,
    /// Serialise, put, wait, get, aggregate.
    pub(super) synchronise: f64,
    /// The optimizer step.
    pub(super) update_model: f64,
    /// Evaluation and the decision to stop.
    pub(super) detect_convergence: f64,
}

impl StageMeans {
    /// Returns the seconds of every stage, in their order.
    pub(super) fn all(&self) -> [f64; 5] {
        [
            self.fetch_dataset,
            self.compute_gradients,
            self.synchronise,
            self.update_model,
            self.detect_convergence,
        ]
    }
}

/// What a setting is expected to take, simulated: at the stated values or, where
/// [samples](super::uncertainty) were taken, seconds and dollars by their medians.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Estimate {
    /// Mean seconds per epoch, from the first step's start to the last one's end.
    pub(super) seconds_per_epoch: f64,
    /// Seconds from the first request to the last end: starts and boots included.
    pub(super) seconds: f64,
    /// Seconds per worker and epoch.
    pub(super) stage_seconds: StageMeans,
    /// Billed milliseconds of all functions and instances.
    pub(super) billed_ms: u64,
    /// Peak memory of any of them, MB.
    pub(super) peak_memory_mb: u64,
    /// Peak memory of any function, MB; 0 without functions.
    #[serde(skip)]
    pub(super) function_peak_memory_mb: u32,
    /// Cost by the paper's formula.
    pub(super) cost_paper_usd: f64,
    /// Cost with everything counted.
    pub(super) cost_full_usd: f64,
    /// Both accounts by line item.
    pub(super) bills: [Bill; 2],
    /// The exchange's traffic.
    pub(super) traffic: Traffic,
    /// Traffic for fetching data.
    pub(super) dataset_traffic: Traffic,
    /// Traffic of checkpoints, statistics and logs.
    pub(super) state_traffic: Traffic,
    /// Bytes of objects that are in the store at the end.
    #[serde(skip)]
    pub(super) kept_bytes: f64,
    /// What an invocation takes at most, by the function's name.
    #[serde(skip)]
    pub(super) most: BTreeMap<String, Invoked>,
    /// Whether anything went over a tensor store.
    #[serde(skip)]
    pub(super) uses_tensor_store: bool,
    /// Whether anything went over a queue.
    #[serde(skip)]
    pub(super) uses_queue: bool,
    /// Epochs of the simulations that it was carried on from; none of a whole training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) carried_on_from_epochs: Option<usize>,
    /// Events that the simulation went through.
    pub(super) events: u64,
    /// How long that took: real time, the only one here.
    #[serde(skip)]
    pub(super) took: Duration,
}

impl Estimate {
    /// A count over all purposes.
    pub(super) fn total(&self, of: fn(&Traffic) -> u64) -> u64 {
        of(&self.traffic) + of(&self.dataset_traffic) + of(&self.state_traffic)
    }

    /// Returns the longest run of a function, seconds; 0 without functions.
    pub(super) fn longest_function_s(&self) -> f64 {
        (self.most.values()).fold(0.0, |longest, one| longest.max(one.seconds))
    }

    /// Returns the cost by one cost model at the stated values, US dollars.
    pub(super) fn stated_usd(&self, account: CostModel) -> f64 {
        let [paper, full] = &self.bills;
        match account {
            CostModel::Paper => paper.total_usd(),
            CostModel::Full => full.total_usd(),
        }
    }

    /// Returns the cost by one cost model, US dollars.
    pub(super) fn usd(&self, account: CostModel) -> f64 {
        match account {
            CostModel::Paper => self.cost_paper_usd,
            CostModel::Full => self.cost_full_usd,
        }
    }
}

/// Returns the options of a simulation of sizes only, where workers that are alike are represented above so
/// many.
pub(super) fn sizes_only(alike_above: usize) -> Options {
    Options {
        classes_above: Some(alike_above),
        merges_invocations: true,
        ..Options::default()
    }
}

/// Simulates sizes only, unless the setting is refused before anything runs.
///
/// # Errors
/// When the setting is none of a known system.
pub(super) fn probe(simulation: &Simulation) -> Result<Outcome<Simulated>> {
    probe_by(simulation, sizes_only(CLASSES_ABOVE))
}

/// Simulates a setting with `options`, which never gives up, unless it is refused before anything runs.
///
/// # Errors
/// When the setting is none of a known system.
pub(super) fn probe_by(simulation: &Simulation, options: Options) -> Result<Outcome<Simulated>> {
    let probed = probe_until(simulation, options)?;
    // Without a time there is none that could be over.
    let given_up = || Err(Obstacle::Failed("the simulation was given up".into()));
    Ok(probed.unwrap_or_else(given_up))
}

/// Simulates a setting, unless it is refused before anything runs; none if the instant at which `options`
/// give up came first.
///
/// # Errors
/// When the setting is none of a known system.
pub(super) fn probe_until(
    simulation: &Simulation,
    options: Options,
) -> Result<Option<Outcome<Simulated>>> {
    if let Some(infeasible) = refused(simulation, package_mb())? {
        return Ok(Some(Err(Obstacle::Infeasible(infeasible))));
    }
    let simulated = match simulate(simulation, options) {
        Err(SimulationError::GivenUp { .. }) => return Ok(None),
        Err(error) if error.is_too_much() => {
            return Ok(Some(Err(Obstacle::Failed(error.to_string()))));
        }
        simulated => simulated?,
    };
    Ok(Some(match (&simulated.infeasible, &simulated.failure) {
        (Some(infeasible), _) => Err(Obstacle::Infeasible(infeasible.clone())),
        (None, Some(failure)) => Err(Obstacle::Failed(failure.clone())),
        (None, None) => Ok(simulated),
    }))
}

/// What `row` takes in a simulation with `options`, which never gives up.
///
/// # Errors
/// When the row is none of a known system, or something has no price.
pub(super) fn estimate_by(
    row: &Row,
    simulation: &Simulation,
    prices: &PriceBook,
    options: Options,
) -> Result<Outcome<Estimate>> {
    let began = Instant::now();
    let probed = probe_by(simulation, options)?;
    let took = began.elapsed();
    let has_mb = memory_mb(prices, &row.instance_type);
    let fitting = in_memory(row, simulation, probed, has_mb);
    let priced = priced(row, simulation, fitting, prices)?;
    Ok(priced.map(|estimate| Estimate { took, ..estimate }))
}

/// Returns what came of a simulation on instances of the row's type, which have so much memory, if
/// that is known.
pub(super) fn in_memory(
    row: &Row,
    simulation: &Simulation,
    simulated: Outcome<Simulated>,
    memory_mb: Option<u32>,
) -> Outcome<Simulated> {
    // Where one machine is shared, instances are processes on it.
    let applies = simulation.has_limits && simulation.profile.host.is_none();
    let simulated = simulated?;
    let peak_mb = peak_mb(&simulated, Some(Host::Instance));
    match memory_mb.filter(|has_mb| applies && peak_mb > f64::from(*has_mb)) {
        Some(has_mb) => Err(Obstacle::Infeasible(Infeasible {
            limit: Limit::Memory,
            reason: format!("{} needs {peak_mb:.0} MB of {has_mb} MB", row.instance_type),
        })),
        None => Ok(simulated),
    }
}

/// Returns what a row takes by a simulation of it, at these prices.
///
/// # Errors
/// When something has no price.
pub(super) fn priced(
    row: &Row,
    simulation: &Simulation,
    simulated: Outcome<Simulated>,
    prices: &PriceBook,
) -> Result<Outcome<Estimate>> {
    Ok(match simulated {
        Ok(simulated) => Ok(figures(row, simulation, simulated, prices)?),
        Err(obstacle) => Err(obstacle),
    })
}

fn figures(
    row: &Row,
    simulation: &Simulation,
    simulated: Simulated,
    prices: &PriceBook,
) -> Result<Estimate, ResultsError> {
    let job = &simulation.job;
    let coordinators =
        find(&job.system).map_or_else(Vec::new, |system| system.deployment().coordinators());
    let peak_memory_mb = peak_mb(&simulated, None);
    let function_peak_mb = peak_mb(&simulated, Some(Host::Function));
    let totals = simulated.totals;
    let traffic = totals.traffic;
    let calls: Vec<Invocation> = simulated.invocations.into_iter().map(invocation).collect();
    let mut most: BTreeMap<String, Invoked> = BTreeMap::new();
    for (function, requests) in simulated.most_requests {
        most.entry(function).or_default().requests = requests;
    }
    for call in calls.iter().filter(|call| call.host == Host::Function) {
        let of_function = most.entry(call.function.clone()).or_default();
        of_function.seconds = of_function.seconds.max(call.duration_ms / 1e3);
    }
    let usage = Usage {
        invocations: calls.iter().collect(),
        transitions: simulated.transitions,
        traffic,
        waits: totals.waits,
        pace: pace_of(&simulation.profile),
        wall_s: simulated.wall_s,
        stored_byte_s: totals.kept.byte_s(simulated.wall_s),
        ..Usage::none_of(row, (&simulation.profile).into())
    };
    let moved = |of: fn(&ChannelTraffic) -> Traffic| {
        let purposes = [traffic.exchange, traffic.dataset, traffic.state];
        (purposes.iter()).any(|channels| of(channels) != Traffic::default())
    };
    let bills = [cost::paper(&usage, prices)?, cost::full(&usage, prices)?];
    let [cost_paper_usd, cost_full_usd] = [bills[0].total_usd(), bills[1].total_usd()];
    let seconds = covered_s(totals.epochs.values().copied());
    Ok(Estimate {
        seconds_per_epoch: seconds / totals.epochs.len().max(1) as f64,
        seconds: simulated.wall_s,
        stage_seconds: stages(totals.of_workers(&coordinators), job),
        billed_ms: calls.iter().map(|call| call.billed_ms * call.alike).sum(),
        peak_memory_mb: peak_memory_mb as u64,
        function_peak_memory_mb: function_peak_mb as u32,
        cost_paper_usd,
        cost_full_usd,
        bills,
        kept_bytes: totals.kept.bytes,
        most,
        uses_tensor_store: moved(|channels| channels.tensors),
        uses_queue: moved(|channels| channels.queue),
        traffic: traffic.exchange.total(),
        dataset_traffic: traffic.dataset.total(),
        state_traffic: traffic.state.total(),
        carried_on_from_epochs: None,
        events: simulated.events,
        took: Duration::ZERO,
    })
}

/// Returns the most memory of a call on a host, or on any, in whole MB; 0 without any.
pub(super) fn peak_mb(simulated: &Simulated, host: Option<Host>) -> f64 {
    let calls = simulated.invocations.iter();
    let calls = calls.filter(|call| host.is_none_or(|host| call.host == host));
    calls
        .fold(0.0, |most, call| call.peak_memory_mb.max(most))
        .ceil()
}

/// Returns the pace at which polls under a profile are billed: that of the services
/// that bills are about, where the profile describes one machine that all share.
pub(super) fn pace_of(profile: &Profile<f64>) -> Option<Pace> {
    profile.host.as_ref().and_then(|_| pace::of_services())
}

/// Seconds per worker and epoch.
pub(super) fn stages(seconds: StageSeconds, job: &epochcost_systems::Job) -> StageMeans {
    let mean = |seconds: f64| seconds / machine_epochs(job);
    StageMeans {
        fetch_dataset: mean(seconds.fetch_dataset),
        compute_gradients: mean(seconds.compute_gradients),
        synchronise: mean(seconds.synchronise()),
        update_model: mean(seconds.update_model),
        detect_convergence: mean(seconds.detect_convergence),
    }
}

/// Whether functions, whose memory has a size, run some of the row's code.
pub(super) fn has_functions(row: &Row) -> bool {
    find(&row.job.system).is_some_and(|system| system.deployment().runs_on(Host::Function))
}
