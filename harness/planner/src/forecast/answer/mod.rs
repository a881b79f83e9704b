//! Where to train: the setting that meets a goal best, of all systems, numbers of
//! workers, memory sizes, fidelities and places.
//!
//! Settings are simulated with few mini-batches, which are carried on to the whole, in the
//! order of bounds that none of them can be better than: what is worse by its bound than the
//! best that is known needs no simulation. The best is drawn over all ranges, and left out if too
//! few draws keep the goal; then it is simulated whole until one of them stays the best. All that is
//! done at the stated values, and finds the settings that are drawn and shown; of these the medians
//! of the draws, which are shown, decide.

mod bench;
mod bounds;
mod carried;
mod decide;
mod even;
mod goal;
mod page;
mod part;
mod points;
mod question;
mod ranges;
mod search;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Instant;

use epochcost_experiment::Experiment;
use epochcost_spec::cost::{self, PriceBook};
use epochcost_spec::rows::Simulation;
use epochcost_systems::Host;
use serde::Serialize;

use self::bench::Counted;
use self::decide::{Decision, Depth, FEW, FIRST, Ground, MANY, decide};
use self::even::BreakEven;
use self::goal::Price;
use self::question::Question;
use self::ranges::{Chance, Draws, Impossible};
use super::activity::Activity;
use super::places::{self, Draw, Site};
use super::uncertainty::Percentiles;
use super::work::Rounded;
use super::{Request, alone, frontier, misses, parallel, work};
use crate::error::{Error, Result};

pub(super) use self::bench::{Bench, Point};
pub use self::goal::{Goal, read_seconds};
pub(super) use self::points::points;
pub(super) use self::question::asked;
pub(super) use self::search::Searched;
pub(super) use self::text::describe;

/// Settings of the frontier that are shown at most.
const MOST_SHOWN: usize = 12;

/// Settings that are drawn many times where none keeps the goal.
const MOST_LIKELY: usize = 6;

/// Settings next to the best that are drawn, and how far behind it they may be at the stated values.
const MOST_RIVALS: usize = 4;
const NEAR: f64 = 1.25;

/// Where to train, and what would change that.
#[derive(Serialize)]
pub(super) struct Answer {
    /// What was asked for.
    goal: Goal,
    /// What is trained, and who said so.
    question: Question,
    /// Samples that are trained, over all epochs; more workers round them up to whole mini-batches.
    samples: usize,
    /// Those that were asked for, if these are others.
    samples_rounded: Option<Rounded>,
    /// Settings that were searched.
    searched: usize,
    /// Settings among them that were simulated, or are impossible by their sizes. Bounds of time
    /// and dollars rule out the others.
    simulated: usize,
    /// Settings among the simulated ones that are possible.
    possible: usize,
    /// The best that keeps the goal in 95 % of the draws; null if nothing does.
    answer: Option<Choice>,
    /// The setting that keeps the goal in the most draws, where none keeps it in 95 %.
    likeliest: Option<Choice>,
    /// The best of the frontier that keeps the goal, where it is ahead of the answer and takes fewer
    /// optimizer steps than the experiment.
    fewer_steps: Option<Choice>,
    /// The best of another system, host or place.
    runner_up: Option<Choice>,
    /// The plain alternative: one GPU alone.
    plain: Option<Choice>,
    /// The best on functions, and the best on instances.
    functions: Option<Choice>,
    instances: Option<Choice>,
    /// Whether settings on functions and on instances were searched.
    #[serde(skip)]
    has_both_hosts: bool,
    /// What keeps the first setting with enough optimizer steps from training, where none can.
    #[serde(skip)]
    why_not: Option<String>,
    /// What is nearest, where nothing keeps the goal.
    nearest: Vec<Choice>,
    /// What would change the answer.
    break_evens: Vec<BreakEven>,
    /// Settings that none of those that were drawn is both faster and cheaper than.
    frontier: Vec<Choice>,
    /// The question and the answer in sentences.
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
    /// Mini-batches of a worker in an epoch.
    batches_per_worker: usize,
    /// Optimizer steps per epoch: fewer, larger ones may learn less.
    steps_per_epoch: usize,
    /// Medians of its draws, those of its ranges.
    #[serde(flatten)]
    price: Price,
    /// Prices of its place that were assumed.
    assumed_prices: Vec<AssumedPrice>,
    /// Whether its peak memory was compared with that of its machines.
    is_memory_checked: bool,
    /// Whether the whole was simulated; otherwise it is carried on from its first steps.
    is_whole: bool,
    /// Percentiles over draws of all ranges; null if it was not drawn.
    seconds_range: Option<Percentiles>,
    usd_range: Option<Percentiles>,
    /// Draws that keep the goal; null if it was not drawn.
    chance: Option<Chance>,
    /// Draws that make it impossible.
    #[serde(skip)]
    impossible: Option<Impossible>,
    /// Whether it keeps the goal and ties with the answer.
    is_tie: bool,
    /// Position among the points.
    #[serde(skip)]
    index: usize,
}

