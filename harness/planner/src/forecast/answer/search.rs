//! The search: settings are simulated in the order of bounds that none of them can be better
//! than, first in part and, where they are to be named, whole.

use std::collections::BTreeSet;

use epochcost_systems::Host;

use super::bench::{Bench, Figures, Found, Point};
use super::decide::{self, Ground, MISSES};
use super::goal::{Goal, Price};
use super::ranges::Draws;
use super::{AssumedPrice, Choice, MOST_SHOWN, alone, bounds, on_frontier, parallel, text, work};
use crate::error::Result;
use crate::forecast::places::{Draw, Site};

/// Settings, what bounds each, and what is known of those that were simulated.
pub(crate) struct Searched<'a> {
    pub(crate) bench: &'a Bench<'a>,
    pub(crate) points: Vec<Point>,
    /// Seconds and dollars that no setting goes below; none for impossible ones.
    least: Vec<Option<Price>>,
    /// Figures of the settings that were simulated, and reasons of those that are impossible.
    pub(super) found: Vec<Option<Found>>,
    /// Points that were simulated roughly, which raised their bounds.
    is_scouted: Vec<bool>,
    /// Draws of the settings that may be the answer, or are shown.
    pub(super) draws: Draws,
}

/// Share of a rough simulation's seconds and dollars that a closer one does not go below.
pub(super) const SURE: f64 = 0.8;

/// Settings that are simulated before the bounds of the others are looked at again.
const WAVE: usize = 16;

/// Seed of the draws unless another is asked for.
pub(super) const SEED: u64 = 42;

impl<'a> Searched<'a> {
    /// Computes the bounds of every point, and simulates none.
    pub(crate) fn of(bench: &'a Bench<'a>, points: Vec<Point>) -> Self {
        let (mut least, mut found) = (Vec::new(), Vec::new());
        for point in &points {
            let before = bounds::before(bench, point, Draw(None));
            least.push(before.as_ref().ok().copied());
            found.push(before.err().map(Err));
        }
        Self {
            bench,
            is_scouted: vec![false; points.len()],
            points,
            least,
            found,
            draws: Draws::new(SEED),
        }
    }

    /// Simulates points with few mini-batches, unless they were.
    pub(super) fn simulate(&mut self, indices: &[usize]) -> Result<()> {
        let missing: Vec<usize> = (indices.iter().copied())
            .filter(|index| self.found[*index].is_none())
            .collect();
        let found = parallel::map(&missing, |index| {
            self.bench.short(&self.points[*index], Draw(None))
        });
        for (index, found) in missing.into_iter().zip(found) {
            self.found[index] = Some(found?);
        }
        Ok(())
    }

    /// Returns the figures of a point that was simulated and is possible.
    pub(crate) fn figures(&self, index: usize) -> Option<&Figures> {
        self.found[index].as_ref()?.as_ref().ok()
    }

    /// Returns whether a point is not known to be impossible.
    fn is_possible(&self, index: usize) -> bool {
        !matches!(self.found[index], Some(Err(_)))
    }

    /// Returns the first of the settings that `fits` marks that is impossible, in words, and why.
    pub(super) fn why_not(&self, fits: &[bool]) -> Option<String> {
        let mut found = self.points.iter().zip(&self.found).zip(fits);
        found.find_map(|((point, found), fits)| {
            let why = found.as_ref().filter(|_| *fits)?.as_ref().err()?;
            Some(format!(
                "{}: {why}",
                text::describe(point, self.site(point))
            ))
        })
    }

    /// Returns the figures of every point that was simulated, and the bounds of the others.
    pub(super) fn hopes(&self) -> Vec<Option<Price>> {
        let known = |(index, found): (usize, &Option<Found>)| match found {
            Some(found) => found.as_ref().ok().map(|figures| figures.price),
            None => self.least[index],
        };
        self.found.iter().enumerate().map(known).collect()
    }

    /// Returns the best of the points that `fits` marks: the one that would be found if all of
    /// them were simulated, since no other one's bound is before it.
    pub(crate) fn best(&mut self, goal: Goal, fits: &[bool]) -> Result<Option<usize>> {
        loop {
            let hopes = self.hopes();
            let Some(best) = goal.best(&hopes, |place| fits[place]) else {
                return Ok(None);
            };
            if self.found[best].is_some() {
                return Ok(Some(best));
            }
            let wave = self.wave(goal, fits, &hopes);
            self.simulate(&wave)?;
        }
    }

