//! Draws of everything that has a range, the same for every setting.

use std::collections::{BTreeMap, BTreeSet};

use epochcost_kernels::hash;
use serde::Serialize;

use super::decide::{self, Finalist, Ground, MANY};
use super::goal::{Goal, Price};
use super::{Choice, Searched, text};
use crate::error::Result;
use crate::forecast::parallel;
use crate::forecast::places::Draw;
use crate::forecast::uncertainty::Percentiles;

/// Settings that tie with the best and are drawn many times, before it is seen again which is.
const CLOSE: usize = 4;

/// The part of the draws in which a setting keeps the goal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Chance {
    /// Draws that are within the deadline and the budget.
    pub(super) kept: usize,
    /// All draws.
    pub(super) draws: usize,
}

/// The part of the draws that make a setting impossible: they are in no median and no range.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Impossible {
    /// Share of all draws, in words.
    pub(super) share: String,
    /// Why the first of them does.
    pub(super) reason: String,
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
    /// Why the first of these is impossible.
    impossible: Option<String>,
}

impl Draws {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            drawn: BTreeMap::new(),
        }
    }

    /// Returns the same draws, of which none was made.
    pub(super) fn again(&self) -> Self {
        Self::new(self.seed)
    }

    /// Returns the first draws.
    pub(super) fn first(&self, count: usize) -> impl Iterator<Item = Draw> {
        let seed = self.seed;
        (0..count).map(move |number| Draw(Some(hash::mix(seed, number as u64))))
    }

    /// Returns how many of a setting's draws make it impossible, if one does.
    fn impossible(&self, index: usize, drawn: &[Option<Price>]) -> Option<Impossible> {
        let reason = self.drawn.get(&index)?.impossible.clone()?;
        let possible = drawn.iter().flatten().count();
        let percent = 100.0 * (drawn.len() - possible) as f64 / drawn.len().max(1) as f64;
        (percent > 0.0).then(|| Impossible {
            share: text::share(percent),
            reason,
        })
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
    pub(super) fn draw(&mut self, indices: &[usize], count: usize) -> Result<()> {
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
            let own = self.draws.drawn.entry(index).or_default();
            let price = match found? {
                Ok(figures) => Some(figures.price),
                Err(reason) => {
                    own.impossible.get_or_insert(reason);
                    None
                }
            };
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

    /// Returns a setting with its draws so far; none without any that is possible.
    pub(super) fn finalist(&self, index: usize) -> Option<Finalist> {
        Finalist::new(index, self.drawn_so_far(index))
    }

    /// Returns the figures of a setting that are shown: the medians of its draws, or those at the
    /// stated values if it was not drawn.
    pub(super) fn shown(&self, index: usize) -> Option<Price> {
        let stated = self.figures(index).map(|figures| figures.price);
        decide::medians(&self.drawn_so_far(index)).or(stated)
    }

    /// Returns whether a setting keeps a goal by its draws so far.
    pub(super) fn is_kept(&self, goal: Goal, index: usize) -> bool {
        let drawn = self.drawn_so_far(index);
        !drawn.is_empty() && decide::is_kept(goal, &drawn)
    }

    /// Returns the answer among settings that were drawn, by the medians that are shown of them.
    /// It is settled, and it and what ties with it are drawn many times, until it stays the best.
    ///
    /// # Errors
    /// When a row is none of a known system, or something has no price.
    pub(super) fn close(&mut self, goal: Goal, pool: &[usize]) -> Result<Option<usize>> {
        loop {
            let finalists: Vec<Finalist> = (pool.iter())
                .filter_map(|index| self.finalist(*index))
                .collect();
            let Some(best) = decide::choose(goal, &finalists) else {
                return Ok(None);
            };
            let is_close = |one: &&Finalist| {
                let may_be_best = one.index == best.index || one.is_tie(goal, best);
                one.drawn.len() < MANY && may_be_best && decide::is_kept(goal, &one.drawn)
            };
            let mut close: Vec<&Finalist> = finalists.iter().filter(is_close).collect();
            close.sort_by(|a, b| a.order(goal, b));
            let close: Vec<usize> = close.iter().take(CLOSE).map(|one| one.index).collect();
            let best = best.index;
            let is_new = Ground::settle(self, best)?;
            self.draw(&close, MANY)?;
            if close.is_empty() && !is_new {
                return Ok(Some(best));
            }
        }
    }

    /// Settles settings and draws them as often as the answer, but for those whose draws are long;
    /// returns whether that changed anything.
    ///
    /// # Errors
    /// When a row is none of a known system, or something has no price.
    pub(super) fn draw_as_answer(&mut self, named: &[usize]) -> Result<bool> {
        let mut is_new = false;
        for index in named {
            is_new |= Ground::settle(self, *index)?;
        }
        let is_missing = |index: &usize| {
            let is_possible = self.figures(*index).is_some();
            is_possible && self.draws_quickly(*index) && self.drawn_so_far(*index).len() < MANY
        };
        // One setting may play several parts, and is drawn once.
        let missing: BTreeSet<usize> = named.iter().copied().filter(is_missing).collect();
        let missing: Vec<usize> = missing.into_iter().collect();
        self.draw(&missing, MANY)?;
        Ok(is_new || !missing.is_empty())
    }

    /// Returns whether many draws of a setting cost little time.
    pub(super) fn draws_quickly(&self, index: usize) -> bool {
        let point = &self.points[index];
        self.bench.fan_out(point).is_none() && !self.bench.is_long(point)
    }

    /// Returns a choice with its ranges and its chance, by the medians of its draws, and whether it
    /// ties with the best.
    pub(super) fn mark(&self, choice: Choice, best: Option<usize>, goal: Goal) -> Choice {
        let own = self.drawn_so_far(choice.index);
        let range = |of: fn(&Price) -> f64| Percentiles::of(own.iter().flatten().map(of).collect());
        let best = best.filter(|best| *best != choice.index);
        let is_tie = best.is_some_and(|best| {
            let pair = self.finalist(choice.index).zip(self.finalist(best));
            let is_tie = pair.is_some_and(|(own, best)| own.is_tie(goal, &best));
            is_tie && decide::is_kept(goal, &own)
        });
        Choice {
            price: decide::medians(&own).unwrap_or(choice.price),
            seconds_range: range(|price| price.seconds),
            usd_range: range(|price| price.usd),
            chance: (!own.is_empty()).then(|| Chance {
                kept: decide::kept(goal, &own),
                draws: own.len(),
            }),
            impossible: self.draws.impossible(choice.index, &own),
            is_tie,
            ..choice
        }
    }
}