/// A price that no page was read for.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct AssumedPrice {
    /// What is charged for, by a name that bills use.
    dimension: String,
    /// Day on which it was assumed.
    date: String,
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
    activity: &Activity,
) -> Result<Answer> {
    let places::Laid { sites, left_out } = places::laid(request.places, stands)?;
    if !left_out.is_empty() {
        activity.say(format_args!("places left out: {}", left_out.join("; ")));
    }
    for warning in places::stale(request.places, &sites) {
        activity.say(format_args!("warning: {warning}"));
    }
    let unknown = unknown(experiment, stands, &sites);
    let points = points::points(experiment, &sites)?;
    priced(&points, &sites, prices)?;
    let (count, places) = (points.len(), sites.len());
    activity.now(format_args!(
        "searching {count} settings at {places} places"
    ));
    let bench = Bench::new(&sites, stands, prices, request.account);
    let mut searched = Searched::of(&bench, points);
    if let Some(sampling) = request.sampling {
        searched.draws = Draws::new(sampling.seed);
    }
    let (question, effort) = (Question::of(experiment, goal), Effort::new(activity));
    let mut answer = Answer::of(&mut searched, goal, question, request.any_steps, effort)?;
    answer.sentences.extend(unknown);
    if request.prices.is_some() {
        let own = answer.own_prices(&sites, prices);
        answer.sentences.extend(own);
    }
    Ok(answer)
}

/// Returns at which places nothing is known of a step of the models, in a sentence; none where there is no
/// such place.
fn unknown(experiment: &Experiment, stands: &Simulation, sites: &[Site]) -> Option<String> {
    let rows = &experiment.rows;
    let is_unknown = |site: &&Site| {
        let mut known = rows
            .iter()
            .map(|row| bench::reference(stands, row, site.device()));
        known.all(|known| known.is_none())
    };
    let unknown = sites.iter().filter(is_unknown);
    let unknown: Vec<&str> = unknown.map(|site| site.place.name.as_str()).collect();
    let is_own = rows.iter().any(|row| row.own_model.is_some());
    let stated = if is_own {
        ", and its operations (`flops_per_sample`) are not stated"
    } else {
        ""
    };
    let is_said = !unknown.is_empty() && !rows.is_empty();
    is_said.then(|| {
        format!(
            "Left out are {}: no compute profile knows the model on what they have{stated}.",
            unknown.join(", ")
        )
    })
}

/// Refuses points that bills cannot be made of, before any is simulated.
///
/// # Errors
/// Names the place and every price that is missing there.
pub(crate) fn priced(points: &[Point], sites: &[Site], prices: &PriceBook) -> Result<()> {
    for (index, site) in sites.iter().enumerate() {
        let book = site.prices(prices, Draw(None));
        let function_price = site.profile(Draw(None)).function_price;
        let here = points.iter().filter(|point| point.site == index);
        let mut seen = BTreeSet::new();
        let one_of_each = here.filter(|point| seen.insert(&point.row.job.system));
        let needed =
            one_of_each.flat_map(|point| cost::dimensions(&point.row, function_price.as_deref()));
        book.prices_all(needed).map_err(|error| Error::Usage {
            problem: format!("failed to price the place {}: {error}", site.place.name),
            remedy: "or add it to the `prices` of the place".to_owned(),
        })?;
    }
    Ok(())
}

/// What the parts of a search took, for `-v`.
struct Effort<'a> {
    activity: &'a Activity,
    began: Instant,
    counted: Counted,
}

impl<'a> Effort<'a> {
    fn new(activity: &'a Activity) -> Self {
        Self {
            activity,
            began: Instant::now(),
            counted: Counted::default(),
        }
    }

