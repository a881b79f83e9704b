//! The number of workers at which each system meets a limit of the platform.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use epochcost_platform::sim::{CLASSES_ABOVE, package_mb};
use epochcost_simulator::{Options, Simulation, SimulationError, refused, simulated_workers};
use epochcost_spec::cost::PriceBook;
use epochcost_spec::cost::instances::{lacks_gpus, memory_mb};
use epochcost_spec::ui::Output;
use epochcost_systems::find;
use serde::Serialize;

use super::estimate::{Obstacle, has_functions, in_memory, probe_until, sizes_only};
use super::rows::Candidate;
use super::{parallel, text};
use crate::error::Result;

/// Requests of the workers that are simulated, by closed form, above which a size is not
/// tried: some ten seconds. The search of a row tries at most twice as many sizes as
/// there are powers of two up to its bound.
const MOST_REQUESTS: u64 = 6_000_000;

/// Number of workers above which the search simulates representatives of those that are
/// alike. What it finds is tried again with as many simulated workers as a plan has.
const SEARCH_CLASSES_ABOVE: usize = 16;

/// Bounds of the search for limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitSearch {
    /// Most workers that are tried.
    pub up_to: u32,
    /// Real time that the search of all rows takes at most.
    pub within: Duration,
}

/// How far a row's system scales.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Boundary {
    /// The row; its own number of workers plays no part.
    pub(super) id: String,
    /// Most workers with which it was seen to work; 0 if it never was.
    pub(super) feasible_up_to: usize,
    /// Fewest workers with which it was seen to fail; null if nothing was met. One more than
    /// `feasible_up_to`, unless the time was over before the sizes between both were tried.
    pub(super) fails_at: Option<usize>,
    /// What it meets there; null if nothing was met.
    pub(super) then: Option<Obstacle>,
    /// Why other sizes were not simulated; null if the boundary is exact.
    pub(super) not_simulated: Option<String>,
    /// Whether the time was over before the search was.
    pub(super) is_cut: bool,
}

/// Finds the boundaries of all rows, beside each other and within the time of `search`.
///
/// The time that is left is divided among the rows that are left. Rows whose part was too short
/// share what others left over.
pub(super) fn boundaries(
    search: LimitSearch,
    candidates: &[Candidate],
    prices: &PriceBook,
    train_samples: usize,
    output: Output,
) -> Vec<Boundary> {
    let rows = candidates.len();
    let up_to = search.up_to;
    output.message(format_args!(
        "searching for the limits of {rows} rows on up to {up_to} workers, within {:.0} s (--limits-within)",
        search.within.as_secs_f64()
    ));
    let began = Instant::now();
    let (end, ended) = (began + search.within, AtomicUsize::new(0));
    let say = |one: &Search<'_>| {
        output.message(format_args!(
            "{} of {rows} rows after {:.0} s: {}",
            ended.fetch_add(1, Ordering::Relaxed) + 1,
            began.elapsed().as_secs_f64(),
            text::limit(&one.found(), up_to)
        ));
    };
    let mut searches: Vec<Search<'_>> = (candidates.iter())
        .map(|candidate| Search::new(candidate, prices, train_samples, up_to as usize))
        .collect();
    loop {
        let open = searches.iter().filter(|one| !one.is_over()).count();
        if open == 0 || Instant::now() >= end {
            break;
        }
        let parts = Parts::new(end, open);
        searches = parallel::map(&searches, |one| {
            if one.is_over() {
                return one.clone();
            }
            let now = one.continued(parts.next());
            if now.is_over() {
                say(&now);
            }
            now
        });
    }
    searches.iter().filter(|one| !one.is_over()).for_each(say);
    searches.iter().map(Search::found).collect()
}

/// Real time that is left, divided among rows that are searched one after the other on
/// each core.
struct Parts {
    end: Instant,
    threads: usize,
    left: AtomicUsize,
}

impl Parts {
    fn new(end: Instant, rows: usize) -> Self {
        Self {
            end,
            threads: available_parallelism().map_or(1, usize::from),
            left: AtomicUsize::new(rows),
        }
    }

