//! The decision among settings by draws of all ranges.
//!
//! A setting keeps a goal if at least 95 % of its draws do, deadline and budget together. Its
//! figures are the medians of its draws. With a deadline, the cheapest of those that keep the goal
//! is the answer; with a budget alone, the cheapest of those that are no slower than one that ties
//! with the fastest. Two settings tie if the one that is behind is ahead in more than a twentieth of
//! the draws.
//!
//! The search, which cannot draw every setting, makes the same decision by figures at the stated
//! values, and the same draws ([`decide`]). What it finds is decided by medians ([`choose`]).

use std::cmp::Ordering;

use super::goal::{Goal, Price};
use crate::error::Result;
use crate::forecast::uncertainty::Percentiles;

/// Draws from which the chance of the answer is computed.
pub(super) const MANY: usize = 200;

/// Draws by which settings are compared, and from which other chances are computed.
pub(super) const FEW: usize = 40;

/// Draws after which a setting without a chance is left out.
pub(super) const FIRST: usize = 20;

/// Numbers of draws after which it is seen whether a setting can still keep a goal.
const STAGES: [usize; 4] = [5, 10, FIRST, FEW];

/// One of so many draws may miss the goal, and more than one of so many makes a tie.
pub(super) const MISSES: usize = 20;

/// Settings whose figures and draws are computed when they are asked for.
pub(super) trait Ground {
    /// Returns the best by its figures of the settings that `fits` marks and that are within
    /// the goal.
    fn best(&mut self, goal: Goal, fits: &[bool]) -> Result<Option<usize>>;

    /// Returns the figures of a setting at the stated values.
    fn price(&self, index: usize) -> Option<Price>;

    /// Returns the first draws of a setting, the same for all settings; none where a draw makes
    /// it impossible.
    fn drawn(&mut self, index: usize, count: usize) -> Result<Vec<Option<Price>>>;

    /// Computes the figures of the whole training; returns whether they were not known.
    fn settle(&mut self, index: usize) -> Result<bool>;

    /// Returns whether bounds allow that a setting keeps the goal in 95 % of `count` draws.
    fn may_keep(&self, goal: Goal, index: usize, count: usize) -> bool;

    /// Returns whether bounds allow that a setting is ahead of draws of another one.
    fn may_lead(&self, goal: Goal, index: usize, drawn: &[Option<Price>]) -> bool;
}

/// How closely a decision is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// From many draws; the best is simulated whole until it stays the best.
    Answer,
    /// From few draws, and from parts of trainings; the best of these is simulated whole.
    Other,
}

impl Depth {
    /// Returns the draws of which 95 % keep the goal.
    pub(super) fn draws(self) -> usize {
        match self {
            Self::Answer => MANY,
            Self::Other => FEW,
        }
    }

    /// Returns whether a setting's figures are now those of the whole and were not known, so
    /// that another one may be better.
    fn settles(self, ground: &mut impl Ground, index: usize) -> Result<bool> {
        let is_new = ground.settle(index)?;
        Ok(is_new && self == Self::Answer)
    }
}

/// The settings that keep a goal best.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Decision {
    /// The answer.
    pub(super) best: Option<usize>,
    /// Settings that are within the goal at the stated values and in too few draws.
    pub(super) risky: Vec<usize>,
}

/// Returns the best by the stated values of the settings that `fits` marks, that keep the goal at
/// these and in 95 % of their draws.
///
/// # Errors
/// When a row is none of a known system, or something has no price.
pub(super) fn decide(
    ground: &mut impl Ground,
    goal: Goal,
    fits: &[bool],
    depth: Depth,
) -> Result<Decision> {
    let count = depth.draws();
    let mut open = fits.to_vec();
    let mut risky = Vec::new();
    let first = loop {
        let Some(best) = ground.best(goal, &open)? else {
            return Ok(Decision { best: None, risky });
        };
        if !keeps(ground, goal, best, count)? {
            open[best] = false;
            risky.push(best);
        } else if !depth.settles(ground, best)? {
            break best;
        }
    };
    if goal.deadline_s.is_some() {
        let best = Some(first);
        return Ok(Decision { best, risky });
    }
    // The fastest is known: what ties with it may cost less.
    let by_usd = Goal {
        deadline_s: Some(f64::INFINITY),
        ..goal
    };
    let fastest = ground.drawn(first, FEW)?;
    for (index, open) in open.iter_mut().enumerate() {
        *open = *open && (index == first || ground.may_lead(goal, index, &fastest));
    }
    let best = loop {
        let Some(cheapest) = ground.best(by_usd, &open)?.filter(|index| *index != first) else {
            break first;
        };
        if !ties(ground, goal, cheapest, first)? || !keeps(ground, goal, cheapest, count)? {
            open[cheapest] = false;
        } else if !depth.settles(ground, cheapest)? {
            break cheapest;
        }
    };
    let best = Some(best);
    Ok(Decision { best, risky })
}

