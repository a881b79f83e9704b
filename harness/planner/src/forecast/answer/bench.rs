//! Seconds and dollars of one setting at one place.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use epochcost_platform::sim::{CLASSES_ABOVE, package_mb};
use epochcost_simulator::profile::{ModelCost, Profile};
use epochcost_simulator::{Simulated, Simulation, refused};
use epochcost_spec::cost::{self, Bill, CostModel, EC2_MINIMUM_S, PriceBook};
use epochcost_spec::rows::{Row, Simulation as Stands};
use epochcost_systems::{Device, FanOut, Host, Job, State, Symmetry, find};
use serde::Serialize;

use super::goal::Price;
use super::part::{Growing, Part, SHORT, SHORTEST, Span};
use crate::error::Result;
use crate::forecast::estimate::{
    Estimate, Outcome, has_functions, in_memory, priced, probe_by, sizes_only,
};
use crate::forecast::places::{Draw, Site};
use crate::forecast::work;

/// Workers above which alike ones are represented in short simulations.
pub(super) const ALIKE_ABOVE: usize = 16;

/// Longest time-out of a Lambda function, seconds, and that of rows that state none.
const LAMBDA_LONGEST_S: u64 = 900;

/// A setting of the search: what is trained, and where.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    /// System, fidelity, workers, memory and work.
    pub(crate) row: Row,
    /// Position of the place among the sites.
    pub(crate) site: usize,
}

/// Seconds and dollars of a point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Figures {
    /// Seconds and dollars of the whole.
    pub(crate) price: Price,
    /// Events of the simulation.
    pub(super) events: f64,
    /// Whether the whole was simulated; otherwise it is carried on from its first
    /// mini-batches and epochs.
    pub(super) is_whole: bool,
    /// Whether no closer simulation follows.
    pub(super) is_settled: bool,
}

/// A point's figures, or why it is impossible.
pub(crate) type Found = Result<Figures, String>;

/// Everything that points are simulated with.
pub(crate) struct Bench<'a> {
    pub(crate) sites: &'a [Site],
    pub(crate) stands: &'a Stands,
    pub(crate) prices: &'a PriceBook,
    pub(crate) account: CostModel,
    /// Platform and prices of each site at their stated values.
    stated: Vec<(Profile<f64>, PriceBook)>,
    /// Memory of an instance of each site, MB; none where it is not known, and of functions.
    memory_mb: Vec<Option<u32>>,
    /// Whether another site has the same platform and hardware.
    has_twin: Vec<bool>,
    /// Simulations at sites that have twins.
    known: Mutex<BTreeMap<KnownBy, Vec<Known>>>,
    /// Simulations so far, and their events.
    counted: Mutex<Counted>,
}

/// A draw, if it is one, workers, mini-batches and epochs.
type KnownBy = (Option<u64>, usize, usize, usize);

/// A simulation that was made, and what came of it.
struct Known {
    simulation: Simulation,
    alike_above: usize,
    simulated: Outcome<Simulated>,
}

/// Simulations and their events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Counted {
    pub(super) simulations: u64,
    pub(super) events: u64,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(
        sites: &'a [Site],
        stands: &'a Stands,
        prices: &'a PriceBook,
        account: CostModel,
    ) -> Self {
        let none = Draw(None);
        Self {
            sites,
            stands,
            prices,
            account,
            stated: (sites.iter())
                .map(|site| (stated(site, stands), site.prices(prices, none)))
                .collect(),
            memory_mb: (sites.iter())
                .map(|site| site.instance_memory_mb(prices))
                .collect(),
            has_twin: (sites.iter())
                .map(|site| sites.iter().filter(|other| site.is_twin(other)).count() > 1)
                .collect(),
            known: Mutex::default(),
            counted: Mutex::default(),
        }
    }
}

