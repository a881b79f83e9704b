//! Seconds and dollars of one setting at one place.

use epochcost_simulator::Simulation;
use epochcost_simulator::profile::ModelCost;
use epochcost_systems::{Device, Job, find};
use serde::Serialize;

use super::goal::Price;
use crate::cost::{CostModel, LineItem, PriceBook};
use crate::error::Error;
use crate::forecast::estimate::{Estimate, Outcome, estimate, has_functions};
use crate::forecast::places::{Draw, Site};
use crate::forecast::work;
use crate::rows::{Row, Simulation as Stands};

/// Mini-batches per worker of the longer of two short simulations. A training with no
/// more is simulated whole.
const SHORT_BATCHES: usize = 8;

/// Events above which a setting is not simulated whole, but carried on from two short
/// simulations: some seconds of one core.
const MOST_EVENTS: f64 = 4e6;

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
}

impl Bench<'_> {
    /// Returns the figures of a point from short simulations; of the whole training where
    /// it is short itself.
    ///
    /// # Errors
    /// When the row is none of a known system, or something has no price.
    pub(in crate::forecast) fn short(&self, point: &Point, draw: Draw) -> Result<Found, Error> {
        let job = &point.row.job;
        let (batches, epochs) = (job.batches_per_worker, job.epochs);
        if batches <= SHORT_BATCHES && epochs == 1 {
            return self.whole(point, draw);
        }
        let (few, many) = if batches > SHORT_BATCHES {
            (SHORT_BATCHES / 2, SHORT_BATCHES)
        } else {
            (batches, batches)
        };
        let at = |batches, epochs| self.part(point, draw, batches, epochs);
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
        let mut per_epoch = Growing::default();
        if epochs > 1 {
            match at(few, 2)? {
                Ok(longer) => per_epoch = base.growing.to(&longer.growing, 1.0),
                Err(reason) => return Ok(Err(reason)),
            }
        }
        let growing = (base.growing)
            .plus(&per_epoch, (epochs - 1) as f64)
            .plus(&per_batch, (epochs * (batches - few)) as f64);
        let part = Part { growing, ..base };
        Ok(self.within_limits(point, part).map(|part| Figures {
            price: self.interrupted(point, part.price(), &part.growing, draw),
            events: part.growing.events,
            is_whole: false,
        }))
    }

    /// Returns the figures of a whole training, or those of short ones where it has too
    /// many events.
    ///
    /// # Errors
    /// As [`Self::short`].
    pub(super) fn settled(&self, point: &Point, short: &Figures) -> Result<Found, Error> {
        if short.is_whole || short.events > MOST_EVENTS {
            return Ok(Ok(*short));
        }
        self.whole(point, Draw(None))
    }

    /// Returns the figures of a whole training.
    ///
    /// # Errors
    /// As [`Self::short`].
    pub(super) fn whole(&self, point: &Point, draw: Draw) -> Result<Found, Error> {
        let job = &point.row.job;
        let found = self.part(point, draw, job.batches_per_worker, job.epochs)?;
        Ok(found.map(|part| {
            let billed = Price {
                seconds: part.growing.seconds,
                usd: part.usd,
            };
            Figures {
                price: self.interrupted(point, billed, &part.growing, draw),
                events: part.growing.events,
                is_whole: true,
            }
        }))
    }

    /// Simulates so much of a point.
    fn part(
        &self,
        point: &Point,
        draw: Draw,
        batches: usize,
        epochs: usize,
    ) -> Result<Result<Part, String>, Error> {
        let site = &self.sites[point.site];
        let Some(reference) = reference(self.stands, &point.row, site.device()) else {
            let device = site.hardware.about.as_str();
            return Ok(Err(format!(
                "no compute profile knows the model on {device}"
            )));
        };
        let profile = site.profile(draw);
        let simulation = Simulation {
            job: cut(&point.row.job, batches, epochs),
            sizes: point.row.sizes(),
            memory_mb: point.row.memory_mb,
            function_memory_mb: point.row.function_memory_mb.clone(),
            timeout_s: profile.function.timeout_s_limit,
            cost: site.cost(&reference, draw),
            profile,
            has_limits: true,
        };
        let prices = site.prices(self.prices, draw);
        Ok(match estimate(&point.row, &simulation, &prices)? {
            Outcome::Feasible(estimate) => Ok(self.of(&point.row, &estimate, epochs)),
            Outcome::Infeasible(limit) => Err(limit.to_string()),
            Outcome::Failed(reason) => Err(reason),
        })
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
        let site = &self.sites[point.site];
        let limit_s = site.profile(Draw(None)).function.timeout_s_limit;
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
const MINIMUM_S: f64 = 60.0;

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
    /// Returns seconds and dollars, with the minimum of the machines' bill.
    fn price(&self) -> Price {
        let machine_s = self.growing.machine_s.max(self.machines * MINIMUM_S);
        Price {
            seconds: self.growing.seconds,
            usd: self.growing.other_usd + machine_s * self.usd_per_s,
        }
    }
}

impl Growing {
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