/// Returns whether a setting keeps the goal in 95 % of `count` draws.
fn keeps(ground: &mut impl Ground, goal: Goal, index: usize, count: usize) -> Result<bool> {
    if !ground.may_keep(goal, index, count) {
        return Ok(false);
    }
    for drawn in STAGES.into_iter().chain([count]) {
        let drawn = ground.drawn(index, drawn.min(count))?;
        let missed = drawn.len() - kept(goal, &drawn);
        if missed > count / MISSES {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the draws that are within a goal.
pub(super) fn kept(goal: Goal, drawn: &[Option<Price>]) -> usize {
    let prices = drawn.iter().flatten();
    prices.filter(|price| goal.is_met_by(**price)).count()
}

/// Returns whether draws keep a goal.
pub(super) fn is_kept(goal: Goal, drawn: &[Option<Price>]) -> bool {
    drawn.len() - kept(goal, drawn) <= drawn.len() / MISSES
}

/// Returns whether a setting that is no faster than another ties with it.
fn ties(ground: &mut impl Ground, goal: Goal, index: usize, other: usize) -> Result<bool> {
    let (own, others) = (ground.drawn(index, FEW)?, ground.drawn(other, FEW)?);
    let prices = ground.price(index).zip(ground.price(other));
    Ok(prices.is_some_and(|(a, b)| is_tie(goal, (a, &own), (b, &others))))
}

/// Returns whether the setting that is behind by its figures is ahead in more than a twentieth of
/// the draws that both have.
pub(super) fn is_tie(
    goal: Goal,
    (a, of_a): (Price, &[Option<Price>]),
    (b, of_b): (Price, &[Option<Price>]),
) -> bool {
    let is_first = goal.order(a, b).is_lt();
    let (behind, ahead) = if is_first { (of_b, of_a) } else { (of_a, of_b) };
    leads(goal, behind, ahead) > of_a.len().min(of_b.len()) / MISSES
}

/// A setting that was drawn.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finalist {
    /// Position among the points.
    pub(super) index: usize,
    /// Medians of its draws.
    pub(super) figures: Price,
    /// Its draws.
    pub(super) drawn: Vec<Option<Price>>,
}

impl Finalist {
    /// Returns a setting with its draws; none if all of them make it impossible.
    pub(super) fn new(index: usize, drawn: Vec<Option<Price>>) -> Option<Self> {
        Some(Self {
            index,
            figures: medians(&drawn)?,
            drawn,
        })
    }

    /// Compares it with another one, the better first.
    pub(super) fn order(&self, goal: Goal, other: &Self) -> Ordering {
        let order = goal.order(self.figures, other.figures);
        order.then(self.index.cmp(&other.index))
    }

    /// Returns whether another one ties with it.
    pub(super) fn is_tie(&self, goal: Goal, other: &Self) -> bool {
        let (own, other) = ((self.figures, &*self.drawn), (other.figures, &*other.drawn));
        is_tie(goal, own, other)
    }
}

/// Returns the medians of seconds and of dollars over the draws that are possible.
pub(super) fn medians(drawn: &[Option<Price>]) -> Option<Price> {
    let median = |of: fn(&Price) -> f64| {
        let range = Percentiles::of(drawn.iter().flatten().map(of).collect());
        range.map(|range| range.p50)
    };
    let (seconds, usd) = median(|price| price.seconds).zip(median(|price| price.usd))?;
    Some(Price { seconds, usd })
}

/// Returns the answer among settings that were drawn, by their medians: no other one that keeps the
/// goal is both faster and cheaper.
pub(super) fn choose(goal: Goal, settings: &[Finalist]) -> Option<&Finalist> {
    let kept = || settings.iter().filter(|one| is_kept(goal, &one.drawn));
    let first = kept().min_by(|a, b| a.order(goal, b))?;
    if goal.deadline_s.is_some() {
        return Some(first);
    }
    // A tie may be beaten in both by what is ahead of it and none.
    let tied = kept().filter(|one| one.is_tie(goal, first));
    let slowest_s = tied.fold(first.figures.seconds, |s, one| s.max(one.figures.seconds));
    let by_usd = Goal {
        deadline_s: Some(f64::INFINITY),
        ..goal
    };
    kept()
        .filter(|one| one.figures.seconds <= slowest_s)
        .min_by(|a, b| a.order(by_usd, b))
}

/// Returns the draws in which one setting is ahead of another one, by what the goal leaves open.
pub(super) fn leads(goal: Goal, own: &[Option<Price>], other: &[Option<Price>]) -> usize {
    let is_ahead = |(own, other): &(&Option<Price>, &Option<Price>)| match (own, other) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(own), Some(other)) => goal.order(*own, *other).is_lt(),
    };
    own.iter().zip(other).filter(is_ahead).count()
}

