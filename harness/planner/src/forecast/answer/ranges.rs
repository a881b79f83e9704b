//! Draws of everything that has a range, the same for every setting.

use std::collections::BTreeMap;

use epochcost_kernels::hash;
use serde::Serialize;

use super::bench::Figures;
use super::decide;
use super::goal::{Goal, Price};
use super::{Choice, Searched};
use crate::error::Error;
use crate::forecast::parallel;
use crate::forecast::places::Draw;
use crate::forecast::uncertainty::Percentiles;

/// The part of the draws in which a setting keeps the goal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Chance {
    /// Draws that are within the deadline and the budget.
    pub(super) kept: usize,
    /// All draws.
    pub(super) draws: usize,
}

/// Draws of settings, made when they are needed.
pub(super) struct Draws {
    seed: u64,
    drawn: BTreeMap<usize, Drawn>,
}

/// Figures of the short simulations of a setting.
#[derive(Default)]
struct Drawn {
    /// Figures at the stated values.
    stated: Option<Price>,
    /// Figures of each draw; none where it makes the setting impossible.
    prices: Vec<Option<Price>>,
}

impl Draws {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            drawn: BTreeMap::new(),
        }
    }

    /// Returns the first draws.
    pub(super) fn first(&self, count: usize) -> impl Iterator<Item = Draw> {
        let seed = self.seed;
        (0..count).map(move |number| Draw(Some(hash::mix(seed, number as u64))))
    }

    /// Returns the draws that were made of a setting, carried on as far as its figures were.
    pub(super) fn of(&self, index: usize, figures: Price) -> Vec<Option<Price>> {
        let Some(own) = self.drawn.get(&index) else {
            return Vec::new();
        };
        let scale = |of: fn(Price) -> f64| match own.stated {
            Some(stated) => of(figures) / of(stated).max(f64::MIN_POSITIVE),
            None => 1.0,
        };
        let (seconds, usd) = (scale(|p| p.seconds), scale(|p| p.usd));
        let carried = |price: Price| Price {
            seconds: price.seconds * seconds,
            usd: price.usd * usd,
        };
        own.prices.iter().map(|price| price.map(carried)).collect()
    }
}

impl Searched<'_> {
    /// Simulates settings until each has so many draws.
    ///
    /// # Errors
    /// When a row is none of a known system, or something has no price.
    pub(super) fn draw(&mut self, indices: &[usize], count: usize) -> Result<(), Error> {
        let stated = std::iter::once(Draw(None));
        let all: Vec<Draw> = stated.chain(self.draws.first(count)).collect();
        let tasks: Vec<(usize, Draw)> = (indices.iter())
            .flat_map(|index| {
                let own = self.draws.drawn.get(index);
                let known = own.map_or(0, |own| own.prices.len() + 1);
                all.iter().skip(known).map(move |draw| (*index, *draw))
            })
            .collect();
        let found = parallel::map(&tasks, |(index, draw)| {
            let point = &self.points[*index];
            match self.bench.fan_out(point) {
                Some(_) => self.bench.short(point, *draw),
                None => self.bench.rough(point, *draw),
            }
        });
        for ((index, draw), found) in tasks.into_iter().zip(found) {
            let price = found?.ok().map(|figures| figures.price);
            let own = self.draws.drawn.entry(index).or_default();
            match draw {
                Draw(None) => own.stated = price,
                Draw(Some(_)) => own.prices.push(price),
            }
        }
        Ok(())
    }

    /// Returns the draws that were made of a setting.
    pub(super) fn drawn_so_far(&self, index: usize) -> Vec<Option<Price>> {
        let figures = self.figures(index).map(|figures| figures.price);
        figures.map_or_else(Vec::new, |figures| self.draws.of(index, figures))
    }

    /// Returns whether a setting keeps a goal by its figures and its draws so far.
    pub(super) fn is_kept(&self, goal: Goal, index: usize) -> bool {
        let is_met = |figures: &Figures| goal.is_met_by(figures.price);
        self.figures(index).is_some_and(is_met) && decide::is_kept(goal, &self.drawn_so_far(index))
    }

    /// Returns a choice with its ranges and its chance, by the medians of the draws that all have,
    /// and whether it ties with the best.
    pub(super) fn mark(&self, choice: Choice, best: Option<usize>, goal: Goal) -> Choice {
        let own = self.drawn_so_far(choice.index);
        let values = |draws: &[Option<Price>], of: fn(&Price) -> f64| {
            Percentiles::of(draws.iter().flatten().map(of).collect())
        };
        let best = best.filter(|best| *best != choice.index);
        let is_tie = best.is_some_and(|best| {
            let figures = self.figures(best).map(|figures| figures.price);
            figures.is_some_and(|figures| {
                let of_best = self.drawn_so_far(best);
                decide::is_kept(goal, &own)
                    && decide::is_tie(goal, (choice.price, &own), (figures, &of_best))
            })
        });
        let [seconds_range, usd_range] = [values(&own, |p| p.seconds), values(&own, |p| p.usd)];
        // The draws that every choice has: the answer has more.
        let common = &own[..own.len().min(decide::FEW)];
        let [seconds, usd] = [values(common, |p| p.seconds), values(common, |p| p.usd)];
        Choice {
            price: Price {
                seconds: seconds.map_or(choice.price.seconds, |range| range.p50),
                usd: usd.map_or(choice.price.usd, |range| range.p50),
            },
            seconds_range,
            usd_range,
            chance: (!own.is_empty()).then(|| Chance {
                kept: decide::kept(goal, &own),
                draws: own.len(),
            }),
            is_tie,
            ..choice
        }
    }
}