    /// Returns the first points whose bounds are before the best figures that are known.
    fn wave(&self, goal: Goal, fits: &[bool], hopes: &[Option<Price>]) -> Vec<usize> {
        let known = goal.best(hopes, |place| fits[place] && self.found[place].is_some());
        let known = known.and_then(|place| hopes[place]);
        let mut ahead: Vec<(usize, Price)> = (hopes.iter().enumerate())
            .filter(|(place, _)| fits[*place] && self.found[*place].is_none())
            .filter_map(|(place, hope)| Some((place, (*hope)?)))
            .filter(|(_, hope)| goal.is_met_by(*hope))
            .filter(|(_, hope)| known.is_none_or(|known| goal.order(*hope, known).is_le()))
            .collect();
        ahead.sort_by(|(i, a), (j, b)| goal.order(*a, *b).then(i.cmp(j)));
        ahead.truncate(WAVE);
        ahead.into_iter().map(|(place, _)| place).collect()
    }

    /// Returns the best of the points that `fits` marks, once its figures are those of the
    /// whole training.
    pub(super) fn whole_best(&mut self, goal: Goal, fits: &[bool]) -> Result<Option<usize>> {
        loop {
            let Some(best) = self.best(goal, fits)? else {
                return Ok(None);
            };
            if !Ground::settle(self, best)? {
                return Ok(Some(best));
            }
        }
    }

    /// Returns for each point whether `of` holds.
    pub(crate) fn fits(&self, of: impl Fn(&Point) -> bool) -> Vec<bool> {
        self.points.iter().map(of).collect()
    }

    pub(super) fn site(&self, point: &Point) -> &Site {
        &self.bench.sites[point.site]
    }

    pub(super) fn host(&self, point: &Point) -> Host {
        self.site(point).place.host
    }

    /// Returns whether a point is one machine with one GPU and nothing to exchange with.
    pub(super) fn is_plain(&self, point: &Point) -> bool {
        let site = self.site(point);
        alone::is_alone(&point.row) && site.device() == epochcost_systems::Device::Cuda
    }

    pub(super) fn choice(&self, index: usize) -> Option<Choice> {
        let point = &self.points[index];
        let figures = self.figures(index)?;
        let job = &point.row.job;
        let site = self.site(point);
        let on_functions = site.place.host == Host::Function;
        let assumed = site.assumed_prices().map(|price| AssumedPrice {
            dimension: price.dimension.clone(),
            date: price.date.clone(),
        });
        Some(Choice {
            what: text::describe(point, site),
            system: job.system.clone(),
            fidelity: job.fidelity,
            workers: job.workers,
            memory_mb: on_functions.then_some(point.row.memory_mb),
            place: site.place.name.clone(),
            batches_per_worker: job.batches_per_worker,
            steps_per_epoch: work::steps_per_epoch(job),
            price: figures.price,
            assumed_prices: assumed.collect(),
            is_memory_checked: self.bench.checks_memory(point),
            is_whole: figures.is_whole,
            seconds_range: None,
            usd_range: None,
            chance: None,
            impossible: None,
            is_tie: false,
            index,
        })
    }

    /// Returns the cheapest points on the frontier of seconds and dollars: no figures and no bound
    /// are faster and cheaper. Bounds of more dollars hide none of them. Those that fan functions
    /// out are settled, since few mini-batches of these tell less of the whole.
    pub(super) fn frontier(&mut self) -> Result<Vec<usize>> {
        loop {
            // Of what is known, and of the bounds of the rest.
            let mut on = on_frontier(self.hopes().into_iter().enumerate());
            on.truncate(MOST_SHOWN);
            let unknown: Vec<usize> = (on.iter().copied())
                .filter(|index| self.found[*index].is_none())
                .collect();
            let scouts = self.scouts(&unknown);
            if !scouts.is_empty() {
                self.scout(&scouts)?;
                continue;
            }
            if !unknown.is_empty() {
                self.simulate(&unknown)?;
                continue;
            }
            let short: Vec<(usize, Figures)> = (on.iter())
                .filter_map(|index| Some((*index, *self.figures(*index)?)))
                .filter(|(index, figures)| {
                    !figures.is_settled && self.bench.fan_out(&self.points[*index]).is_some()
                })
                .collect();
            if short.is_empty() {
                return Ok(on);
            }
            let settled = parallel::map(&short, |(index, figures)| {
                self.bench.settled(&self.points[*index], figures)
            });
            for ((index, _), found) in short.iter().zip(settled) {
                self.found[*index] = Some(found?);
            }
        }
    }