    /// Returns the instant up to which the next row may be searched. As many others as there are
    /// other threads may be under way.
    fn next(&self) -> Instant {
        let left = self.left.fetch_sub(1, Ordering::Relaxed);
        let rest = self.end.saturating_duration_since(Instant::now());
        let part = self.threads as f64 / (left + self.threads - 1) as f64;
        (self.end - rest + rest.mul_f64(part)).min(self.end)
    }
}

/// The search for the number of workers, up to `up_to`, from which on a row's setting is
/// infeasible: its batch size, batches per worker, epochs and memory stay.
///
/// Every limit weighs more on more workers, so sizes are feasible up to one: it is found by
/// doubling, then bisection. What is refused before anything runs costs nothing to know and
/// bounds the search; each other size is a simulation, which ends with the first limit that it
/// meets. Nothing beyond twice the boundary is simulated. Up to [`CLASSES_ABOVE`] workers, where a
/// plan simulates every one, the boundary that representatives give is where the search with
/// every worker begins.
///
/// Where calls of a workflow are throttled, more workers can fall into step and be quicker than
/// fewer. What is found is then one crossing: the setting is feasible with that many workers
/// and not with one more.
#[derive(Clone)]
struct Search<'a> {
    candidate: &'a Candidate,
    /// Memory of the row's instances, MB, where it is known.
    memory_mb: Option<u32>,
    train_samples: usize,
    up_to: usize,
    /// What each size met that was simulated, by size and by the size above which
    /// representatives were simulated.
    tried: BTreeMap<(usize, usize), Option<Obstacle>>,
    state: State,
}

/// How far a search has come.
#[derive(Clone)]
enum State {
    /// Its time was over; with what was seen so far, if anything was searched.
    Cut(Option<Range>),
    /// It is over.
    Over(Range),
    /// The row cannot be searched.
    Failed(String),
}

/// Sizes that are known to work and to fail, and how far the search was to go.
#[derive(Clone)]
struct Range {
    /// Largest size that works, and smallest that fails; that is one more than `affordable` where
    /// none was seen to fail.
    bracket: Bracket,
    /// Largest size that was to be simulated.
    affordable: usize,
    /// Size from which on a limit refuses it before it runs.
    refused: Option<(usize, Obstacle)>,
    /// Size above which representatives were simulated.
    classes_above: usize,
}

impl<'a> Search<'a> {
    fn new(
        candidate: &'a Candidate,
        prices: &PriceBook,
        train_samples: usize,
        up_to: usize,
    ) -> Self {
        Self {
            candidate,
            memory_mb: memory_mb(prices, &candidate.row.instance_type),
            train_samples,
            up_to,
            tried: BTreeMap::new(),
            state: State::Cut(None),
        }
    }

    fn is_over(&self) -> bool {
        !matches!(self.state, State::Cut(_))
    }

    /// Returns the search after more of it, until `until`. A size that was under way is
    /// simulated from its beginning.
    fn continued(&self, until: Instant) -> Self {
        let mut search = self.clone();
        let advanced = search.advance(until);
        search.state = advanced
            .unwrap_or_else(|error| State::Failed(error.to_string().replace("\n  = help: ", "; ")));
        search
    }

    fn advance(&mut self, until: Instant) -> Result<State> {
        // What is known without a simulation.
        let admitted = bracket(1, self.up_to, |workers| {
            Ok(Some(self.refusal(workers)?.is_none()))
        })?;
        let affordable = bracket(1, admitted.works, |workers| {
            Ok(Some(requests(&self.at(workers))? <= MOST_REQUESTS))
        })?;
        let affordable = affordable.works;
        let refused = match admitted.fails {
            fails if fails <= self.up_to => self.refusal(fails)?.map(|limit| (fails, limit)),
            _ => None,
        };
        let range = |bracket, classes_above| Range {
            bracket,
            affordable,
            refused: refused.clone(),
            classes_above,
        };
        // By representatives, and from what they give with every worker.
        let mut by = |from: usize, classes_above: usize| {
            bracket(from, affordable, |workers| {
                self.works(workers, classes_above, until)
            })
        };
        let sketched = by(1, SEARCH_CLASSES_ABOVE)?;
        if sketched.is_exact() {
            let settled = by(sketched.works, CLASSES_ABOVE)?;
            if settled.is_exact() {
                return Ok(State::Over(range(settled, CLASSES_ABOVE)));
            }
        }
        Ok(State::Cut(Some(range(sketched, SEARCH_CLASSES_ABOVE))))
    }