#[cfg(test)]
mod tests {
    use epochcost_kernels::hash;
    use proptest::prelude::*;

    use super::*;

    /// Settings whose figures and draws are all known.
    #[derive(Clone, Debug)]
    struct Table(Vec<(Price, Vec<Option<Price>>)>);

    impl Ground for Table {
        fn best(&mut self, goal: Goal, fits: &[bool]) -> Result<Option<usize>> {
            let prices: Vec<Option<Price>> = self.0.iter().map(|(price, _)| Some(*price)).collect();
            Ok(goal.best(&prices, |index| fits[index]))
        }

        fn price(&self, index: usize) -> Option<Price> {
            Some(self.0[index].0)
        }

        fn drawn(&mut self, index: usize, count: usize) -> Result<Vec<Option<Price>>> {
            Ok(self.0[index].1[..count].to_vec())
        }

        fn settle(&mut self, _index: usize) -> Result<bool> {
            Ok(false)
        }

        fn may_keep(&self, _goal: Goal, _index: usize, _count: usize) -> bool {
            true
        }

        fn may_lead(&self, _goal: Goal, _index: usize, _drawn: &[Option<Price>]) -> bool {
            true
        }
    }

    impl Table {
        /// The settings that keep a goal, by the definition.
        fn keeping(&self, goal: Goal, count: usize) -> Vec<usize> {
            let keeps = |(price, drawn): &(Price, Vec<Option<Price>>)| {
                let drawn = drawn[..count].iter().flatten();
                let within = drawn.filter(|p| goal.is_met_by(**p));
                goal.is_met_by(*price) && within.count() as f64 >= 0.95 * count as f64
            };
            let all = 0..self.0.len();
            all.filter(|index| keeps(&self.0[*index])).collect()
        }

        fn price_of(&self, index: usize) -> Price {
            self.0[index].0
        }

        /// The answer by the definition, without an order of the search.
        fn answer(&self, goal: Goal, depth: Depth) -> Option<usize> {
            let keeping = self.keeping(goal, depth.draws());
            let price = |index: &usize| self.price_of(*index);
            let first = (keeping.iter().copied())
                .min_by(|a, b| goal.order(price(a), price(b)).then(a.cmp(b)))?;
            if goal.deadline_s.is_some() {
                return Some(first);
            }
            let ahead = |index: usize| {
                let pairs = self.0[index].1.iter().zip(&self.0[first].1).take(FEW);
                let wins = pairs.filter(|pair| match pair {
                    (Some(own), Some(first)) => goal.order(*own, *first).is_lt(),
                    (own, first) => own.is_some() && first.is_none(),
                });
                wins.count() as f64 > 0.05 * FEW as f64
            };
            let ties = (keeping.into_iter()).filter(|index| *index == first || ahead(*index));
            ties.min_by(|a, b| {
                let (x, y) = (price(a), price(b));
                let seconds = || x.seconds.total_cmp(&y.seconds);
                let order = x.usd.total_cmp(&y.usd).then_with(seconds);
                order.then(a.cmp(b))
            })
        }
    }

    /// Settings with draws about their figures, some of which make them impossible.
    fn table() -> impl Strategy<Value = Table> {
        let setting = (10u16..40, 10u16..40, 1u16..60, 0u8..30, any::<u64>());
        let setting = setting.prop_map(|(seconds, usd, spread, lost, seed)| {
            let unit = |number: u64| f64::from(hash::unit_f32(hash::mix(seed, number)));
            let price = Price {
                seconds: seconds.into(),
                usd: usd.into(),
            };
            let factor = |number| 1.0 + f64::from(spread) / 100.0 * (unit(number) - 0.5);
            let drawn = (0..MANY as u64).map(|number| {
                let is_lost = unit(3 * number) < f64::from(lost.saturating_sub(20)) / 100.0;
                (!is_lost).then(|| Price {
                    seconds: price.seconds * factor(3 * number + 1),
                    usd: price.usd * factor(3 * number + 2),
                })
            });
            (price, drawn.collect())
        });
        prop::collection::vec(setting, 0..25).prop_map(Table)
    }

