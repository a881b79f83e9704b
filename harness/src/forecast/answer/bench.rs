//! Seconds and dollars of one setting at one place.

use epochcost_simulator::Simulation;
use epochcost_simulator::profile::ModelCost;
use epochcost_systems::{Device, Job};
use serde::Serialize;

use super::goal::Price;
use crate::cost::{CostModel, PriceBook};
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
    /// Seconds of all epochs, without boots and starts.
    epochs_s: f64,
    /// Longest run of a function, seconds.
    longest_s: f64,
    /// Events of the simulation.
    events: f64,
    /// Whether the whole was simulated; otherwise it is carried on from its first
    /// mini-batches and epochs.
    pub(super) is_whole: bool,
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
        let at = |batches, epochs| self.figures(point, draw, batches, epochs);
        let base = match at(few, 1)? {
            Ok(base) => base,
            Err(reason) => return Ok(Err(reason)),
        };
        // Each figure is a constant, a part per epoch, and a part per mini-batch of it.
        let per_batch = if many > few {
            match at(many, 1)? {
                Ok(longer) => base.slope(&longer, (many - few) as f64),
                Err(reason) => return Ok(Err(reason)),
            }
        } else {
            base.slope(&base, 1.0)
        };
        let second_epoch = if epochs > 1 {
            match at(few, 2)? {
                Ok(longer) => base.slope(&longer, 1.0),
                Err(reason) => return Ok(Err(reason)),
            }
        } else {
            base.slope(&base, 1.0)
        };
        let figures = base
            .plus(&second_epoch, (epochs - 1) as f64)
            .plus(&per_batch, (epochs * (batches - few)) as f64);
        Ok(self
            .within_limits(point, figures)
            .map(|figures| self.interrupted(point, figures, draw)))
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
        let found = self.figures(point, draw, job.batches_per_worker, job.epochs)?;
        Ok(found.map(|figures| Figures {
            is_whole: true,
            ..self.interrupted(point, figures, draw)
        }))
    }

    /// Simulates so much of a point.
    fn figures(
        &self,
        point: &Point,
        draw: Draw,
        batches: usize,
        epochs: usize,
    ) -> Result<Found, Error> {
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
            timeout_s: profile.function.timeout_s_limit,
            cost: site.cost(&reference, draw),
            profile,
            has_limits: true,
        };
        let prices = site.prices(self.prices, draw);
        Ok(match estimate(&point.row, &simulation, &prices)? {
            Outcome::Feasible(estimate) => Ok(self.of(&estimate, epochs)),
            Outcome::Infeasible(limit) => Err(limit.to_string()),
            Outcome::Failed(reason) => Err(reason),
        })
    }

    fn of(&self, estimate: &Estimate, epochs: usize) -> Figures {
        Figures {
            price: Price {
                seconds: estimate.seconds,
                usd: estimate.usd(self.account),
            },
            epochs_s: estimate.seconds_per_epoch * epochs as f64,
            longest_s: estimate.longest_function_s,
            events: estimate.events as f64,
            is_whole: false,
        }
    }

    /// Returns figures with the interruptions that the place expects.
    fn interrupted(&self, point: &Point, figures: Figures, draw: Draw) -> Figures {
        let epoch_s = figures.epochs_s / point.row.job.epochs.max(1) as f64;
        let longer = self.sites[point.site].interruptions(epoch_s, draw);
        Figures {
            price: Price {
                seconds: figures.price.seconds * longer,
                usd: figures.price.usd * longer,
            },
            ..figures
        }
    }

    /// Refuses a carried-on point whose functions would run too long; one whose workers
    /// re-invoke themselves goes on.
    fn within_limits(&self, point: &Point, figures: Figures) -> Found {
        let site = &self.sites[point.site];
        let limit_s = site.profile(Draw(None)).function.timeout_s_limit;
        let settings = &point.row.job.settings;
        let goes_on = settings["continues_by_time"] == true;
        if has_functions(&point.row) && figures.longest_s > limit_s && !goes_on {
            return Err(format!(
                "a function would run for {:.0} s, and {limit_s:.0} s are the limit",
                figures.longest_s
            ));
        }
        Ok(figures)
    }
}

impl Figures {
    /// Returns the growth from these figures to `longer` per unit of `units`.
    fn slope(&self, longer: &Self, units: f64) -> Self {
        let per = |of: fn(&Self) -> f64| (of(longer) - of(self)) / units;
        Self {
            price: Price {
                seconds: per(|f| f.price.seconds),
                usd: per(|f| f.price.usd),
            },
            epochs_s: per(|f| f.epochs_s),
            longest_s: per(|f| f.longest_s),
            events: per(|f| f.events),
            is_whole: false,
        }
    }

    /// Returns these figures and `count` times `growth`.
    fn plus(&self, growth: &Self, count: f64) -> Self {
        Self {
            price: Price {
                seconds: self.price.seconds + count * growth.price.seconds,
                usd: self.price.usd + count * growth.price.usd,
            },
            epochs_s: self.epochs_s + count * growth.epochs_s,
            longest_s: self.longest_s + count * growth.longest_s,
            events: self.events + count * growth.events,
            is_whole: false,
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