    /// Returns whether the row's setting works with that many workers; none if the time was over.
    fn works(
        &mut self,
        workers: usize,
        classes_above: usize,
        until: Instant,
    ) -> Result<Option<bool>> {
        let key = (workers, classes_for(workers, classes_above));
        if let Some(met) = self.tried.get(&key) {
            return Ok(Some(met.is_none()));
        }
        let options = Options {
            give_up_at: Some(until),
            ..sizes_only(key.1)
        };
        let simulation = self.at(workers);
        let Some(probed) = probe_until(&simulation, options)? else {
            return Ok(None);
        };
        let met = in_memory(&self.candidate.row, &simulation, probed, self.memory_mb).err();
        let works = met.is_none();
        self.tried.insert(key, met);
        Ok(Some(works))
    }

    /// Returns the limit that refuses that many workers before anything runs.
    fn refusal(&self, workers: usize) -> Result<Option<Obstacle>> {
        let simulation = self.at(workers);
        if let Some(reason) = lacks_gpus(&simulation.job, &self.candidate.row.instance_type) {
            return Ok(Some(Obstacle::Failed(reason)));
        }
        let limit = refused(&simulation, package_mb())?;
        Ok(limit.map(Obstacle::Infeasible))
    }

    /// Returns the row's setting with that many workers, under the platform's limits.
    ///
    /// Instances have no limit of time here, and sizes of values are the same in every
    /// step: one step is enough.
    fn at(&self, workers: usize) -> Simulation {
        let mut simulation = self.candidate.simulation.clone();
        simulation.has_limits = true;
        let job = &mut simulation.job;
        job.workers = workers;
        if !has_functions(&self.candidate.row) {
            (job.batches_per_worker, job.epochs) = (1, 1);
            job.last_batch = None;
        }
        let used = workers * job.batches_per_worker * job.batch_size;
        job.data.train_samples = self.train_samples.max(used);
        simulation
    }

    /// Returns what is known of the boundary.
    fn found(&self) -> Boundary {
        let unknown = Boundary {
            id: self.candidate.row.id.clone(),
            feasible_up_to: 0,
            fails_at: None,
            then: None,
            not_simulated: None,
            is_cut: !self.is_over(),
        };
        match &self.state {
            State::Cut(None) => Boundary {
                not_simulated: Some("the time was over before it was searched".into()),
                ..unknown
            },
            State::Failed(reason) => Boundary {
                fails_at: Some(1),
                then: Some(Obstacle::Failed(reason.clone())),
                ..unknown
            },
            State::Cut(Some(range)) | State::Over(range) => self.boundary(range, unknown),
        }
    }

    fn boundary(&self, range: &Range, unknown: Boundary) -> Boundary {
        let Bracket { works, fails } = range.bracket;
        let met = if fails <= range.affordable {
            let key = (fails, classes_for(fails, range.classes_above));
            let met = self.tried.get(&key).cloned().flatten();
            met.map(|met| (fails, met))
        } else {
            range.refused.clone()
        };
        let is_next = met.as_ref().is_some_and(|(at, _)| *at == works + 1);
        let (fails_at, then) = met.unzip();
        let why = match (unknown.is_cut, is_next) {
            (true, true) => "the time was over before every worker was simulated".to_owned(),
            (true, false) => "the time was over".to_owned(),
            (false, _) => format!("more than {} million requests", MOST_REQUESTS / 1_000_000),
        };
        let is_exact = !unknown.is_cut && (is_next || works >= self.up_to);
        Boundary {
            feasible_up_to: works,
            fails_at,
            then,
            not_simulated: (!is_exact).then_some(why),
            ..unknown
        }
    }
}

/// Returns the size above which representatives are simulated of `workers`, of the two that the
/// search uses: sizes for which both give the same count as one.
fn classes_for(workers: usize, classes_above: usize) -> usize {
    if (SEARCH_CLASSES_ABOVE + 1..=CLASSES_ABOVE).contains(&workers) {
        classes_above
    } else {
        CLASSES_ABOVE
    }
}