    fn limit() -> impl Strategy<Value = Option<f64>> {
        prop::option::of((10u16..50).prop_map(f64::from))
    }

    fn found(table: &Table, goal: Goal, depth: Depth) -> Decision {
        let fits = vec![true; table.0.len()];
        decide(&mut table.clone(), goal, &fits, depth).unwrap()
    }

    proptest! {
        /// The search, which drops settings early, finds what the definition names.
        #[test]
        fn the_decision_is_what_brute_force_finds(
            table in table(), deadline_s in limit(), budget_usd in limit()
        ) {
            let goal = Goal { deadline_s, budget_usd };
            for depth in [Depth::Answer, Depth::Other] {
                let decision = found(&table, goal, depth);
                prop_assert_eq!(decision.best, table.answer(goal, depth));
                let keeping = table.keeping(goal, depth.draws());
                prop_assert!(decision.risky.iter().all(|index| !keeping.contains(index)));
            }
        }

        /// More time or money never makes the answer dearer in time, nor slower than a tie with
        /// the answer of less money.
        #[test]
        fn more_is_never_worse(
            table in table(),
            deadline_s in limit(),
            budget_usd in limit(),
            more_s in 0u8..20,
            more_usd in 0u8..20,
        ) {
            let goal = Goal { deadline_s, budget_usd };
            let wider = Goal {
                deadline_s: deadline_s.map(|s| s + f64::from(more_s)),
                budget_usd: budget_usd.map(|d| d + f64::from(more_usd)),
            };
            let Some(before) = found(&table, goal, Depth::Answer).best else {
                return Ok(());
            };
            let after = found(&table, wider, Depth::Answer).best.unwrap();
            let price = |index: usize| table.price_of(index);
            if goal.deadline_s.is_some() {
                prop_assert!(price(after).usd <= price(before).usd);
            } else if goal.budget_usd.is_some() {
                // The fastest of more money is no slower, and the answer ties with it.
                let fastest = (table.keeping(wider, MANY).into_iter())
                    .min_by(|a, b| price(*a).seconds.total_cmp(&price(*b).seconds))
                    .unwrap();
                prop_assert!(price(fastest).seconds <= price(before).seconds);
                prop_assert!(price(after).usd <= price(fastest).usd);
            }
        }

        /// Nothing that keeps the goal is both faster and cheaper than the answer by the figures that are
        /// shown, whatever they are at the stated values. So the runner-up is not.
        #[test]
        fn nothing_that_keeps_the_goal_beats_the_answer_in_both(
            table in table(), deadline_s in limit(), budget_usd in limit()
        ) {
            let goal = Goal { deadline_s, budget_usd };
            let drawn = table.0.iter().enumerate();
            let settings: Vec<Finalist> = drawn
                .filter_map(|(index, (_, drawn))| {
                    // As many draws as the answer has, or as few as the others.
                    let count = if index % 2 == 0 { MANY } else { FEW };
                    Finalist::new(index, drawn[..count].to_vec())
                })
                .collect();
            let kept: Vec<&Finalist> =
                settings.iter().filter(|one| is_kept(goal, &one.drawn)).collect();
            let Some(answer) = choose(goal, &settings) else {
                prop_assert!(kept.is_empty());
                return Ok(());
            };
            let own = answer.figures;
            prop_assert!(goal.is_met_by(own));
            for other in kept {
                let figures = other.figures;
                prop_assert!(figures.seconds >= own.seconds || figures.usd >= own.usd);
                if goal.deadline_s.is_some() {
                    prop_assert!(goal.order(own, figures).is_le());
                }
            }
        }
    }

    /// A tie is symmetric, and what is ahead in every draw is none.
    #[test]
    fn who_is_behind_and_ahead_in_more_than_a_twentieth_ties() {
        let goal = Goal {
            deadline_s: None,
            budget_usd: Some(1.0),
        };
        let price = |seconds| Price { seconds, usd: 1.0 };
        let drawn = |wins: usize| -> Vec<Option<Price>> {
            let seconds = (0..FEW).map(|n| if n < wins { 5.0 } else { 20.0 });
            seconds.map(|seconds| Some(price(seconds))).collect()
        };
        let other: Vec<Option<Price>> = vec![Some(price(10.0)); FEW];
        for (wins, expected) in [(0, false), (2, false), (3, true), (FEW, true)] {
            let own = drawn(wins);
            let (a, b) = ((price(11.0), &own[..]), (price(10.0), &other[..]));
            assert_eq!(is_tie(goal, a, b), expected, "{wins}");
            assert_eq!(is_tie(goal, b, a), expected, "{wins}");
        }
    }
}
