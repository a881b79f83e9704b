//! How far an answer holds: draws of everything that has a range, the same for every
//! setting.

use epochcost_kernels::hash;
use serde::Serialize;

use super::goal::{Goal, Price};
use super::{Choice, Searched};
use crate::error::Error;
use crate::forecast::parallel;
use crate::forecast::places::Draw;

/// Draws of constants, speeds and prices.
const DRAWS: u32 = 40;

/// Share of draws from which on an order counts as undecided.
const UNDECIDED: f64 = 0.05;

/// The values below which 5 and 95 % of the draws lie, and the figure at the stated values:
/// many constants at the better ends of their ranges can leave fewer than 5 % of the draws
/// as good as that.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Range {
    pub(super) p5: f64,
    pub(super) p95: f64,
}

impl Range {
    fn of(mut values: Vec<f64>, stated: f64) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |share: f64| values[(share * last as f64).round() as usize];
        Some(Self {
            p5: at(0.05).min(stated),
            p95: at(0.95).max(stated),
        })
    }
}

/// Seconds and dollars of some points in every draw; none where a draw makes one
/// impossible.
pub(super) struct Draws {
    points: Vec<usize>,
    prices: Vec<Vec<Option<Price>>>,
}

/// Simulates points on draws of all ranges.
///
/// # Errors
/// When a row is none of a known system, or something has no price.
pub(super) fn draws(searched: &Searched<'_>, points: &[usize], seed: u64) -> Result<Draws, Error> {
    let seeds: Vec<Draw> = (0..DRAWS)
        .map(|draw| Draw(Some(hash::mix(seed, draw.into()))))
        .collect();
    let stated = std::iter::once(Draw(None));
    let all: Vec<Draw> = stated.chain(seeds).collect();
    let tasks: Vec<(usize, Draw)> = (points.iter())
        .flat_map(|point| all.iter().map(move |draw| (*point, *draw)))
        .collect();
    let found = parallel::map(&tasks, |(point, draw)| {
        let (bench, point) = (searched.bench, &searched.points[*point]);
        match bench.fan_out(point) {
            Some(_) => bench.short(point, *draw),
            None => bench.rough(point, *draw),
        }
    });
    let found: Vec<Option<Price>> = found
        .into_iter()
        .map(|found| Ok(found?.ok().map(|figures| figures.price)))
        .collect::<Result<_, Error>>()?;
    let prices = found.chunks(all.len()).zip(points).map(|(own, point)| {
        let whole = searched.figures(*point).map(|figures| figures.price);
        let (stated, drawn) = own.split_first().unwrap_or((&None, &[]));
        // Draws are of short simulations: they are carried on as far as the whole was.
        let scale = |of: fn(Price) -> f64| match (whole, stated) {
            (Some(whole), Some(stated)) => of(whole) / of(*stated).max(f64::MIN_POSITIVE),
            _ => 1.0,
        };
        let (seconds, usd) = (scale(|p| p.seconds), scale(|p| p.usd));
        let carried = |price: Price| Price {
            seconds: price.seconds * seconds,
            usd: price.usd * usd,
        };
        drawn.iter().map(|price| price.map(carried)).collect()
    });
    Ok(Draws {
        prices: prices.collect(),
        points: points.to_vec(),
    })
}

impl Draws {
    fn of(&self, point: usize) -> &[Option<Price>] {
        let place = self.points.iter().position(|known| *known == point);
        place.map_or(&[], |place| &self.prices[place])
    }

    /// Returns the share of a point's draws that `holds`.
    #[cfg(test)]
    pub(super) fn share_within(&self, point: usize, holds: impl Fn(&Price) -> bool) -> f64 {
        let own = self.of(point);
        let within = own.iter().flatten().filter(|price| holds(price)).count();
        within as f64 / own.len().max(1) as f64
    }

    /// Returns a choice with its ranges, and whether its order to the best is undecided.
    pub(super) fn mark(&self, choice: Choice, best: Option<usize>, goal: Goal) -> Choice {
        let own = self.of(choice.index);
        let values = |of: fn(&Price) -> f64| own.iter().flatten().map(of).collect();
        let is_tie = best.is_some_and(|best| {
            let pairs = own.iter().zip(self.of(best));
            let wins = pairs.filter(|(own, best)| is_before(goal, **own, **best));
            let share = wins.count() as f64 / own.len().max(1) as f64;
            best != choice.index && share > UNDECIDED
        });
        Choice {
            seconds_range: Range::of(values(|p| p.seconds), choice.price.seconds),
            usd_range: Range::of(values(|p| p.usd), choice.price.usd),
            is_tie,
            ..choice
        }
    }
}

/// Returns whether one setting is the better answer in a draw: it meets the goal, and the
/// other does not or is behind it.
fn is_before(goal: Goal, own: Option<Price>, best: Option<Price>) -> bool {
    match (own.filter(|p| goal.is_met_by(*p)), best) {
        (None, _) => false,
        (Some(own), Some(best)) if goal.is_met_by(best) => goal.order(own, best).is_lt(),
        (Some(_), _) => true,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_range_leaves_out_a_twentieth_at_each_end() {
        let range = Range::of((0..=100).map(f64::from).collect(), 40.0).unwrap();
        assert_eq!((range.p5, range.p95), (5.0, 95.0));
        let range = Range::of((0..=100).map(f64::from).collect(), 2.0).unwrap();
        assert_eq!((range.p5, range.p95), (2.0, 95.0));
        assert_eq!(Range::of(Vec::new(), 1.0), None);
    }

    #[test]
    fn a_setting_wins_a_draw_where_it_alone_meets_the_goal() {
        let goal = Goal {
            deadline_s: Some(10.0),
            budget_usd: None,
        };
        let price = |seconds, usd| Some(Price { seconds, usd });
        assert!(is_before(goal, price(9.0, 5.0), price(11.0, 1.0)));
        assert!(is_before(goal, price(9.0, 1.0), price(5.0, 2.0)));
        assert!(!is_before(goal, price(11.0, 1.0), price(5.0, 2.0)));
        assert!(!is_before(goal, None, price(5.0, 2.0)));
        assert!(is_before(goal, price(9.0, 1.0), None));
    }
}
