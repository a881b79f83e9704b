//! Where to train: the setting that meets a goal best, of all systems, numbers of
//! workers, memory sizes, fidelities and places.
//!
//! Settings are simulated with few mini-batches, which are carried on to the whole, in the
//! order of bounds that none of them can be better than: what is worse by its bound than the
//! best that is known needs no simulation. The best is then simulated whole until one of them
//! stays the best. Draws of all that has a range say how far the answer holds.

mod bench;
mod bounds;
mod carried;
mod even;
mod goal;
mod page;
mod part;
mod points;
mod ranges;
mod text;

#[cfg(test)]
mod tests;

use std::time::Instant;

use epochcost_systems::Host;
use serde::Serialize;

pub(super) use self::bench::{Bench, Point};
use self::bench::{Counted, Figures, Found};
use self::bounds::Before;
use self::even::BreakEven;
use self::goal::Price;
pub use self::goal::{Goal, read_seconds};
pub(super) use self::points::points;
use self::ranges::Range;
pub(super) use self::text::describe;
use super::places::{self, Draw, Site};
use super::{Request, alone, frontier, misses, parallel};
use crate::cost::PriceBook;
use crate::error::Error;
use crate::experiment::Experiment;
use crate::rows::Simulation;
use crate::ui::Output;

/// Settings of the frontier that are shown at most.
const MOST_SHOWN: usize = 12;

/// Where to train, and what would change that.
#[derive(Serialize)]
pub(super) struct Answer {
    /// What was asked for.
    goal: Goal,
    /// Samples that are trained.
    samples: usize,
    /// Settings that were searched.
    searched: usize,
    /// Settings among them that were simulated, or are impossible by their sizes. Bounds of time
    /// and dollars rule out the others. Since 1.3.
    simulated: usize,
    /// Settings among the simulated ones that are possible.
    possible: usize,
    /// The best that meets the goal; null if nothing does.
    answer: Option<Choice>,
    /// The best of another system, host or place.
    runner_up: Option<Choice>,
    /// The plain alternative: one GPU alone.
    plain: Option<Choice>,
    /// The best on functions, and the best on instances.
    functions: Option<Choice>,
    instances: Option<Choice>,
    /// What is nearest, where nothing meets the goal.
    nearest: Vec<Choice>,
    /// What would change the answer.
    break_evens: Vec<BreakEven>,
    /// Settings that nothing is both faster and cheaper than.
    frontier: Vec<Choice>,
    /// The answer in sentences.
    sentences: Vec<String>,
}

/// One setting with its figures.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Choice {
    /// The setting in words.
    what: String,
    system: String,
    fidelity: epochcost_systems::Fidelity,
    workers: usize,
    /// Memory of its functions; null on instances.
    memory_mb: Option<u32>,
    place: String,
    /// Optimizer steps of a worker: fewer, larger ones may learn less.
    batches_per_worker: usize,
    #[serde(flatten)]
    price: Price,
    /// Whether the whole was simulated; otherwise it is carried on from its first steps.
    is_whole: bool,
    /// The 5th and 95th percentile over draws of all ranges; null if it was not drawn.
    seconds_range: Option<Range>,
    usd_range: Option<Range>,
    /// Whether it beats the answer in more than a twentieth of the draws.
    is_tie: bool,
    /// Position among the points.
    #[serde(skip)]
    index: usize,
}

/// Settings, what bounds each, and what is known of those that were simulated.
pub(super) struct Searched<'a> {
    pub(super) bench: &'a Bench<'a>,
    pub(super) points: Vec<Point>,
    /// Seconds and dollars that no setting goes below; none for impossible ones.
    least: Vec<Option<Price>>,
    /// Figures of the settings that were simulated, and reasons of those that are impossible.
    found: Vec<Option<Found>>,
}

