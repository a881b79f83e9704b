//! Schedules: which faults can happen to a row, and which of them do.

use std::collections::BTreeMap;

use epochcost_kernels::hash;
use epochcost_systems::{Breakdown, BrokenServer, Host, Job, Server, Stage, find};

use epochcost_experiment::is_idle;
use epochcost_spec::rows::{Fault, FaultKind, TrialPlan};

/// Most faults of a schedule.
const MOST: usize = 4;
/// Delays of a worker, ms: one that nobody notices, and one beyond the patience of its peers.
const LATE_MS: [u64; 2] = [300, 70_000];
/// Delays of an answer, ms.
const SLOW_MS: [u64; 2] = [5, 2_000];
/// Times until a server is there again, ms.
const RESTART_MS: [u64; 2] = [100, 70_000];

/// Returns whether a fault takes time and nothing else, far less than any time-out.
pub(super) fn is_small(fault: &Fault) -> bool {
    let does = |breakdown| matches!(breakdown, Breakdown::SlowByMs(ms) if ms <= SLOW_MS[0]);
    match fault.kind {
        FaultKind::StragglerMs(ms) => ms <= LATE_MS[0],
        FaultKind::Server(broken) => does(broken.does),
        _ => false,
    }
}

/// Returns whether a fault ends what a worker does.
pub(super) fn stops(fault: &Fault) -> bool {
    let goes_on = matches!(fault.kind, FaultKind::StragglerMs(_) | FaultKind::Server(_));
    !goes_on && !fault.kind.is_of_message()
}

pub(super) fn mix(seed: u64, index: usize) -> u64 {
    hash::mix(seed, index as u64)
}

/// Delays of nothing at every place where a fault of the job could be.
pub(super) fn everywhere(job: &Job) -> Vec<Fault> {
    let functions = find(&job.system).map_or(&[][..], |system| system.deployment().functions);
    let stages = || [None].into_iter().chain(Stage::ALL.map(Some));
    let mut faults = Vec::new();
    for function in functions {
        let ranks = |stage| (0..job.workers).map(move |rank| (stage, rank));
        let batches = |epoch| (0..job.batches_per_worker).map(move |batch| (epoch, batch));
        for (stage, rank) in stages().flat_map(ranks) {
            for (epoch, batch) in (0..job.epochs).flat_map(batches) {
                faults.push(Fault {
                    stage,
                    function: Some(function.name.to_owned()),
                    ..Fault::at_gradient(rank, epoch, batch, FaultKind::StragglerMs(0))
                });
            }
        }
    }
    faults
}

/// Every kind of fault at every place that workers of a row reach, in an order by a seed.
pub(super) struct Possible(Vec<(FaultKind, Vec<Fault>)>);

impl Possible {
    /// Takes the places, and how often each of them was reached.
    pub(super) fn new(plan: &TrialPlan, places: &[Fault], times: &[usize], seed: u64) -> Self {
        let mut reached: BTreeMap<_, Vec<Fault>> = BTreeMap::new();
        for (place, _) in places.iter().zip(times).filter(|(_, times)| **times > 0) {
            let key = (place.function.clone(), place.stage);
            reached.entry(key).or_default().push(place.clone());
        }
        let all: Vec<_> = (reached.into_values())
            .flat_map(|places| {
                let kinds = kinds(plan, &places[0]).into_iter();
                kinds.map(move |kind| (kind, places.clone()))
            })
            .collect();
        let order = hash::permutation(all.len() as u32, seed).into_iter();
        Self(order.map(|index| all[index as usize].clone()).collect())
    }

    /// Returns the faults of a row's turn.
    pub(super) fn schedule(&self, turn: usize, seed: u64) -> Vec<Fault> {
        let below = |what: usize, limit: usize| (mix(seed, what) % limit as u64) as usize;
        let fault = |number: usize, index: usize| {
            let (kind, places) = &self.0[index];
            let mut fault = places[below(2 * number + 2, places.len())].clone();
            fault.kind = *kind;
            fault
        };
        if turn < self.0.len() {
            return vec![fault(0, turn)];
        }
        let count = 2 + below(0, MOST - 1);
        let drawn = (0..count).map(|number| fault(number, below(2 * number + 1, self.0.len())));
        drawn.collect()
    }
}

/// What can happen at a place.
fn kinds(plan: &TrialPlan, place: &Fault) -> Vec<FaultKind> {
    let job = &plan.row.job;
    let mut kinds = vec![FaultKind::Crash, FaultKind::Hang];
    kinds.extend(LATE_MS.map(FaultKind::StragglerMs));
    let Some(system) = find(&job.system) else {
        return kinds;
    };
    if !is_idle(Server::Queue, system, job, plan.sizes) {
        kinds.extend([FaultKind::LosesMessage, FaultKind::DoublesMessage]);
    }
    if place.stage.is_some() {
        return kinds;
    }
    kinds.push(FaultKind::Error);
    let function = place.function.as_deref().unwrap_or_default();
    if system.deployment().host_of(function) == Host::Function {
        kinds.push(FaultKind::OutOfMemory);
    }
    for which in [Server::ObjectStore, Server::TensorStore, Server::Queue] {
        if !is_idle(which, system, job, plan.sizes) {
            let timed = SLOW_MS.map(Breakdown::SlowByMs).into_iter();
            let all = timed.chain(RESTART_MS.map(Breakdown::RestartsAfterMs));
            let all = all.chain([Breakdown::Dies, Breakdown::Hangs]);
            kinds.extend(all.map(|does| FaultKind::Server(BrokenServer { which, does })));
        }
    }
    kinds
}
