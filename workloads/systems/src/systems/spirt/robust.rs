//! Robust aggregation: what takes the place of the mean of the peers' averages.

use epochcost_channels::{RobustMean, RobustRule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NAME, Settings};
use crate::{Job, Result, SettingsError, SystemError, Vector, World};

/// Rule by which a peer aggregates the averages of all peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Robust {
    /// The mean, as published.
    Mean,
    /// The median of each coordinate.
    Median,
    /// The mean of each coordinate without its f smallest and f largest values.
    TrimmedMean,
    /// The average nearest to its neighbours (Blanchard et al. 2017).
    Krum,
    /// The mean of the `multi_krum_kept` averages nearest to their neighbours.
    MultiKrum,
    /// The geometric median.
    GeometricMedian,
    /// The mean of differences from the last aggregate, clipped.
    CentredClipping,
}

/// Place where averages are aggregated by a robust rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RobustAt {
    /// The peer's store, into which the function puts the averages of the others.
    Store,
    /// The function.
    Function,
}

impl Settings {
    /// Whether averages are aggregated by a robust rule.
    pub(super) fn is_robust(&self) -> bool {
        self.robust != Robust::Mean || self.nearest_neighbour_mixing
    }

    /// Whether the aggregate is the state of the next round's.
    pub(super) fn has_centre(&self) -> bool {
        self.robust == Robust::CentredClipping
    }

    /// Returns the rule for `count` averages of which `f` may be anything.
    pub(super) fn robust_mean(&self, count: usize, f: usize) -> RobustMean {
        let rule = match self.robust {
            Robust::Mean => RobustRule::TrimmedMean { trim: 0 },
            Robust::Median => RobustRule::CoordinateMedian,
            Robust::TrimmedMean => RobustRule::TrimmedMean { trim: f },
            Robust::Krum => RobustRule::Krum { faulty: f },
            Robust::MultiKrum => RobustRule::MultiKrum {
                faulty: f,
                kept: self
                    .multi_krum_kept
                    .unwrap_or_else(|| count.saturating_sub(f + 2).max(1)),
            },
            Robust::GeometricMedian => RobustRule::GeometricMedian {
                iterations: self.weiszfeld_iterations,
                smoothing: self.weiszfeld_smoothing,
            },
            Robust::CentredClipping => RobustRule::CentredClipping {
                radius: self.clipping_radius,
                iterations: self.clipping_iterations,
            },
        };
        RobustMean {
            mixed: self.nearest_neighbour_mixing.then_some(f),
            rule,
        }
    }

    /// Refuses a rule that does not suit the number of peers.
    ///
    /// # Errors
    /// In the words of the rule.
    pub(super) fn check_robust(&self, job: &Job) -> Result<(), SettingsError> {
        if !(0.0..1.0).contains(&self.worker_momentum) {
            let reason = "give 0 or more, and less than 1";
            return Err(SettingsError::value(NAME, "worker_momentum", reason));
        }
        if self.worker_momentum > 0.0 && self.averaging == super::Averaging::OnArrival {
            let reason = "sums of gradients that are added as they come have no momentum; set \
                          averaging: in_store";
            return Err(SettingsError::value(NAME, "worker_momentum", reason));
        }
        if !self.is_robust() {
            return Ok(());
        }
        // The rule itself knows what suits it; one element a peer is enough to ask it.
        let vectors = vec![Vector::Real(vec![0.0]); job.workers];
        let mean = self.robust_mean(job.workers, self.f);
        let refused = |error| {
            let reason = format!("of {} peers: {error}", job.workers);
            SettingsError::value(NAME, "robust", reason)
        };
        Vector::robust_mean(mean, &vectors, None)
            .map(drop)
            .map_err(refused)
    }
}

/// The averages that a rule may use.
pub(super) struct Screened {
    /// Their positions among all.
    pub(super) kept: Vec<usize>,
    /// Vectors among them that may still be anything.
    pub(super) f: usize,
}

/// Refuses averages of another length than `length`, or with values that are not finite:
/// what a robust rule needs not vote on.
///
/// # Errors
/// When none is left.
pub(super) fn screen(averages: &[Vector], length: usize, f: usize) -> Result<Screened> {
    let is_usable = |vector: &Vector| vector.len() == length && vector.is_finite();
    let kept: Vec<usize> = (0..averages.len())
        .filter(|position| is_usable(&averages[*position]))
        .collect();
    if kept.is_empty() {
        let reason = format!("none is {length} finite numbers");
        return Err(SystemError::malformed("every peer's average", reason));
    }
    let f = f.saturating_sub(averages.len() - kept.len());
    Ok(Screened { kept, f })
}

/// Records which peers' averages were refused; one peer records for all.
pub(super) fn note_refused(world: &World, screened: &Screened, peers: &[usize]) {
    let is_refused = |position: &usize| !screened.kept.contains(position);
    let refused: Vec<String> = (0..peers.len())
        .filter(is_refused)
        .map(|position| peers[position].to_string())
        .collect();
    if !refused.is_empty() && peers.first() == Some(&world.rank()) && world.task.round == 0 {
        world.warn(format!(
            "epoch {}: the averages of peers {} are of another length or not finite; they were \
             refused, and training goes on without them",
            world.task.epoch,
            refused.join(", ")
        ));
    }
}
