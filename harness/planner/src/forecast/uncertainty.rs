//! What the ranges of a platform profile's constants make of a plan.

use std::collections::BTreeMap;

use epochcost_kernels::hash;
use epochcost_simulator::{Infeasible, Simulation};
use epochcost_spec::claims::ratio::percentile;
use epochcost_spec::cost::PriceBook;
use epochcost_spec::rows;
use serde::Serialize;

use super::epochs::estimate;
use super::estimate::{Estimate, Obstacle, Outcome};
use super::rows::{Candidate, PlannedRow};
use super::{Sampling, parallel};
use crate::error::Result;

/// Intervals over samples of the constants' ranges.
#[derive(Debug, Serialize)]
pub(super) struct Uncertainty {
    /// How often each row was simulated.
    pub(super) samples: u32,
    /// What the samples were drawn from.
    pub(super) seed: u64,
    /// Paths of the constants that have a range.
    pub(super) ranged: Vec<String>,
    /// One for each row.
    pub(super) rows: Vec<Interval>,
}

/// A row over all samples.
#[derive(Debug, Serialize)]
pub(super) struct Interval {
    /// The row.
    pub(super) id: String,
    /// Samples in which it is feasible; percentiles are over these.
    pub(super) feasible_samples: usize,
    /// How many samples are not, by limit, or `failed`.
    pub(super) infeasible_samples: BTreeMap<&'static str, usize>,
    /// What keeps the first of these from its end.
    #[serde(skip)]
    first: Option<Obstacle>,
    /// Percentiles of each of [`FIGURES`] by name; none where no sample has it.
    #[serde(flatten)]
    figures: BTreeMap<&'static str, Option<Percentiles>>,
}

/// A figure of an estimate.
type Figure = fn(&mut Estimate) -> &mut f64;

/// Figures that have a range.
const FIGURES: [(&str, Figure); 9] = [
    ("seconds_per_epoch", |e| &mut e.seconds_per_epoch),
    ("seconds", |e| &mut e.seconds),
    ("fetch_dataset", |e| &mut e.stage_seconds.fetch_dataset),
    ("compute_gradients", |e| {
        &mut e.stage_seconds.compute_gradients
    }),
    ("synchronise", |e| &mut e.stage_seconds.synchronise),
    ("update_model", |e| &mut e.stage_seconds.update_model),
    ("detect_convergence", |e| {
        &mut e.stage_seconds.detect_convergence
    }),
    ("cost_paper_usd", |e| &mut e.cost_paper_usd),
    ("cost_full_usd", |e| &mut e.cost_full_usd),
];

/// Draws in which it is seen whether a size of functions is possible.
const FEW: u32 = 20;

/// Seed of these unless another is asked for.
pub(super) const SEED: u64 = 42;

/// The values below which 5, 50 and 95 % of the samples lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// 5th percentile.
    pub p5: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
}

impl Percentiles {
    /// Returns the percentiles of `values`; `None` without values.
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then(|| Self {
            p5: percentile(&values, 0.05),
            p50: percentile(&values, 0.5),
            p95: percentile(&values, 0.95),
        })
    }

    /// Returns the 5th and 95th percentile in words.
    pub fn ends(self, text: fn(f64) -> String) -> String {
        format!("{} to {}", text(self.p5), text(self.p95))
    }
}

/// Simulates every row on `samples` draws about the stated values of the profile's constants.
/// All rows stand on the same draws, so that they can be compared draw by draw.
///
/// # Errors
/// When a row is none of a known system, or something has no price.
pub(super) fn uncertainty(
    candidates: &[Candidate],
    simulation: &rows::Simulation,
    sampling: Sampling,
    prices: &PriceBook,
) -> Result<Uncertainty> {
    let drawn = draws(candidates, simulation, sampling, prices)?;
    let rows = candidates.iter().zip(drawn);
    let rows = rows.map(|(candidate, drawn)| Interval::new(candidate.row.id.clone(), drawn));
    let mut constants = simulation.profile.constants();
    constants.retain(|(_, constant)| constant.range().0 < constant.range().1);
    Ok(Uncertainty {
        samples: sampling.samples,
        seed: sampling.seed,
        ranged: constants.into_iter().map(|(path, _)| path).collect(),
        rows: rows.collect(),
    })
}

