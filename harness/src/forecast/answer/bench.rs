//! Seconds and dollars of one setting at one place.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

use epochcost_simulator::Simulation;
use epochcost_simulator::profile::{ModelCost, Profile};
use epochcost_systems::{Device, FanOut, Job, State, find};
use serde::Serialize;

use super::bounds::{self, Before};
use super::goal::Price;
use crate::cost::{CostModel, LineItem, PriceBook};
use crate::error::Error;
use crate::forecast::estimate::{Estimate, Outcome, estimate_by, has_functions};
use crate::forecast::places::{Draw, Site};
use crate::forecast::{parallel, work};
use crate::platform::sim::CLASSES_ABOVE;
use crate::rows::{Row, Simulation as Stands};

/// Mini-batches per worker of the two short simulations that a training is carried on from.
const SHORT: Lengths = Lengths { few: 4, many: 8 };

/// Workers above which alike ones are represented in short simulations.
const ALIKE_ABOVE: usize = 16;

/// Events up to which the best settings are simulated whole, whatever their parts show: about a
/// second of one core.
const FEW_EVENTS: f64 = 1e6;

/// Events up to which a setting is simulated whole whose mini-batches do not take the same time.
const MOST_EVENTS: f64 = 4e6;

/// Seconds and dollars by which a growth may be below none, by the rounding of sums.
const ROUNDING: f64 = 1e-9;

/// Relative difference of two parts of a training up to which each mini-batch is said to repeat
/// the one before.
const REPEATS: f64 = 0.01;

/// A setting of the search: what is trained, and where.
#[derive(Clone, Debug)]
pub(in crate::forecast) struct Point {
    /// System, fidelity, workers, memory and work.
    pub(in crate::forecast) row: Row,
    /// Position of the place among the sites.
    pub(in crate::forecast) site: usize,
}

/// Seconds and dollars of a point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(in crate::forecast) struct Figures {
    /// Seconds and dollars of the whole.
    pub(in crate::forecast) price: Price,
    /// Events of the simulation.
    events: f64,
    /// Whether the whole was simulated; otherwise it is carried on from its first
    /// mini-batches and epochs.
    pub(super) is_whole: bool,
    /// Whether no closer simulation follows.
    pub(super) is_settled: bool,
}

/// Mini-batches per worker of two short simulations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lengths {
    few: usize,
    many: usize,
}

/// The part of a training that is simulated.
#[derive(Clone, Copy)]
struct Span {
    /// Mini-batches per worker and epoch.
    batches: usize,
    epochs: usize,
    /// Workers above which alike ones are represented.
    alike_above: usize,
}

/// What grows with the mini-batches of a training, without the rounding of bills.
#[derive(Clone, Copy, Debug, Default)]
struct Growing {
    seconds: f64,
    /// Dollars for everything but machines.
    other_usd: f64,
    /// Seconds of all machines.
    machine_s: f64,
    /// Seconds of all epochs, without boots and starts.
    epochs_s: f64,
    /// Longest run of a function, seconds.
    longest_s: f64,
    events: f64,
}

/// A training, or a part of one, as it was simulated.
struct Part {
    growing: Growing,
    /// Machines that are paid for by the second, and the price of each.
    machines: f64,
    usd_per_s: f64,
    /// Dollars as billed.
    usd: f64,
}

/// A point's figures, or why it is impossible.
pub(in crate::forecast) type Found = Result<Figures, String>;

/// Everything that points are simulated with.
pub(in crate::forecast) struct Bench<'a> {
    pub(in crate::forecast) sites: &'a [Site],
    pub(in crate::forecast) stands: &'a Stands,
    pub(in crate::forecast) prices: &'a PriceBook,
    pub(in crate::forecast) account: CostModel,
    /// Platform and prices of each site at their stated values.
    stated: Vec<(Profile<f64>, PriceBook)>,
    /// Simulations so far, and their events.
    counted: [AtomicU64; 2],
}

/// Simulations and their events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Counted {
    pub(super) simulations: u64,
    pub(super) events: u64,
}

impl<'a> Bench<'a> {
    pub(in crate::forecast) fn new(
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
                .map(|site| (site.profile(none), site.prices(prices, none)))
                .collect(),
            counted: Default::default(),
        }
    }
}