impl Bench<'_> {
    /// Returns the platform and the prices of a point's place at their stated values.
    pub(super) fn stated(&self, point: &Point) -> (Cow<'_, Profile<f64>>, &PriceBook) {
        let (profile, prices) = &self.stated[point.site];
        match self.site(point) {
            Cow::Borrowed(_) => (Cow::Borrowed(profile), prices),
            Cow::Owned(site) => (Cow::Owned(stated(&site, self.stands)), prices),
        }
    }

    /// Returns a point's place, with what its row states of the platform.
    fn site(&self, point: &Point) -> Cow<'_, Site> {
        let site = &self.sites[point.site];
        // Points are of rows that can be had at their place.
        let own = site.of_row(&point.row).ok().flatten();
        own.map_or(Cow::Borrowed(site), Cow::Owned)
    }

    /// Returns the platform and the prices of a point's place in a draw.
    pub(super) fn at(
        &self,
        point: &Point,
        draw: Draw,
    ) -> (Cow<'_, Profile<f64>>, Cow<'_, PriceBook>) {
        if draw.0.is_none() {
            let (profile, prices) = self.stated(point);
            return (profile, Cow::Borrowed(prices));
        }
        let site = self.site(point);
        let prices = site.prices(self.prices, draw);
        (Cow::Owned(site.profile(draw)), Cow::Owned(prices))
    }

    /// Returns whether a point's peak memory is compared with that of its machines: sizes of
    /// functions are known.
    pub(super) fn checks_memory(&self, point: &Point) -> bool {
        let host = self.sites[point.site].place.host;
        let is_known = host == Host::Function || self.memory_mb[point.site].is_some();
        is_known && self.stands.limits
    }

    /// Returns the simulations so far.
    pub(super) fn counted(&self) -> Counted {
        *locked(&self.counted)
    }

    /// Returns the figures of a point from short simulations; of the whole training where
    /// it is short itself.
    ///
    /// # Errors
    /// When the row is none of a known system, or something has no price.
    pub(crate) fn short(&self, point: &Point, draw: Draw) -> Result<Found> {
        match self.lengths(point) {
            Some(lengths) => self.carried(point, draw, lengths),
            None => self.by_epochs(point, draw),
        }
    }

    /// Returns the figures of a point from the shortest simulations, for ratios between draws
    /// and between amounts of work: fewer functions may run at once in them than in the whole.
    ///
    /// # Errors
    /// As [`Self::short`].
    pub(super) fn rough(&self, point: &Point, draw: Draw) -> Result<Found> {
        let exchanges = point.row.job.workers > ALIKE_ABOVE;
        self.carried(point, draw, if exchanges { SHORTEST } else { SHORT })
    }

    /// Returns whether a simulation of a point takes requests by the square of its workers, none of
    /// whom stands for others.
    pub(super) fn is_long(&self, point: &Point) -> bool {
        let job = &point.row.job;
        let bound = find(&job.system).and_then(|system| system.bind(job).ok());
        let is_unlike =
            bound.is_some_and(|bound| matches!(bound.symmetry(), Symmetry::Unlike { .. }));
        is_unlike && job.workers > ALIKE_ABOVE && self.fan_out(point).is_none()
    }

    /// Returns how a point's functions are fanned out over mini-batches; none where each worker
    /// computes its own one after the other, which is carried on within a few percent.
    pub(super) fn fan_out(&self, point: &Point) -> Option<FanOut> {
        let job = &point.row.job;
        let bound = find(&job.system)?.bind(job).ok()?;
        (bound.states().iter()).find_map(|state| match state {
            State::Batches { fan_out, .. } => Some(*fan_out),
            State::Task { .. } => None,
        })
    }

    /// Returns the figures of a whole training.
    ///
    /// # Errors
    /// As [`Self::short`].
    pub(super) fn whole(&self, point: &Point, draw: Draw) -> Result<Found> {
        let job = &point.row.job;
        let span = Span::of(job.batches_per_worker, job.epochs, CLASSES_ABOVE);
        let found = self.part(point, draw, span)?;
        Ok(found.map(|part| {
            let billed = Price {
                seconds: part.growing.seconds,
                usd: part.usd,
            };
            Figures {
                price: self.interrupted(point, billed, &part.growing, draw),
                events: part.growing.events,
                is_whole: true,
                is_settled: true,
            }
        }))
    }

    /// Simulates so much of a point.
    pub(super) fn part(
        &self,
        point: &Point,
        draw: Draw,
        span: Span,
    ) -> Result<Result<Part, String>> {
        let site = self.site(point);
        let Some(reference) = reference(self.stands, &point.row, site.device()) else {
            let device = site.hardware.about.as_str();
            let of_own = match &point.row.own_model {
                Some(_) => ", and its operations (`flops_per_sample`) are not stated",
                None => "",
            };
            return Ok(Err(format!(
                "no compute profile knows the model on {device}{of_own}"
            )));
        };
        let (profile, prices) = self.at(point, draw);
        let profile = profile.into_owned();
        let mut simulation = Simulation {
            job: point.row.job.clone(),
            sizes: point.row.sizes(),
            memory_mb: point.row.memory_mb,
            function_memory_mb: point.row.function_memory_mb.clone(),
            timeout_s: timeout_s(&point.row, &profile),
            cost: site.cost(&reference, draw),
            profile,
            has_limits: self.stands.limits,
            faults: Vec::new(),
            jobs: point.row.jobs as u64,
        };
        let part = cut(&point.row.job, span.batches, span.epochs);
        if let Some(reason) = [&simulation.job, &part].into_iter().find_map(why_unusable) {
            return Ok(Err(reason));
        }
        // What is refused of the whole is refused of its parts.
        if let Some(limit) = refused(&simulation, package_mb())? {
            return Ok(Err(limit.to_string()));
        }
        simulation.job = part;
        let simulated = self.simulated(point.site, &simulation, span.alike_above)?;
        let has_mb = self.memory_mb[point.site];
        let fitting = in_memory(&point.row, &simulation, simulated, has_mb);
        let priced = priced(&point.row, &simulation, fitting, &prices)?;
        let on_instances = find(&point.row.job.system)
            .is_some_and(|system| system.deployment().runs_on(Host::Instance));
        let minimum_s = if on_instances || point.row.one_machine.is_some() {
            simulation.profile.instance.minimum_billed_s
        } else {
            // Its machines are hosts of stores.
            EC2_MINIMUM_S
        };
        let part = priced.map(|estimate| self.of(&point.row, &estimate, span.epochs, minimum_s));
        Ok(part.map_err(|obstacle| obstacle.to_string()))
    }

    /// Simulates, once for all places that differ in their prices alone.
    fn simulated(
        &self,
        site: usize,
        simulation: &Simulation,
        alike_above: usize,
    ) -> Result<Outcome<Simulated>> {
        let (job, draws) = (&simulation.job, simulation.profile.draws);
        let key = (draws, job.workers, job.batches_per_worker, job.epochs);
        let is_same =
            |known: &Known| known.alike_above == alike_above && known.simulation == *simulation;
        if self.has_twin[site] {
            let known = locked(&self.known);
            let mut of_key = known.get(&key).into_iter().flatten();
            if let Some(known) = of_key.find(|known| is_same(known)) {
                return Ok(known.simulated.clone());
            }
        }
        let simulated = probe_by(simulation, sizes_only(alike_above))?;
        let events = simulated.as_ref().map_or(0, |simulated| simulated.events);
        {
            let mut counted = locked(&self.counted);
            counted.simulations += 1;
            counted.events += events;
        }
        if self.has_twin[site] {
            locked(&self.known).entry(key).or_default().push(Known {
                simulation: simulation.clone(),
                alike_above,
                simulated: simulated.clone(),
            });
        }
        Ok(simulated)
    }

    /// Returns an estimate with its machines apart, whose bill is by whole seconds and has
    /// a minimum: neither grows with the work.
    fn of(&self, row: &Row, estimate: &Estimate, epochs: usize, minimum_s: f64) -> Part {
        let usd = estimate.usd(self.account);
        let bill = (estimate.bills.iter()).find(|bill| bill.cost_model == self.account);
        let rented = bill.and_then(Bill::instances);
        let stored = bill.and_then(|bill| bill.items.iter().find(|item| item.is_storage()));
        let kept_usd = stored.map_or(0.0, |item| {
            item.unit_price_usd * cost::even_gb_months(estimate.kept_bytes, estimate.seconds)
        });
        let (mut machines, mut machine_s, mut usd_per_s, mut rented_usd) = Default::default();
        if let Some((billed_s, usd)) = rented.filter(|_| self.account == CostModel::Full) {
            // Instances are billed for as long as they run, hosts of stores for the whole.
            let each_s = if has_functions(row) {
                machines = (billed_s / cost::billed_s(estimate.seconds, minimum_s)).round();
                estimate.seconds
            } else {
                machines = count(row) as f64;
                estimate.billed_ms as f64 / 1e3 / machines
            };
            (machine_s, usd_per_s, rented_usd) = (machines * each_s, usd / billed_s, usd);
        }
        Part {
            growing: Growing {
                seconds: estimate.seconds,
                other_usd: usd - kept_usd - if machines > 0.0 { rented_usd } else { 0.0 },
                kept_usd_per_s: kept_usd / estimate.seconds.max(f64::MIN_POSITIVE),
                machine_s,
                epochs_s: estimate.seconds_per_epoch * epochs as f64,
                longest_s: estimate.longest_function_s(),
                events: estimate.events as f64,
            },
            machines,
            minimum_s,
            usd_per_s,
            usd,
        }
    }

    /// Returns seconds and dollars with the interruptions that the place expects.
    pub(super) fn interrupted(
        &self,
        point: &Point,
        price: Price,
        growing: &Growing,
        draw: Draw,
    ) -> Price {
        let epoch_s = growing.epochs_s / point.row.job.epochs.max(1) as f64;
        let longer = self.sites[point.site].interruptions(epoch_s, draw);
        Price {
            seconds: price.seconds * longer,
            usd: price.usd * longer,
        }
    }

    /// Refuses a carried-on point whose functions would run too long; one whose workers
    /// re-invoke themselves goes on.
    pub(super) fn within_limits(&self, point: &Point, longest_s: f64) -> Result<(), String> {
        let limit_s = timeout_s(&point.row, &self.stated(point).0);
        let goes_on = point.row.job.settings["continues_by_time"] == true;
        let is_over = has_functions(&point.row) && longest_s > limit_s && !goes_on;
        if is_over && self.stands.limits {
            return Err(format!(
                "a function would run for {longest_s:.0} s, and {limit_s:.0} s are the limit"
            ));
        }
        Ok(())
    }
}