/// Returns where to train an experiment's model under a goal.
///
/// # Errors
/// When the experiment trains several models, a place cannot be used, or something has no
/// price.
pub(super) fn answer(
    request: &Request<'_>,
    goal: Goal,
    experiment: &Experiment,
    stands: &Simulation,
    prices: &PriceBook,
    output: Output,
) -> Result<Answer, Error> {
    let places::Laid { sites, left_out } = places::laid(request.places, stands)?;
    if !left_out.is_empty() {
        output.message(format_args!("places left out: {}", left_out.join("; ")));
    }
    let points = points::points(experiment, &sites)?;
    output.message(format_args!(
        "searching {} settings at {} places",
        points.len(),
        sites.len()
    ));
    let bench = Bench::new(&sites, stands, prices, request.account);
    let effort = Effort::new(output);
    let mut searched = Searched::of(&bench, points);
    let all = searched.fits(|_| true);
    let best = searched.settle(goal, &all)?;
    let seed = request.sampling.map_or(42, |sampling| sampling.seed);
    Answer::of(&mut searched, goal, best, seed, effort)
}

/// What the parts of a search took, for `-v`.
struct Effort {
    output: Output,
    began: Instant,
    counted: Counted,
}

impl Effort {
    fn new(output: Output) -> Self {
        Self {
            output,
            began: Instant::now(),
            counted: Counted::default(),
        }
    }

    /// Prints what the part that ends here took.
    fn end(&mut self, part: &str, searched: &Searched<'_>) {
        let counted = searched.bench.counted();
        self.output.detail(format_args!(
            "search, {part}: {} simulations, {} events, {:.2} s",
            counted.simulations - self.counted.simulations,
            counted.events - self.counted.events,
            self.began.elapsed().as_secs_f64()
        ));
        (self.began, self.counted) = (Instant::now(), counted);
    }
}

/// Settings that are simulated before the bounds of the others are looked at again.
const WAVE: usize = 16;

impl<'a> Searched<'a> {
    /// Computes the bounds of every point, and simulates none.
    pub(super) fn of(bench: &'a Bench<'a>, points: Vec<Point>) -> Self {
        let (mut least, mut found) = (Vec::new(), Vec::new());
        for point in &points {
            let (price, reason) = match bounds::before(bench, point) {
                Before::AtLeast(price) => (Some(price), None),
                Before::Impossible(reason) => (None, Some(Err(reason))),
            };
            least.push(price);
            found.push(reason);
        }
        Self {
            bench,
            points,
            least,
            found,
        }
    }