impl Bench<'_> {
    /// Returns the platform and the prices of a point's place at their stated values.
    pub(super) fn stated(&self, point: &Point) -> (&Profile<f64>, &PriceBook) {
        let (profile, prices) = &self.stated[point.site];
        (profile, prices)
    }

    /// Returns the simulations so far.
    pub(super) fn counted(&self) -> Counted {
        let [simulations, events] = &self.counted;
        Counted {
            simulations: simulations.load(Ordering::Relaxed),
            events: events.load(Ordering::Relaxed),
        }
    }

    /// Returns the figures of a point from short simulations; of the whole training where
    /// it is short itself.
    ///
    /// # Errors
    /// When the row is none of a known system, or something has no price.
    pub(in crate::forecast) fn short(&self, point: &Point, draw: Draw) -> Result<Found, Error> {
        match self.lengths(point) {
            Some(lengths) => self.carried(point, draw, lengths),
            None => self.whole(point, draw),
        }
    }

    /// Returns the figures of a point from the shortest simulations, for ratios between draws
    /// and between amounts of work: fewer functions may run at once in them than in the whole.
    ///
    /// # Errors
    /// As [`Self::short`].
    pub(super) fn rough(&self, point: &Point, draw: Draw) -> Result<Found, Error> {
        self.carried(point, draw, SHORT)
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

    /// Returns the lengths of short simulations in which as many functions run at once as in the
    /// whole; none where rounds divide an epoch, which shorter epochs would change.
    fn lengths(&self, point: &Point) -> Option<Lengths> {
        let job = &point.row.job;
        let Some(fan_out) = self.fan_out(point) else {
            return Some(SHORT);
        };
        let bound = find(&job.system).and_then(|system| system.bind(job).ok());
        if bound.is_none_or(|bound| bound.rounds() > 1) {
            return None;
        }
        let (profile, _) = self.stated(point);
        let limit = (profile.function.concurrency_limit / job.workers.max(1) as f64).ceil();
        let at_once = match fan_out {
            FanOut::Parallel => limit,
            FanOut::Map => limit.min(profile.workflow.map_concurrency_limit),
        };
        let few = (at_once as usize).clamp(SHORT.few, job.batches_per_worker.max(SHORT.few));
        Some(Lengths {
            few,
            many: few.saturating_mul(2),
        })
    }

    /// Returns the figures of a point, carried on from two short simulations. Both are doubled while the
    /// longer one ends sooner, as by convoys at a shared server that happen to form in the shorter one,
    /// and while what is carried on is less than the point's bound.
    fn carried(&self, point: &Point, draw: Draw, lengths: Lengths) -> Result<Found, Error> {
        let job = &point.row.job;
        let (batches, epochs) = (job.batches_per_worker, job.epochs);
        let is_short = batches <= lengths.many;
        if is_short && epochs == 1 && job.workers <= ALIKE_ABOVE {
            return self.whole(point, draw);
        }
        let (few, many) = if is_short {
            (batches, batches)
        } else {
            (lengths.few, lengths.many)
        };
        let at = |batches, epochs| {
            let alike_above = ALIKE_ABOVE;
            let span = Span {
                batches,
                epochs,
                alike_above,
            };
            self.part(point, draw, span)
        };
        let base = match at(few, 1)? {
            Ok(base) => base,
            Err(reason) => return Ok(Err(reason)),
        };
        // Each figure is a constant, a part per epoch, and a part per mini-batch of it.
        let mut per_batch = Growing::default();
        if many > few {
            match at(many, 1)? {
                Ok(longer) => per_batch = base.growing.to(&longer.growing, (many - few) as f64),
                Err(reason) => return Ok(Err(reason)),
            }
        }
        if per_batch.shrinks() {
            return self.carried(point, draw, lengths.doubled());
        }
        let mut per_epoch = Growing::default();
        if epochs > 1 {
            match at(few, 2)? {
                Ok(longer) => per_epoch = base.growing.to(&longer.growing, 1.0),
                Err(reason) => return Ok(Err(reason)),
            }
        }
        if per_epoch.shrinks() {
            return self.whole(point, draw);
        }
        let found = self.extended(point, base, few, &per_batch, &per_epoch, draw);
        match &found {
            Ok(figures)
                if draw.0.is_none() && many > few && self.is_below_bound(point, figures) =>
            {
                self.carried(point, draw, lengths.doubled())
            }
            _ => Ok(found),
        }
    }

    /// Returns whether figures are less than computing the gradients takes.
    fn is_below_bound(&self, point: &Point, figures: &Figures) -> bool {
        let price = figures.price;
        match bounds::before(self, point) {
            Before::AtLeast(least) => price.seconds < least.seconds || price.usd < least.usd,
            Before::Impossible(_) => false,
        }
    }

    /// Returns the figures of the whole from those of one epoch of `few` mini-batches.
    fn extended(
        &self,
        point: &Point,
        base: Part,
        few: usize,
        per_batch: &Growing,
        per_epoch: &Growing,
        draw: Draw,
    ) -> Found {
        let job = &point.row.job;
        let (batches, epochs) = (job.batches_per_worker, job.epochs);
        let growing = (base.growing)
            .plus(per_epoch, epochs.saturating_sub(1) as f64)
            .plus(per_batch, (epochs * batches.saturating_sub(few)) as f64);
        let part = Part { growing, ..base };
        self.within_limits(point, part).map(|part| Figures {
            price: self.interrupted(point, part.price(), &part.growing, draw),
            events: part.growing.events,
            is_whole: false,
            is_settled: false,
        })
    }

    /// Returns the figures of a point that was simulated in part, with every worker: of the
    /// whole, or carried on from parts of which the second takes per mini-batch what the first
    /// does.
    ///
    /// # Errors
    /// As [`Self::short`].
    pub(super) fn settled(&self, point: &Point, short: &Figures) -> Result<Found, Error> {
        if short.is_settled {
            return Ok(Ok(*short));
        }
        // Requests between workers grow with the workers that are represented.
        let job = &point.row.job;
        let represented = (job.workers as f64 / ALIKE_ABOVE as f64).max(1.0);
        let events = short.events * represented;
        let lengths = self.lengths(point);
        let repeats = lengths.filter(|lengths| job.batches_per_worker > 2 * lengths.many);
        let figures = match repeats {
            Some(lengths) if events > FEW_EVENTS => self.repeated(point, lengths, events)?,
            _ if events > MOST_EVENTS => Ok(*short),
            _ => self.whole(point, Draw(None))?,
        };
        Ok(figures.map(|figures| Figures {
            is_settled: true,
            ..figures
        }))
    }

    /// Returns the figures of a training from parts of three lengths, if the mini-batches of the
    /// third take what those of the second do; of the whole otherwise, unless that has too many
    /// events.
    fn repeated(&self, point: &Point, lengths: Lengths, events: f64) -> Result<Found, Error> {
        let Lengths { few, many } = lengths;
        let longest = 2 * many;
        let spans = [(few, 1), (many, 1), (longest, 1), (few, 2)];
        let wanted = if point.row.job.epochs > 1 { 4 } else { 3 };
        let parts = parallel::map(&spans[..wanted], |(batches, epochs)| {
            let span = Span {
                batches: *batches,
                epochs: *epochs,
                alike_above: CLASSES_ABOVE,
            };
            self.part(point, Draw(None), span)
        });
        let parts: Result<Result<Vec<Part>, String>, Error> = parts.into_iter().collect();
        let parts = match parts? {
            Ok(parts) => parts,
            Err(reason) => return Ok(Err(reason)),
        };
        let growth = |from: usize, to: usize| {
            let batches = (spans[to].0 - spans[from].0) as f64;
            parts[from].growing.to(&parts[to].growing, batches)
        };
        let (first, second) = (growth(0, 1), growth(1, 2));
        let per_epoch = (parts.get(3)).map_or_else(Growing::default, |twice| {
            parts[0].growing.to(&twice.growing, 1.0)
        });
        if !parts[0].is_alike(&first, &second) && events <= MOST_EVENTS {
            return self.whole(point, Draw(None));
        }
        if second.shrinks() || per_epoch.shrinks() {
            let longer = lengths.doubled();
            let is_part =
                !per_epoch.shrinks() && point.row.job.batches_per_worker > 2 * longer.many;
            return if is_part {
                self.repeated(point, longer, events)
            } else {
                self.whole(point, Draw(None))
            };
        }
        let base = parts.into_iter().next();
        Ok(match base {
            Some(base) => self.extended(point, base, few, &second, &per_epoch, Draw(None)),
            None => Err("nothing was simulated".to_owned()),
        })
    }

    /// Returns the figures of a whole training.
    ///
    /// # Errors
    /// As [`Self::short`].
    pub(super) fn whole(&self, point: &Point, draw: Draw) -> Result<Found, Error> {
        let job = &point.row.job;
        let span = Span {
            batches: job.batches_per_worker,
            epochs: job.epochs,
            alike_above: CLASSES_ABOVE,
        };
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
    fn part(&self, point: &Point, draw: Draw, span: Span) -> Result<Result<Part, String>, Error> {
        let site = &self.sites[point.site];
        let Some(reference) = reference(self.stands, &point.row, site.device()) else {
            let device = site.hardware.about.as_str();
            return Ok(Err(format!(
                "no compute profile knows the model on {device}"
            )));
        };
        let stated = self.stated(point);
        let (profile, prices) = match draw.0 {
            None => (stated.0.clone(), Cow::Borrowed(stated.1)),
            Some(_) => (
                site.profile(draw),
                Cow::Owned(site.prices(self.prices, draw)),
            ),
        };
        let simulation = Simulation {
            job: cut(&point.row.job, span.batches, span.epochs),
            sizes: point.row.sizes(),
            memory_mb: point.row.memory_mb,
            function_memory_mb: point.row.function_memory_mb.clone(),
            timeout_s: profile.function.timeout_s_limit,
            cost: site.cost(&reference, draw),
            profile,
            has_limits: true,
            faults: Vec::new(),
        };
        self.counted[0].fetch_add(1, Ordering::Relaxed);
        let alike_above = span.alike_above;
        Ok(
            match estimate_by(&point.row, &simulation, &prices, alike_above)? {
                Outcome::Feasible(estimate) => {
                    self.counted[1].fetch_add(estimate.events, Ordering::Relaxed);
                    Ok(self.of(&point.row, &estimate, span.epochs))
                }
                Outcome::Infeasible(limit) => Err(limit.to_string()),
                Outcome::Failed(reason) => Err(reason),
            },
        )
    }

    /// Returns an estimate with its machines apart, whose bill is by whole seconds and has
    /// a minimum: neither grows with the work.
    fn of(&self, row: &Row, estimate: &Estimate, epochs: usize) -> Part {
        let bill = estimate
            .bills
            .iter()
            .find(|bill| bill.cost_model == self.account);
        let items = bill.map_or(&[][..], |bill| bill.items.as_slice());
        let mut rented = items
            .iter()
            .filter(|item| item.dimension.starts_with("ec2/"));
        let billed_s = |seconds: f64| seconds.ceil().max(MINIMUM_S);
        let usd = estimate.usd(self.account);
        // Instances are billed for as long as they run, hosts of stores for the whole.
        let (machines, machine_s, usd_per_s) = match (rented.next(), rented.next()) {
            (Some(item), None) if self.account == CostModel::Full => {
                let machines = if has_functions(row) {
                    (item.quantity * 3600.0 / billed_s(estimate.seconds)).round()
                } else {
                    machines(row) as f64
                };
                let each_s = if has_functions(row) {
                    estimate.seconds
                } else {
                    estimate.billed_ms as f64 / 1e3 / machines
                };
                (machines, machines * each_s, item.unit_price_usd / 3600.0)
            }
            _ => (0.0, 0.0, 0.0),
        };
        let machines_usd = if machines > 0.0 {
            rented_usd(items)
        } else {
            0.0
        };
        Part {
            growing: Growing {
                seconds: estimate.seconds,
                other_usd: usd - machines_usd,
                machine_s,
                epochs_s: estimate.seconds_per_epoch * epochs as f64,
                longest_s: estimate.longest_function_s,
                events: estimate.events as f64,
            },
            machines,
            usd_per_s,
            usd,
        }
    }

    /// Returns seconds and dollars with the interruptions that the place expects.
    fn interrupted(&self, point: &Point, price: Price, growing: &Growing, draw: Draw) -> Price {
        let epoch_s = growing.epochs_s / point.row.job.epochs.max(1) as f64;
        let longer = self.sites[point.site].interruptions(epoch_s, draw);
        Price {
            seconds: price.seconds * longer,
            usd: price.usd * longer,
        }
    }

    /// Refuses a carried-on point whose functions would run too long; one whose workers
    /// re-invoke themselves goes on.
    fn within_limits(&self, point: &Point, part: Part) -> Result<Part, String> {
        let limit_s = self.stated(point).0.function.timeout_s_limit;
        let goes_on = point.row.job.settings["continues_by_time"] == true;
        let longest_s = part.growing.longest_s;
        if has_functions(&point.row) && longest_s > limit_s && !goes_on {
            return Err(format!(
                "a function would run for {longest_s:.0} s, and {limit_s:.0} s are the limit"
            ));
        }
        Ok(part)
    }
}

/// Shortest time that a machine is billed for, seconds.
pub(super) const MINIMUM_S: f64 = 60.0;

/// Returns the machines of a row on instances.
fn machines(row: &Row) -> usize {
    let system = find(&row.job.system);
    system.map_or(1, |system| {
        system.deployment().machines.count(row.job.workers)
    })
}

/// Returns the dollars of a bill for machines.
fn rented_usd(items: &[LineItem]) -> f64 {
    let rented = items
        .iter()
        .filter(|item| item.dimension.starts_with("ec2/"));
    rented.map(|item| item.usd).sum()
}

impl Part {
    /// Returns whether two growths per mini-batch take about the same seconds and dollars.
    fn is_alike(&self, a: &Growing, b: &Growing) -> bool {
        let usd = |growing: &Growing| growing.other_usd + growing.machine_s * self.usd_per_s;
        let close = |a: f64, b: f64| (a - b).abs() <= REPEATS * a.abs().max(b.abs());
        close(a.seconds, b.seconds) && close(usd(a), usd(b))
    }

    /// Returns seconds and dollars, with the minimum of the machines' bill.
    fn price(&self) -> Price {
        let machine_s = self.growing.machine_s.max(self.machines * MINIMUM_S);
        Price {
            seconds: self.growing.seconds,
            usd: self.growing.other_usd + machine_s * self.usd_per_s,
        }
    }
}

impl Lengths {
    fn doubled(self) -> Self {
        Self {
            few: self.many,
            many: self.many.saturating_mul(2),
        }
    }
}

impl Growing {
    /// Returns whether more work would take fewer seconds or dollars.
    fn shrinks(&self) -> bool {
        [self.seconds, self.other_usd, self.machine_s]
            .iter()
            .any(|growth| *growth < -ROUNDING)
    }

    /// Returns the growth from these figures to `longer` per unit of `units`.
    fn to(&self, longer: &Self, units: f64) -> Self {
        let per = |of: fn(&Self) -> f64| (of(longer) - of(self)) / units;
        Self {
            seconds: per(|g| g.seconds),
            other_usd: per(|g| g.other_usd),
            machine_s: per(|g| g.machine_s),
            epochs_s: per(|g| g.epochs_s),
            longest_s: per(|g| g.longest_s),
            events: per(|g| g.events),
        }
    }

    /// Returns these figures and `count` times `growth`.
    fn plus(&self, growth: &Self, count: f64) -> Self {
        Self {
            seconds: self.seconds + count * growth.seconds,
            other_usd: self.other_usd + count * growth.other_usd,
            machine_s: self.machine_s + count * growth.machine_s,
            epochs_s: self.epochs_s + count * growth.epochs_s,
            longest_s: self.longest_s + count * growth.longest_s,
            events: self.events + count * growth.events,
        }
    }
}

/// Returns what a step of the row's model costs on the reference of a device: a vCPU, or
/// a T4.
pub(super) fn reference(stands: &Stands, row: &Row, device: Device) -> Option<ModelCost> {
    let known = stands.cost(&row.job.model, device, false);
    let known = known.map(|(_, cost)| cost.clone());
    known.or_else(|| row.own_model.as_ref().map(|own| own.cost(device)))
}

/// Returns a job cut to fewer mini-batches and epochs, with as much less data.
fn cut(job: &Job, batches: usize, epochs: usize) -> Job {
    let mut cut = job.clone();
    (cut.batches_per_worker, cut.epochs) = (batches, epochs);
    let share = batches as f64 / job.batches_per_worker.max(1) as f64;
    let kept = (job.data.train_samples as f64 * share).ceil() as usize;
    let used = work::samples(&cut) / epochs.max(1);
    cut.data.train_samples = kept.max(used);
    cut
}