    /// Prints what the part that ends here took.
    fn end(&mut self, part: &str, searched: &Searched<'_>) {
        let counted = searched.bench.counted();
        self.activity.detail(format_args!(
            "search, {part}: {} simulations, {} events, {:.2} s",
            counted.simulations - self.counted.simulations,
            counted.events - self.counted.events,
            self.began.elapsed().as_secs_f64()
        ));
        (self.began, self.counted) = (Instant::now(), counted);
    }
}

impl Answer {
    fn of(
        searched: &mut Searched<'_>,
        goal: Goal,
        question: Question,
        any_steps: bool,
        mut effort: Effort<'_>,
    ) -> Result<Self> {
        let own_steps = question.steps_per_epoch;
        let fits =
            searched.fits(|point| any_steps || work::steps_per_epoch(&point.row.job) >= own_steps);
        let Decision { best, risky } = decide(searched, goal, &fits, Depth::Answer)?;
        effort.end("the best", searched);
        let (nearest, likeliest) = match best {
            Some(_) => (Vec::new(), None),
            None => {
                let nearest = searched.nearest(goal, &fits)?;
                let likeliest = searched.likeliest(goal, &risky, &nearest)?;
                (nearest, likeliest)
            }
        };
        // The alternatives; the plain one and the two hosts whether they keep the goal or not.
        let rivals = match best {
            None => Vec::new(),
            Some(best) => searched.rivals(goal, best, &fits)?,
        };
        let kind = |searched: &mut Searched<'_>, wanted: Wanted| {
            let of_kind = searched.fits(|point| wanted.takes(searched, point));
            let own = both(&of_kind, &fits);
            let mut best = decide(searched, goal, &own, Depth::Other)?.best;
            for fits in [&own, &of_kind] {
                if best.is_none() {
                    best = searched.closest(goal, fits)?;
                }
            }
            Ok::<_, Error>(best)
        };
        let kinds = [
            Wanted::Plain,
            Wanted::On(Host::Function),
            Wanted::On(Host::Instance),
        ];
        let mut of_kinds = [None; 3];
        for (found, wanted) in of_kinds.iter_mut().zip(kinds) {
            *found = kind(searched, wanted)?;
        }
        effort.end("the best of each kind", searched);
        // The frontier, and how far all of it holds.
        let frontier = searched.frontier()?;
        effort.end("frontier", searched);
        let named = [best, likeliest].into_iter().chain(of_kinds).flatten();
        let shown = frontier.iter().chain(&nearest).copied();
        let pool: BTreeSet<usize> = named.chain(rivals).chain(shown).collect();
        let pool: Vec<usize> = pool.into_iter().collect();
        searched.draw(&pool, FEW)?;
        // Of all that was drawn, what is shown decides. What is named is drawn as often as the answer, so
        // that a setting has the same figures in every part.
        let fitting: Vec<usize> = pool.iter().copied().filter(|index| fits[*index]).collect();
        let (best, runner_up, of_kinds) = loop {
            let best = searched.close(goal, &fitting)?;
            let runner_up = best.and_then(|best| {
                let used = &searched.points[best];
                searched.chosen(goal, &fitting, |point| !searched.is_like(used, point))
            });
            let of_kinds = [0, 1, 2].map(|place| {
                let takes = |point: &Point| kinds[place].takes(searched, point);
                let is_it = |index: &usize| takes(&searched.points[*index]);
                let own = best.or(likeliest).filter(is_it);
                own.or_else(|| searched.chosen(goal, &fitting, takes))
                    .or(of_kinds[place])
            });
            let nearest = nearest.iter().copied().filter(|_| best.is_none());
            let named = [best, runner_up].into_iter().chain(of_kinds).flatten();
            let named: Vec<usize> = named.chain(nearest).collect();
            if !searched.draw_as_answer(&named)? {
                break (best, runner_up, of_kinds);
            }
        };
        let [plain, functions, instances] = of_kinds;
        let (nearest, likeliest) = match best {
            Some(_) => (Vec::new(), None),
            None => (nearest, likeliest),
        };
        let shown = searched.unbeaten(&pool);
        let fewer_steps = searched.ahead(goal, best, &shown, &fits);
        effort.end("draws", searched);
        let choice = |index: usize| {
            let choice = searched.choice(index)?;
            Some(searched.mark(choice, best, goal))
        };
        let (functions, instances) = (functions.and_then(choice), instances.and_then(choice));
        let (pair, grows) = (
            [functions.as_ref(), instances.as_ref()],
            question.grows_data,
        );
        let break_evens = even::break_evens(searched, pair, grows)?;
        effort.end("break-evens", searched);
        let samples = (searched.points.iter().map(|p| work::samples(&p.row.job))).min();
        let samples = samples.unwrap_or(0);
        let mut answer = Self {
            goal,
            samples,
            samples_rounded: (question.asked).and_then(|asked| Rounded::of(asked, [samples; 2])),
            question,
            searched: searched.points.len(),
            simulated: (searched.found.iter())
                .filter(|found| found.is_some())
                .count(),
            possible: (0..searched.points.len())
                .filter(|index| searched.figures(*index).is_some())
                .count(),
            answer: best.and_then(choice),
            likeliest: likeliest.and_then(choice),
            fewer_steps: fewer_steps.and_then(choice),
            runner_up: runner_up.and_then(choice),
            plain: plain.and_then(choice),
            functions,
            instances,
            has_both_hosts: [Host::Function, Host::Instance]
                .iter()
                .all(|host| (searched.points.iter()).any(|point| searched.host(point) == *host)),
            why_not: searched.why_not(&fits),
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
        let shown: Vec<&str> = self.shown().map(|choice| choice.place.as_str()).collect();
        let is_shown = |site: &&Site| shown.contains(&site.place.name.as_str());
        misses::sentences(stands, sites.iter().filter(is_shown))
    }