/// Simulates every row on the same draws of the constants and of the steps' times; returns the outcomes
/// of each row, in the order of the draws.
///
/// # Errors
/// When a row is none of a known system, or something has no price.
pub(super) fn draws(
    candidates: &[Candidate],
    simulation: &rows::Simulation,
    Sampling { samples, seed }: Sampling,
    prices: &PriceBook,
) -> Result<Vec<Vec<Outcome<Estimate>>>> {
    let tasks: Vec<_> = (candidates.iter())
        .flat_map(|candidate| (0..samples).map(move |sample| (candidate, sample)))
        .collect();
    let ended = parallel::map(&tasks, |(candidate, sample)| {
        let sampled = sampled(candidate, simulation, seed, *sample);
        estimate(&candidate.row, &sampled, prices)
    });
    let mut ended = ended.into_iter();
    let of_row = |_| ended.by_ref().take(samples as usize).collect();
    candidates.iter().map(of_row).collect()
}

/// Returns a row's simulation on a draw of the constants and of the steps' times.
fn sampled(
    candidate: &Candidate,
    simulation: &rows::Simulation,
    seed: u64,
    sample: u32,
) -> Simulation {
    // With the row's client, and the constants that it states.
    let profile = simulation.profile_of(&candidate.row);
    let draw = hash::mix(seed, u64::from(sample));
    Simulation {
        profile: profile.sampled(draw),
        cost: candidate.simulation.cost.sampled(draw),
        ..candidate.simulation.clone()
    }
}