    /// Simulates points with few mini-batches, unless they were.
    fn simulate(&mut self, indices: &[usize]) -> Result<(), Error> {
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
    pub(super) fn figures(&self, index: usize) -> Option<&Figures> {
        self.found[index].as_ref()?.as_ref().ok()
    }

    /// Returns the figures of every point that was simulated, and the bounds of the others.
    fn hopes(&self) -> Vec<Option<Price>> {
        let known = |(index, found): (usize, &Option<Found>)| match found {
            Some(found) => found.as_ref().ok().map(|figures| figures.price),
            None => self.least[index],
        };
        self.found.iter().enumerate().map(known).collect()
    }

    /// Returns the best of the points that `fits` marks: the one that would be found if all of
    /// them were simulated, since no other one's bound is before it.
    pub(super) fn best(&mut self, goal: Goal, fits: &[bool]) -> Result<Option<usize>, Error> {
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
    fn settle(&mut self, goal: Goal, fits: &[bool]) -> Result<Option<usize>, Error> {
        loop {
            let Some(best) = self.best(goal, fits)? else {
                return Ok(None);
            };
            let Some(short) = self.figures(best).copied() else {
                return Ok(None);
            };
            if short.is_settled {
                return Ok(Some(best));
            }
            self.found[best] = Some(self.bench.settled(&self.points[best], &short)?);
        }
    }

    /// Returns for each point whether `of` holds.
    pub(super) fn fits(&self, of: impl Fn(&Point) -> bool) -> Vec<bool> {
        self.points.iter().map(of).collect()
    }

    fn site(&self, point: &Point) -> &Site {
        &self.bench.sites[point.site]
    }

    fn host(&self, point: &Point) -> Host {
        self.site(point).place.host
    }

    /// Returns whether a point is one machine with one GPU and nothing to exchange with.
    fn is_plain(&self, point: &Point) -> bool {
        let site = self.site(point);
        alone::is_alone(&point.row) && site.device() == epochcost_systems::Device::Cuda
    }

    fn choice(&self, index: usize) -> Option<Choice> {
        let point = &self.points[index];
        let figures = self.figures(index)?;
        let job = &point.row.job;
        let on_functions = self.host(point) == Host::Function;
        Some(Choice {
            what: text::describe(point, self.site(point)),
            system: job.system.clone(),
            fidelity: job.fidelity,
            workers: job.workers,
            memory_mb: on_functions.then_some(point.row.memory_mb),
            place: self.site(point).place.name.clone(),
            batches_per_worker: job.batches_per_worker,
            price: figures.price,
            is_whole: figures.is_whole,
            seconds_range: None,
            usd_range: None,
            is_tie: false,
            index,
        })
    }

    /// Returns the cheapest points on the frontier of seconds and dollars: no figures and no bound
    /// are faster and cheaper. Bounds of more dollars hide none of them. Those that fan functions
    /// out are settled, since few mini-batches of these tell less of the whole.
    fn frontier(&mut self) -> Result<Vec<usize>, Error> {
        loop {
            let mut on = self.hopeful_frontier();
            on.truncate(MOST_SHOWN);
            let unknown: Vec<usize> = (on.iter().copied())
                .filter(|index| self.found[*index].is_none())
                .collect();
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

    /// Returns the points on the frontier of what is known and of the bounds of the rest.
    fn hopeful_frontier(&self) -> Vec<usize> {
        let hopes: Vec<(usize, Price)> = (self.hopes().into_iter().enumerate())
            .filter_map(|(index, price)| Some((index, price?)))
            .collect();
        let pairs: Vec<(f64, f64)> = hopes.iter().map(|(_, p)| (p.seconds, p.usd)).collect();
        let on = frontier::frontier(&pairs);
        let mut kept: Vec<_> = hopes.iter().zip(on).filter(|(_, on)| *on).collect();
        kept.sort_by(|((_, a), _), ((_, b), _)| a.usd.total_cmp(&b.usd));
        kept.into_iter().map(|((index, _), _)| *index).collect()
    }
}

impl Answer {
    fn of(
        searched: &mut Searched<'_>,
        goal: Goal,
        best: Option<usize>,
        seed: u64,
        mut effort: Effort,
    ) -> Result<Self, Error> {
        // The alternatives; the plain one and the two hosts whether they meet the goal or not.
        let runner_up = match best {
            None => None,
            Some(best) => {
                let used = searched.points[best].clone();
                let others = searched.fits(|point| !is_like(&used, point));
                searched.settle(goal, &others)?
            }
        };
        let any = Goal {
            deadline_s: goal.deadline_s.map(|_| f64::INFINITY),
            budget_usd: goal.budget_usd.map(|_| f64::INFINITY),
        };
        let kind = |searched: &mut Searched<'_>, wanted: Wanted| {
            let fits = searched.fits(|point| wanted.takes(searched, point));
            searched.best_of(goal, any, &fits)
        };
        let plain = kind(searched, Wanted::Plain)?;
        let functions = kind(searched, Wanted::On(Host::Function))?;
        let instances = kind(searched, Wanted::On(Host::Instance))?;
        let nearest = match best {
            Some(_) => Vec::new(),
            None => searched.nearest(goal)?,
        };
        effort.end("the best of each kind", searched);
        // The frontier, and how far all of it holds.
        let shown = searched.frontier()?;
        effort.end("frontier", searched);
        let named = [best, runner_up, plain, functions, instances];
        let mut drawn: Vec<usize> = named.into_iter().flatten().collect();
        drawn.extend(shown.iter().chain(&nearest));
        drawn.sort_unstable();
        drawn.dedup();
        let draws = ranges::draws(searched, &drawn, seed)?;
        effort.end("draws", searched);
        let order = if best.is_some() { goal } else { any };
        let choice = |index: usize| {
            let choice = searched.choice(index)?;
            Some(draws.mark(choice, best, order))
        };
        let break_evens = even::break_evens(searched, functions, instances)?;
        effort.end("break-evens", searched);
        let mut answer = Self {
            goal,
            samples: (searched
                .points
                .iter()
                .map(|p| super::work::samples(&p.row.job)))
            .min()
            .unwrap_or(0),
            searched: searched.points.len(),
            simulated: searched
                .found
                .iter()
                .filter(|found| found.is_some())
                .count(),
            possible: (0..searched.points.len())
                .filter(|index| searched.figures(*index).is_some())
                .count(),
            answer: best.and_then(choice),
            runner_up: runner_up.and_then(choice),
            plain: plain.and_then(choice),
            functions: functions.and_then(choice),
            instances: instances.and_then(choice),
            nearest: nearest.into_iter().filter_map(choice).collect(),
            break_evens,
            frontier: shown.into_iter().filter_map(choice).collect(),
            sentences: Vec::new(),
        };
        answer.sentences = text::sentences(&answer);
        Ok(answer)
    }

    /// Returns what the profiles under the answer's places miss by.
    pub(super) fn misses(&self, stands: &Simulation, sites: &[Site]) -> Vec<String> {
        let named = [&self.answer, &self.runner_up, &self.plain, &self.functions];
        let named = named.into_iter().flatten().chain(&self.nearest);
        let shown: Vec<&str> = (named.chain(&self.frontier))
            .map(|choice| choice.place.as_str())
            .collect();
        let is_shown = |site: &&Site| shown.contains(&site.place.name.as_str());
        misses::sentences(stands, sites.iter().filter(is_shown))
    }

    /// Returns the answer for people: its sentences, and the frontier.
    pub(super) fn text(&self) -> String {
        text::of(self)
    }
}

/// A kind of setting whose best one is named.
#[derive(Clone, Copy)]
enum Wanted {
    Plain,
    On(Host),
}

impl Wanted {
    fn takes(self, searched: &Searched<'_>, point: &Point) -> bool {
        match self {
            Self::Plain => searched.is_plain(point),
            Self::On(host) => searched.host(point) == host,
        }
    }
}

/// Returns whether two points differ only in what is tuned: workers, memory, fidelity.
fn is_like(a: &Point, b: &Point) -> bool {
    a.site == b.site && a.row.job.system == b.row.job.system
}

impl Searched<'_> {
    /// Returns the best of some points: one that meets the goal, or else the best of all.
    fn best_of(&mut self, goal: Goal, any: Goal, fits: &[bool]) -> Result<Option<usize>, Error> {
        match self.settle(goal, fits)? {
            Some(best) => Ok(Some(best)),
            None => self.settle(any, fits),
        }
    }

    /// Returns what is nearest to a goal that nothing meets: the cheapest in time and the
    /// fastest in the budget, or the fastest and the cheapest of all.
    fn nearest(&mut self, goal: Goal) -> Result<Vec<usize>, Error> {
        let all = self.fits(|_| true);
        let cheapest = |deadline_s| Goal {
            deadline_s: Some(deadline_s),
            budget_usd: None,
        };
        let fastest = |budget_usd| Goal {
            deadline_s: None,
            budget_usd: Some(budget_usd),
        };
        let without = f64::INFINITY;
        let in_time = self.best(cheapest(goal.deadline_s.unwrap_or(without)), &all)?;
        let in_budget = self.best(fastest(goal.budget_usd.unwrap_or(without)), &all)?;
        let mut nearest: Vec<usize> = [in_time, in_budget].into_iter().flatten().collect();
        if nearest.is_empty() {
            nearest.extend(self.best(fastest(without), &all)?);
            nearest.extend(self.best(cheapest(without), &all)?);
        }
        nearest.dedup();
        Ok(nearest)
    }
}