    /// Returns whether no setting keeps the goal.
    pub(super) fn is_unmet(&self) -> bool {
        self.answer.is_none()
    }

    /// Returns every setting that is shown.
    fn shown(&self) -> impl Iterator<Item = &Choice> {
        let named = [
            &self.answer,
            &self.likeliest,
            &self.fewer_steps,
            &self.runner_up,
        ];
        let others = [&self.plain, &self.functions, &self.instances];
        let named = named.into_iter().chain(others).flatten();
        named.chain(&self.nearest).chain(&self.frontier)
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

/// Returns the settings on the frontier of seconds and dollars, the cheapest first.
fn on_frontier(settings: impl Iterator<Item = (usize, Option<Price>)>) -> Vec<usize> {
    let known = settings.filter_map(|(index, price)| Some((index, price?)));
    let mut known: Vec<(usize, Price)> = known.collect();
    known.sort_by(|(_, a), (_, b)| a.usd.total_cmp(&b.usd));
    let pairs: Vec<(f64, f64)> = known.iter().map(|(_, p)| (p.seconds, p.usd)).collect();
    let on = known.into_iter().zip(frontier::frontier(&pairs));
    on.filter_map(|((index, _), on)| on.then_some(index))
        .collect()
}

/// Returns the settings that both lists mark.
fn both(a: &[bool], b: &[bool]) -> Vec<bool> {
    a.iter().zip(b).map(|(a, b)| *a && *b).collect()
}

impl Searched<'_> {
    /// Returns whether two points differ only in what is tuned: workers, memory, fidelity; one
    /// function alone is the same whatever its system.
    fn is_like(&self, a: &Point, b: &Point) -> bool {
        let same_system = a.row.job.system == b.row.job.system;
        let is_alone = |point: &Point| alone::is_one_function(&point.row);
        a.site == b.site && (same_system || is_alone(a) && is_alone(b))
    }

    /// Returns the settings that come next to the best at the stated values, one for each other system,
    /// host or place: the first that keeps the goal, and those that are not far behind, as the
    /// draws may put these before it.
    fn rivals(&mut self, goal: Goal, best: usize, fits: &[bool]) -> Result<Vec<usize>> {
        let without_like = |searched: &Self, index: usize, open: &[bool]| {
            let used = &searched.points[index];
            both(&searched.fits(|point| !searched.is_like(used, point)), open)
        };
        let by = |price: Price| match goal.deadline_s {
            Some(_) => price.usd,
            None => price.seconds,
        };
        let own = self.figures(best).map(|figures| by(figures.price));
        let mut open = without_like(self, best, fits);
        let first = decide(self, goal, &open, Depth::Other)?.best;
        let mut rivals: Vec<usize> = first.into_iter().collect();
        while rivals.len() < MOST_RIVALS {
            if let Some(last) = rivals.last() {
                open = without_like(self, *last, &open);
            }
            let Some(next) = self.best(goal, &open)? else {
                break;
            };
            let figures = self.figures(next).map(|figures| by(figures.price));
            if figures.zip(own).is_none_or(|(next, own)| next > own * NEAR) {
                break;
            }
            rivals.push(next);
        }
        Ok(rivals)
    }

    /// Returns the answer among those settings of a pool that `takes` does, by what is shown of them.
    fn chosen(&self, goal: Goal, pool: &[usize], takes: impl Fn(&Point) -> bool) -> Option<usize> {
        let taken = pool.iter().filter(|index| takes(&self.points[**index]));
        let finalists: Vec<_> = taken.filter_map(|index| self.finalist(*index)).collect();
        decide::choose(goal, &finalists).map(|one| one.index)
    }

    /// Returns the settings of a pool that none of it is both faster and cheaper than, by what is shown of
    /// them, the cheapest first.
    fn unbeaten(&self, pool: &[usize]) -> Vec<usize> {
        let shown = pool.iter().map(|index| (*index, self.shown(*index)));
        let mut unbeaten = on_frontier(shown);
        unbeaten.truncate(MOST_SHOWN);
        unbeaten
    }

    /// Returns the best of some settings that keep a goal, if it is ahead of another one and none
    /// of those that `fits` marks.
    fn ahead(
        &self,
        goal: Goal,
        of: Option<usize>,
        shown: &[usize],
        fits: &[bool],
    ) -> Option<usize> {
        let kept = (shown.iter().copied()).filter(|index| self.is_kept(goal, *index));
        let ranked = kept.filter_map(|index| Some((self.shown(index)?, index)));
        let best = ranked.min_by(|(a, i), (b, j)| goal.order(*a, *b).then(i.cmp(j)));
        let is_ahead = |own: Price| {
            let other = of.and_then(|index| self.shown(index));
            other.is_none_or(|other| goal.order(own, other).is_lt())
        };
        best.filter(|(own, index)| !fits[*index] && is_ahead(*own))
            .map(|(_, index)| index)
    }

    /// Returns what is nearest to a goal that nothing meets: the cheapest in time and the
    /// fastest in the budget, or the fastest and the cheapest of all.
    fn nearest(&mut self, goal: Goal, fits: &[bool]) -> Result<Vec<usize>> {
        let [in_time, in_budget, fastest, cheapest] = goal.relaxed();
        let mut nearest = Vec::new();
        for goals in [[in_time, in_budget], [fastest, cheapest]] {
            if nearest.is_empty() {
                for goal in goals {
                    nearest.extend(self.best(goal, fits)?);
                }
            }
        }
        nearest.dedup();
        Ok(nearest)
    }

    /// Returns what of the settings that `fits` marks is nearest to a goal, once its figures are those
    /// of the whole training: the cheapest in time, or else the fastest in the budget, or of all.
    fn closest(&mut self, goal: Goal, fits: &[bool]) -> Result<Option<usize>> {
        for goal in goal.relaxed() {
            let best = self.whole_best(goal, fits)?;
            if best.is_some() {
                return Ok(best);
            }
        }
        Ok(None)
    }

    /// Returns the setting that keeps a goal in the most draws, of those that are within it at
    /// the stated values and of the nearest others; none if no draw of them does. Of many, those
    /// are drawn further that kept the goal in most of their first draws.
    fn likeliest(
        &mut self,
        goal: Goal,
        risky: &[usize],
        nearest: &[usize],
    ) -> Result<Option<usize>> {
        let open: BTreeSet<usize> = risky.iter().chain(nearest).copied().collect();
        let mut open: Vec<usize> = open.into_iter().collect();
        for (count, most) in [(FIRST, MOST_LIKELY), (MANY, 1)] {
            self.draw(&open, count)?;
            let kept = |index: &usize| {
                let mut drawn = self.drawn_so_far(*index);
                drawn.truncate(count);
                decide::kept(goal, &drawn)
            };
            let mut ranked: Vec<(usize, usize)> =
                open.iter().map(|index| (kept(index), *index)).collect();
            ranked.sort_by(|(a, i), (b, j)| {
                let prices = self.shown(*i).zip(self.shown(*j));
                let order = prices.map(|(a, b)| goal.order(a, b));
                b.cmp(a).then(order.unwrap_or(std::cmp::Ordering::Equal))
            });
            ranked.truncate(most);
            if count == MANY {
                ranked.retain(|(kept, _)| *kept > 0);
            }
            open = ranked.into_iter().map(|(_, index)| index).collect();
        }
        let likeliest = open.first().copied();
        if let Some(likeliest) = likeliest {
            Ground::settle(self, likeliest)?;
        }
        Ok(likeliest)
    }
}