/// Locks `mutex`, also after a panic: no holder leaves its content half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a place's platform at its stated values; where limits do not hold, without those on
/// functions at once.
fn stated(site: &Site, stands: &Stands) -> Profile<f64> {
    let mut profile = site.profile(Draw(None));
    if !stands.limits {
        profile.function.concurrency_limit = f64::INFINITY;
        profile.workflow.map_concurrency_limit = f64::INFINITY;
    }
    profile
}

/// Returns the time-out of a row's functions: its own if that is shorter than Lambda's longest, which
/// rows have that state none, and else the longest of the platform.
fn timeout_s(row: &Row, profile: &Profile<f64>) -> f64 {
    let longest_s = profile.function.timeout_s_limit;
    let own_s = Some(row.timeout_s).filter(|own| *own < LAMBDA_LONGEST_S);
    own_s.map_or(longest_s, |own| longest_s.min(own as f64))
}

/// Returns why a system does not take a job, one with too little data for its workers, say; none if
/// it does.
pub(super) fn why_unusable(job: &Job) -> Option<String> {
    let bound = find(&job.system)?.bind(job);
    bound.err().map(|error| error.to_string())
}

/// Returns the machines of a row on instances.
fn count(row: &Row) -> usize {
    let machines = find(&row.job.system).map(|system| system.deployment().machines);
    machines.map_or(1, |machines| machines.count(row.job.workers))
}

/// Returns what a step of the row's model costs on the reference of a device: a vCPU, or
/// a T4.
pub(super) fn reference(stands: &Stands, row: &Row, device: Device) -> Option<ModelCost> {
    let known = stands.cost(&row.job.model, device, false);
    let known = known.map(|(_, cost)| cost.clone());
    known.or_else(|| row.own_model.as_ref()?.cost(device))
}

/// Returns a job cut to fewer mini-batches and epochs, with as much less data.
pub(super) fn cut(job: &Job, batches: usize, epochs: usize) -> Job {
    let mut cut = job.clone();
    (cut.batches_per_worker, cut.epochs) = (batches, epochs);
    let share = batches as f64 / job.batches_per_worker.max(1) as f64;
    let kept = (job.data.train_samples as f64 * share).ceil() as usize;
    let used = work::samples(&cut) / epochs.max(1);
    cut.data.train_samples = kept.max(used);
    cut
}