/// Returns whether a row with functions of so much memory is possible in 95 % of a few draws.
///
/// # Errors
/// When the row is none of a known system, or something has no price.
pub(super) fn holds(
    candidate: &Candidate,
    memory_mb: u32,
    simulation: &rows::Simulation,
    seed: u64,
    prices: &PriceBook,
) -> Result<bool> {
    let mut lost = 0;
    for sample in 0..FEW {
        let sampled = Simulation {
            memory_mb,
            ..sampled(candidate, simulation, seed, sample)
        };
        lost += u32::from(estimate(&candidate.row, &sampled, prices)?.is_err());
        if lost > FEW / 20 {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Uncertainty {
    /// Puts the medians of the samples in the place of each row's figures at the stated values. A row
    /// that most samples make impossible has no median: it is not possible.
    pub(super) fn centre(&self, rows: &mut [PlannedRow]) {
        let all = self.samples as usize;
        for interval in &self.rows {
            let Some(row) = rows.iter_mut().find(|row| row.id == interval.id) else {
                continue;
            };
            let possible = interval.feasible_samples;
            row.possible_draws = (possible < all).then_some([possible, all]);
            if 2 * possible < all && row.estimate.is_some() {
                row.estimate = None;
                let of_draws = |why: &str| format!("in {} of {all} draws: {why}", all - possible);
                match &interval.first {
                    Some(Obstacle::Infeasible(Infeasible { limit, reason })) => {
                        let (limit, reason) = (*limit, of_draws(reason));
                        row.infeasible = Some(Infeasible { limit, reason });
                    }
                    Some(Obstacle::Failed(reason)) => row.failure = Some(of_draws(reason)),
                    None => {}
                }
            }
            let Some(estimate) = &mut row.estimate else {
                continue;
            };
            for (name, figure) in FIGURES {
                if let Some(range) = interval.of_figure(name) {
                    *figure(estimate) = range.p50;
                }
            }
        }
    }

    /// Returns what the figures of rows are, as a sentence.
    pub(super) fn note(&self) -> String {
        format!(
            "Seconds and dollars are medians of {} draws of seed {}; traffic, memory and the lines of bills stand at \
             the stated values",
            self.samples, self.seed
        )
    }
}

impl Interval {
    fn new(id: String, outcomes: Vec<Outcome<Estimate>>) -> Self {
        let mut feasible = Vec::with_capacity(outcomes.len());
        let (mut infeasible_samples, mut first) = (BTreeMap::new(), None);
        for outcome in outcomes {
            let obstacle = match outcome {
                Ok(estimate) => {
                    feasible.push(estimate);
                    continue;
                }
                Err(obstacle) => obstacle,
            };
            let why = match &obstacle {
                Obstacle::Infeasible(infeasible) => infeasible.limit.as_str(),
                Obstacle::Failed(_) => "failed",
            };
            *infeasible_samples.entry(why).or_insert(0) += 1;
            first.get_or_insert(obstacle);
        }
        let figures = FIGURES.into_iter().map(|(name, figure)| {
            let values = feasible.iter_mut().map(|e| *figure(e));
            (name, Percentiles::of(values.collect()))
        });
        Self {
            id,
            figures: figures.collect(),
            feasible_samples: feasible.len(),
            infeasible_samples,
            first,
        }
    }

    /// Returns the percentiles of one of [`FIGURES`].
    pub(super) fn of_figure(&self, name: &str) -> Option<Percentiles> {
        self.figures.get(name).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use epochcost_experiment::{Experiment, Options};
    use epochcost_platform::simulator;

    use super::*;
    use crate::forecast::rows::candidates;

    /// Draws are about the stated constants: with single events drawn at these, as in draws, the median of a
    /// figure lies in its range, though at their means it does not where workers wait for each other.
    #[test]
    fn draws_are_about_the_stated_constants() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/fidelity.yaml");
        let options = Options {
            platform: Some(simulator()),
            ..Options::default()
        };
        let experiment = Experiment::load(&file, &options).unwrap();
        let mut stands = experiment.simulation.clone().unwrap();
        // Ranges of steps are wider than those of all else.
        let costs = stands.compute.iter_mut().flat_map(|of| &mut of.models);
        costs.for_each(|cost| cost.carried = None);
        let prices = PriceBook::shipped().unwrap();
        let rows = candidates(&experiment, &stands).unwrap().into_iter();
        let rows: Vec<Candidate> = rows.filter_map(Result::ok).collect();
        let (samples, seed) = (40, 42);
        let found = uncertainty(&rows, &stands, Sampling { samples, seed }, &prices).unwrap();
        let (mut all, mut at_their_means) = (0, 0);
        for (row, ranges) in rows.iter().zip(&found.rows) {
            let at = |draws: Option<u64>| {
                let mut simulation = row.simulation.clone();
                simulation.profile.draws = draws;
                let estimated = estimate(&row.row, &simulation, &prices).unwrap();
                estimated.unwrap()
            };
            let mut stated = at(None);
            let mut drawn: Vec<Estimate> = (0..9).map(|repetition| at(Some(repetition))).collect();
            for (name, figure) in FIGURES {
                let Some(range) = ranges.of_figure(name) else {
                    continue;
                };
                let values = drawn.iter_mut().map(|drawn| *figure(drawn));
                let median = Percentiles::of(values.collect()).unwrap().p50;
                // The mean of a spread is 1 within some tenths of a percent.
                let is_inside = |f: f64| f >= 0.99 * range.p5 && f <= 1.01 * range.p95;
                let id = &ranges.id;
                assert!(is_inside(median), "{id} {name}: {median} {range:?}");
                all += 1;
                at_their_means += usize::from(is_inside(*figure(&mut stated)));
            }
        }
        let fewer = at_their_means < all - 10;
        assert!(all > 100 && fewer, "{at_their_means} of {all}");
    }

    /// A row that most draws make impossible has no figures; one that some do is marked.
    #[test]
    fn a_row_that_most_draws_make_impossible_has_no_figures() {
        let experiment = crate::forecast::described::experiment(&[], false);
        let stands = experiment.simulation.clone().unwrap();
        let prices = PriceBook::shipped().unwrap();
        let rows = candidates(&experiment, &stands).unwrap().into_iter();
        let candidate = rows.filter_map(Result::ok).next().unwrap();
        for (possible, in_draws, has_figures) in [
            (40, None, true),
            (30, Some("possible in 30 of 40 draws"), true),
            (7, None, false),
        ] {
            let mut rows = [crate::forecast::rows::plan(&candidate, &stands, &prices).unwrap()];
            let estimated = rows[0].estimate.clone().unwrap();
            let outcomes = (0..40).map(|draw| {
                let is_possible = draw < possible;
                let why = || Obstacle::Failed("too long".to_owned());
                is_possible.then(|| estimated.clone()).ok_or_else(why)
            });
            let interval = Interval::new(candidate.row.id.clone(), outcomes.collect());
            let found = Uncertainty {
                samples: 40,
                seed: 1,
                ranged: Vec::new(),
                rows: vec![interval],
            };
            found.centre(&mut rows);
            let [row] = rows;
            assert_eq!(row.in_draws().as_deref(), in_draws);
            assert_eq!(row.estimate.is_some(), has_figures);
            let why = (!has_figures).then_some("fails: in 33 of 40 draws: too long");
            assert_eq!(row.why_not().as_deref(), why);
        }
    }

    #[test]
    fn percentiles_interpolate_between_neighbours() {
        let of = |values: &[f64]| Percentiles::of(values.to_vec());
        let expected = |p5, p50, p95| Some(Percentiles { p5, p50, p95 });
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0]), expected(3.0, 3.0, 3.0));
        assert_eq!(of(&[4.0, 2.0]), expected(2.1, 3.0, 3.9));
        let hundred: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!(of(&hundred), expected(5.0, 50.0, 95.0));
    }
}
