//! Trainings carried on from short simulations of them.

use epochcost_platform::sim::CLASSES_ABOVE;
use epochcost_systems::{FanOut, Job, find};

use super::bench::{ALIKE_ABOVE, Bench, Figures, Found, Point, cut, why_unusable};
use super::bounds;
use super::part::{Growing, Lengths, Part, SHORT, Span};
use crate::error::Result;
use crate::forecast::parallel;
use crate::forecast::places::Draw;

/// Events up to which the best settings are simulated whole, whatever their parts show: about a
/// second of one core.
const FEW_EVENTS: f64 = 1e6;

/// Events up to which a setting is simulated whole whose mini-batches do not take the same time.
const MOST_EVENTS: f64 = 4e6;

/// Epochs of the two simulations that a training of whole epochs is carried on from: functions
/// start cold in the first one.
const FEW_EPOCHS: usize = 2;
const MANY_EPOCHS: usize = 4;

/// Returns the part of a training's epochs that [`Bench::by_epochs`] simulates.
fn simulated_share(job: &Job) -> f64 {
    ((FEW_EPOCHS + MANY_EPOCHS) as f64 / job.epochs as f64).min(1.0)
}

/// Returns the lengths, doubled until the system takes so short a training, or the whole is no longer.
fn usable(job: &Job, lengths: Lengths) -> Lengths {
    let is_part = job.batches_per_worker > lengths.many;
    if is_part && why_unusable(&cut(job, lengths.few, 1)).is_some() {
        return usable(job, lengths.doubled());
    }
    lengths
}

impl Bench<'_> {
    /// Returns the lengths of short simulations in which as many functions run at once as in the
    /// whole; none where rounds divide an epoch, which shorter epochs would change.
    pub(super) fn lengths(&self, point: &Point) -> Option<Lengths> {
        let job = &point.row.job;
        let Some(fan_out) = self.fan_out(point) else {
            return Some(usable(job, SHORT));
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

    /// Returns the figures of a training whose epochs are not cut, carried on from its first ones;
    /// of the whole where it is hardly longer than both.
    ///
    /// # Errors
    /// As [`Self::short`].
    pub(super) fn by_epochs(&self, point: &Point, draw: Draw) -> Result<Found> {
        let Job {
            epochs,
            batches_per_worker: batches,
            ..
        } = point.row.job;
        if epochs <= FEW_EPOCHS + MANY_EPOCHS {
            return self.whole(point, draw);
        }
        let at = |epochs| self.part(point, draw, Span::of(batches, epochs, CLASSES_ABOVE));
        let (few, many) = match (at(FEW_EPOCHS)?, at(MANY_EPOCHS)?) {
            (Ok(few), Ok(many)) => (few, many),
            (Err(reason), _) | (_, Err(reason)) => return Ok(Err(reason)),
        };
        let between = (MANY_EPOCHS - FEW_EPOCHS) as f64;
        let per_epoch = few.growing.to(&many.growing, between);
        if per_epoch.shrinks() {
            return self.whole(point, draw);
        }
        let more = (epochs - MANY_EPOCHS) as f64;
        let growing = many.growing.plus(&per_epoch, more);
        Ok(self.found(point, Part { growing, ..many }, draw))
    }

    /// Returns the figures of a point, carried on from two short simulations. Both are doubled while the
    /// longer one ends sooner, as by convoys at a shared server that happen to form in the shorter one,
    /// and while what is carried on is less than the point's bound.
    pub(super) fn carried(&self, point: &Point, draw: Draw, lengths: Lengths) -> Result<Found> {
        let job = &point.row.job;
        let lengths = usable(job, lengths);
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
        let at = |batches, epochs| self.part(point, draw, Span::of(batches, epochs, ALIKE_ABOVE));
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
        let is_below = |figures: &Figures| self.is_below_bound(point, figures);
        if draw.0.is_none() && many > few && found.as_ref().is_ok_and(is_below) {
            return self.carried(point, draw, lengths.doubled());
        }
        Ok(found)
    }

    /// Returns whether figures are less than computing the gradients takes.
    fn is_below_bound(&self, point: &Point, figures: &Figures) -> bool {
        let price = figures.price;
        bounds::before(self, point, Draw(None))
            .is_ok_and(|least| price.seconds < least.seconds || price.usd < least.usd)
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
        self.found(point, Part { growing, ..base }, draw)
    }

    /// Returns the figures of a training that was carried on, unless its functions run too long.
    fn found(&self, point: &Point, carried: Part, draw: Draw) -> Found {
        self.within_limits(point, carried.growing.longest_s)?;
        Ok(Figures {
            price: self.interrupted(point, carried.price(), &carried.growing, draw),
            events: carried.growing.events,
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
    pub(super) fn settled(&self, point: &Point, short: &Figures) -> Result<Found> {
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
            _ if events * simulated_share(job) > MOST_EVENTS => Ok(*short),
            _ => self.by_epochs(point, Draw(None))?,
        };
        Ok(figures.map(|figures| Figures {
            is_settled: true,
            ..figures
        }))
    }

    /// Returns the figures of a training from parts of three lengths, if the mini-batches of the
    /// third take what those of the second do; of the whole otherwise, unless that has too many
    /// events.
    fn repeated(&self, point: &Point, lengths: Lengths, events: f64) -> Result<Found> {
        let Lengths { few, many } = lengths;
        let longest = 2 * many;
        let spans = [(few, 1), (many, 1), (longest, 1), (few, 2)];
        let wanted = if point.row.job.epochs > 1 { 4 } else { 3 };
        let parts = parallel::try_map(&spans[..wanted], |(batches, epochs)| {
            let span = Span::of(*batches, *epochs, CLASSES_ABOVE);
            self.part(point, Draw(None), span)
        });
        let parts: Vec<Part> = match parts?.into_iter().collect() {
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
        let base = base.ok_or_else(|| "nothing was simulated".to_owned());
        Ok(base.and_then(|base| self.extended(point, base, few, &second, &per_epoch, Draw(None))))
    }
}