/// Largest number that is known to work, 0 if none is, and smallest that is known to fail.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bracket {
    works: usize,
    fails: usize,
}

impl Bracket {
    fn is_exact(self) -> bool {
        self.fails - self.works == 1
    }
}

/// Finds the largest number from 1 to `most` of which `holds` is true, if it is true up to one
/// number and false from there on: by steps from `from` that double, then bisection. It fails at
/// `most` + 1. From 1, nothing beyond twice the largest number is asked about. The bracket is not
/// exact if `holds` has no answer any more.
fn bracket(
    from: usize,
    most: usize,
    mut holds: impl FnMut(usize) -> Result<Option<bool>>,
) -> Result<Bracket> {
    let (mut works, mut fails) = (0, most.saturating_add(1));
    let (mut next, mut step) = (from.clamp(1, most.max(1)), 1);
    while fails - works > 1 {
        match holds(next)? {
            None => break,
            Some(true) => works = next,
            Some(false) => fails = next,
        }
        next = if works == 0 {
            fails.saturating_sub(step).max(1)
        } else if fails > most {
            (works + step).min(most)
        } else {
            works + (fails - works) / 2
        };
        step *= 2;
    }
    Ok(Bracket { works, fails })
}

/// Reads, writes and messages of the exchange that are simulated: the system's closed form, and
/// of workers that are alike those of their representatives.
fn requests(simulation: &Simulation) -> Result<u64> {
    let Some(system) = find(&simulation.job.system) else {
        return Ok(0);
    };
    let bound = system.bind(&simulation.job);
    let traffic = bound.and_then(|bound| bound.traffic(simulation.sizes));
    let traffic = traffic.map_err(SimulationError::from)?;
    let all =
        traffic.puts + traffic.gets + traffic.messages + traffic.deliveries + traffic.in_store;
    let workers = simulation.job.workers.max(1) as u64;
    let simulated = simulated_workers(simulation, CLASSES_ABOVE)? as u64;
    Ok((u128::from(all) * u128::from(simulated) / u128::from(workers)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_found_from_anywhere() {
        for most in [1, 2, 3, 7, 8, 100] {
            for (boundary, from) in (0..=most).flat_map(|b| (0..=most).map(move |f| (b, f))) {
                let mut asked = Vec::new();
                let found = bracket(from, most, |number| {
                    asked.push(number);
                    Ok(Some(number <= boundary))
                });
                let expected = Bracket {
                    works: boundary,
                    fails: boundary + 1,
                };
                assert_eq!(found.unwrap(), expected, "of {most} from {from}");
                let are_within = asked.iter().all(|one| (1..=most).contains(one));
                assert!(are_within, "{asked:?}");
                let furthest = asked.iter().copied().max().unwrap();
                if from == 1 {
                    assert!(furthest <= most.min((2 * boundary).max(1)), "{asked:?}");
                }
                if from == boundary {
                    assert!(asked.len() <= 2, "{asked:?}");
                }
            }
        }
        let none = bracket(1, 0, |_| Ok(Some(true))).unwrap();
        assert_eq!(none, Bracket { works: 0, fails: 1 });
    }

    /// Without an answer, the bracket has what was answered before.
    #[test]
    fn a_search_that_is_cut_keeps_what_it_knows() {
        for answers in 0..20 {
            let mut left = answers;
            let found = bracket(1, 10_000, |number| {
                if left == 0 {
                    return Ok(None);
                }
                left -= 1;
                Ok(Some(number <= 137))
            });
            let found = found.unwrap();
            assert!(found.works <= 137 && found.fails > 137, "{found:?}");
            // Nine powers of two up to 256, then seven halvings.
            assert_eq!(found.is_exact(), answers >= 16, "{answers}: {found:?}");
        }
    }

    /// Each row's part ends before the end, and the last has all that is left.
    #[test]
    fn parts_divide_the_time() {
        for rows in [1, 2, 13] {
            let end = Instant::now() + Duration::from_secs(1_000);
            let parts = Parts::new(end, rows);
            let all: Vec<Instant> = (0..rows).map(|_| parts.next()).collect();
            assert!(all.iter().all(|part| *part <= end));
            assert!(all.is_sorted());
            assert!(end - all[rows - 1] < Duration::from_millis(1));
        }
    }
}
