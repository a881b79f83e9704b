//! What the ranges of a platform profile's constants make of a plan.

use std::collections::BTreeMap;

use epochcost_kernels::hash;
use epochcost_simulator::Simulation;
use serde::Serialize;

use super::estimate::StageMeans;
use super::estimate::{Estimate, Outcome, estimate};
use super::parallel;
use super::rows::Candidate;
use crate::cost::PriceBook;
use crate::error::Error;
use crate::rows;

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
    /// Wall seconds of an epoch.
    pub(super) seconds_per_epoch: Option<Percentiles>,
    /// Wall seconds of the whole.
    pub(super) seconds: Option<Percentiles>,
    /// Seconds of fetching data per worker and epoch.
    pub(super) fetch_dataset: Option<Percentiles>,
    /// Seconds of computing gradients per worker and epoch.
    pub(super) compute_gradients: Option<Percentiles>,
    /// Seconds of synchronising per worker and epoch.
    pub(super) synchronise: Option<Percentiles>,
    /// Seconds of updating the model per worker and epoch.
    pub(super) update_model: Option<Percentiles>,
    /// Seconds of evaluating and deciding per worker and epoch.
    pub(super) detect_convergence: Option<Percentiles>,
    /// Dollars by the paper's formula.
    pub(super) cost_paper_usd: Option<Percentiles>,
    /// Dollars with everything counted.
    pub(super) cost_full_usd: Option<Percentiles>,
}

/// The values below which 5, 50 and 95 % of the samples lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Percentiles {
    pub(super) p5: f64,
    pub(super) p50: f64,
    pub(super) p95: f64,
}

impl Percentiles {
    /// Returns the percentiles of `values`, interpolated between neighbours;
    /// `None` without values.
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |share: f64| {
            let place = share * last as f64;
            let below = place.floor() as usize;
            let (low, high) = (values[below], values[(below + 1).min(last)]);
            low + (high - low) * (place - below as f64)
        };
        Some(Self {
            p5: at(0.05),
            p50: at(0.5),
            p95: at(0.95),
        })
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
    samples: u32,
    seed: u64,
    prices: &PriceBook,
) -> Result<Uncertainty, Error> {
    let profile = &simulation.profile;
    let tasks: Vec<_> = (candidates.iter())
        .flat_map(|candidate| (0..samples).map(move |sample| (candidate, sample)))
        .collect();
    let ended = parallel::map(&tasks, |(candidate, sample)| {
        // With the row's client, and the constants that it states.
        let profile = simulation.profile_of(&candidate.row);
        let sampled = Simulation {
            profile: profile.sampled(hash::mix(seed, u64::from(*sample))),
            cost: candidate
                .simulation
                .cost
                .sampled(hash::mix(seed, u64::from(*sample))),
            ..candidate.simulation.clone()
        };
        estimate(&candidate.row, &sampled, prices)
    });
    let mut ended = ended.into_iter();
    let mut rows = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let own: Result<Vec<_>, Error> = ended.by_ref().take(samples as usize).collect();
        rows.push(Interval::of(candidate.row.id.clone(), own?));
    }
    Ok(Uncertainty {
        samples,
        seed,
        ranged: (profile.constants().into_iter())
            .filter(|(_, constant)| constant.range().0 < constant.range().1)
            .map(|(path, _)| path)
            .collect(),
        rows,
    })
}

impl Interval {
    fn of(id: String, outcomes: Vec<Outcome<Estimate>>) -> Self {
        let mut feasible = Vec::with_capacity(outcomes.len());
        let mut infeasible_samples = BTreeMap::new();
        for outcome in outcomes {
            let why = match outcome {
                Outcome::Feasible(estimate) => {
                    feasible.push(estimate);
                    continue;
                }
                Outcome::Infeasible(infeasible) => infeasible.limit.as_str(),
                Outcome::Failed(_) => "failed",
            };
            *infeasible_samples.entry(why).or_insert(0) += 1;
        }
        let of =
            |value: fn(&Estimate) -> f64| Percentiles::of(feasible.iter().map(value).collect());
        let stage = |value: fn(&StageMeans) -> Option<f64>| {
            let values = feasible.iter();
            Percentiles::of(
                values
                    .filter_map(|estimate| value(&estimate.stage_seconds))
                    .collect(),
            )
        };
        Self {
            id,
            feasible_samples: feasible.len(),
            infeasible_samples,
            seconds_per_epoch: of(|estimate| estimate.seconds_per_epoch),
            seconds: of(|estimate| estimate.seconds),
            fetch_dataset: stage(|means| means.fetch_dataset),
            compute_gradients: stage(|means| means.compute_gradients),
            synchronise: stage(|means| means.synchronise),
            update_model: stage(|means| means.update_model),
            detect_convergence: stage(|means| means.detect_convergence),
            cost_paper_usd: of(|estimate| estimate.cost_paper_usd),
            cost_full_usd: of(|estimate| estimate.cost_full_usd),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