    /// Returns what is to be simulated roughly before these points are simulated, of those whose
    /// requests grow with the square of their workers: first the fastest that each is slower than.
    fn scouts(&self, unknown: &[usize]) -> Vec<usize> {
        let open = unknown.iter().copied();
        let open = open.filter(|index| self.bench.is_long(&self.points[*index]));
        let scouts = open.flat_map(|index| {
            let mut both = [self.fastest(index), index].into_iter();
            both.find(|scout| !self.is_scouted[*scout])
        });
        scouts.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns the fastest point that one is slower than, the first of equals.
    fn fastest(&self, index: usize) -> usize {
        let faster = (0..self.points.len())
            .filter(|other| self.is_possible(*other) && self.is_slower(index, *other));
        let speed = |index: usize| {
            let point = &self.points[index];
            (point.row.memory_mb, self.site(point).hardware.speed.value)
        };
        faster.fold(index, |best, other| {
            let is_faster = speed(other) > speed(best);
            if is_faster { other } else { best }
        })
    }

    /// Raises the bounds of points, and of those that are no faster, by rough simulations.
    fn scout(&mut self, scouts: &[usize]) -> Result<()> {
        let rough = parallel::map(scouts, |index| {
            self.bench.rough(&self.points[*index], Draw(None))
        });
        for (scout, rough) in scouts.iter().zip(rough) {
            let rough = rough?.ok().map(|figures| figures.price);
            self.is_scouted[*scout] = true;
            let Some(rough) = rough else { continue };
            for index in 0..self.points.len() {
                if !self.is_slower(index, *scout) {
                    continue;
                }
                if let Some(least) = &mut self.least[index] {
                    least.seconds = least.seconds.max(SURE * rough.seconds);
                    if index == *scout {
                        least.usd = least.usd.max(SURE * rough.usd);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns whether a point trains what another one does with no more memory, on the same
    /// platform without interruptions and on hardware that is no faster.
    pub(super) fn is_slower(&self, index: usize, than: usize) -> bool {
        let (own, other) = (&self.points[index], &self.points[than]);
        let same_row = own.row.job == other.row.job
            && own.row.constants == other.row.constants
            && own.row.client == other.row.client
            && own.row.function_memory_mb == other.row.function_memory_mb;
        let is_less = own.row.memory_mb <= other.row.memory_mb;
        same_row && is_less && self.site(own).is_no_faster(self.site(other))
    }
}

impl Ground for Searched<'_> {
    fn best(&mut self, goal: Goal, fits: &[bool]) -> Result<Option<usize>> {
        Searched::best(self, goal, fits)
    }

    fn price(&self, index: usize) -> Option<Price> {
        self.figures(index).map(|figures| figures.price)
    }

    fn drawn(&mut self, index: usize, count: usize) -> Result<Vec<Option<Price>>> {
        self.draw(&[index], count)?;
        let mut drawn = self.drawn_so_far(index);
        drawn.truncate(count);
        Ok(drawn)
    }

    fn settle(&mut self, index: usize) -> Result<bool> {
        let short = self.figures(index).copied();
        let Some(short) = short.filter(|short| !short.is_settled) else {
            return Ok(false);
        };
        self.found[index] = Some(self.bench.settled(&self.points[index], &short)?);
        Ok(true)
    }

    fn may_keep(&self, goal: Goal, index: usize, count: usize) -> bool {
        let before = |draw| bounds::before(self.bench, &self.points[index], draw);
        let is_missed = |draw: &Draw| !before(*draw).is_ok_and(|least| goal.is_met_by(least));
        let missed = self.draws.first(count).filter(is_missed);
        missed.take(count / MISSES + 1).count() <= count / MISSES
    }

    fn may_lead(&self, goal: Goal, index: usize, drawn: &[Option<Price>]) -> bool {
        let before = |draw| bounds::before(self.bench, &self.points[index], draw);
        let least = self.draws.first(drawn.len()).map(|draw| before(draw).ok());
        let least: Vec<Option<Price>> = least.collect();
        self.is_possible(index) && decide::leads(goal, &least, drawn) > drawn.len() / MISSES
    }
}
