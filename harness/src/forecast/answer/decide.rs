//! The decision among settings by draws of all ranges.
//!
//! A setting keeps a goal if its figures at the stated values do and at least 95 % of its draws
//! do, deadline and budget together. With a deadline, the cheapest of those that keep the goal is
//! the answer; with a budget alone, the cheapest of those that tie with the fastest. Two settings
//! tie if the one that is behind at the stated values is ahead in more than a twentieth of the
//! draws.

use super::goal::{Goal, Price};
use crate::error::Error;

/// Draws from which the chance of the answer is computed.
pub(super) const MANY: usize = 200;

/// Draws by which settings are compared, and from which other chances are computed.
pub(super) const FEW: usize = 40;

/// Draws after which a setting without a chance is left out.
pub(super) const FIRST: usize = 20;

/// One of so many draws may miss the goal, and more than one of so many makes a tie.
pub(super) const MISSES: usize = 20;

/// Settings whose figures and draws are computed when they are asked for.
pub(super) trait Ground {
    /// Returns the best by its figures of the settings that `fits` marks and that are within
    /// the goal.
    fn best(&mut self, goal: Goal, fits: &[bool]) -> Result<Option<usize>, Error>;

    /// Returns the figures of a setting at the stated values.
    fn price(&self, index: usize) -> Option<Price>;

    /// Returns the first draws of a setting, the same for all settings; none where a draw makes
    /// it impossible.
    fn drawn(&mut self, index: usize, count: usize) -> Result<Vec<Option<Price>>, Error>;

    /// Computes the figures of the whole training; returns whether they were not known.
    fn settle(&mut self, index: usize) -> Result<bool, Error>;

    /// Returns whether bounds allow that a setting keeps the goal in 95 % of `count` draws.
    fn may_keep(&self, goal: Goal, index: usize, count: usize) -> bool;

    /// Returns whether bounds allow that a setting is ahead of draws of another one.
    fn may_lead(&self, goal: Goal, index: usize, drawn: &[Option<Price>]) -> bool;
}

/// The settings that keep a goal best.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Decision {
    /// The answer.
    pub(super) best: Option<usize>,
    /// Settings that are within the goal at the stated values and in too few draws.
    pub(super) risky: Vec<usize>,
}

/// Returns the best of the settings that `fits` marks and that keep the goal in 95 % of `count`
/// draws.
///
/// # Errors
/// When a row is none of a known system, or something has no price.
pub(super) fn decide(
    ground: &mut impl Ground,
    goal: Goal,
    fits: &[bool],
    count: usize,
) -> Result<Decision, Error> {
    let mut open = fits.to_vec();
    let mut risky = Vec::new();
    let first = loop {
        let Some(best) = ground.best(goal, &open)? else {
            return Ok(Decision { best: None, risky });
        };
        if !keeps(ground, goal, best, count)? {
            open[best] = false;
            risky.push(best);
        } else if !ground.settle(best)? {
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
        } else if !ground.settle(cheapest)? {
            break cheapest;
        }
    };
    let best = Some(best);
    Ok(Decision { best, risky })
}

/// Returns whether a setting keeps the goal in 95 % of `count` draws.
fn keeps(
    ground: &mut impl Ground,
    goal: Goal,
    index: usize,
    count: usize,
) -> Result<bool, Error> {
    if !ground.may_keep(goal, index, count) {
        return Ok(false);
    }
    for drawn in [FIRST, FEW, count] {
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
fn ties(
    ground: &mut impl Ground,
    goal: Goal,
    index: usize,
    other: usize,
) -> Result<bool, Error> {
    for count in [FIRST, FEW] {
        let (own, others) = (ground.drawn(index, count)?, ground.drawn(other, count)?);
        let left = FEW - own.len();
        if leads(goal, &own, &others) + left <= FEW / MISSES {
            return Ok(false);
        }
    }
    let (own, others) = (ground.drawn(index, FEW)?, ground.drawn(other, FEW)?);
    let prices = ground.price(index).zip(ground.price(other));
    Ok(prices.is_some_and(|(a, b)| is_tie(goal, (a, &own), (b, &others))))
}

/// Returns whether the setting that is behind at the stated values is ahead in more than a
/// twentieth of the draws that both have.
pub(super) fn is_tie(
    goal: Goal,
    (a, of_a): (Price, &[Option<Price>]),
    (b, of_b): (Price, &[Option<Price>]),
) -> bool {
    let (behind, ahead) = if goal.order(a, b).is_lt() {
        (of_b, of_a)
    } else {
        (of_a, of_b)
    };
    leads(goal, behind, ahead) > of_a.len().min(of_b.len()) / MISSES
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
