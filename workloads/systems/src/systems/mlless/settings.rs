use serde::{Deserialize, Serialize};

use crate::Fidelity;
use crate::mechanics::transfers::TRANSFERS_AT_ONCE;

/// Values that workers send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exchange {
    /// The change that a local optimizer step made.
    Updates,
    /// Gradients; the optimizer step comes after the exchange.
    Gradients,
}

/// Filter of the accumulated update that is sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// Each parameter whose accumulated change exceeds its share of the weight:
    /// |acc / w| > v / √(step + 1).
    PerParameter,
    /// All or nothing, by norms: written for the comparison paper, never called.
    Norm,
    /// Everything, always.
    None,
}

/// Combination of the updates of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregate {
    /// Added: with W workers, a step that is W times as long.
    Sum,
    /// Added and divided by the number of workers that sent one.
    Mean,
}

/// Order in which updates are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdditionOrder {
    /// Rank order: a seed gives the same weights every time.
    Rank,
    /// Order of announcement, as published.
    Arrival,
}

/// Encoding of an update in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// The shorter of both: 4 bytes per parameter, or 8 bytes and 8 more per entry.
    Shorter,
    /// 4 bytes per parameter.
    Dense,
}

/// Model that is evaluated after the last epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalModel {
    /// Worker 0's replica.
    FirstWorker,
    /// The mean of all replicas, which the others store for worker 0, with its
    /// batch-norm statistics.
    Mean,
}

/// MLLess's settings: every difference between paper and published code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Values that workers send each other.
    pub exchange: Exchange,
    /// Filter of the update.
    pub filter: Filter,
    /// v of [`Filter::PerParameter`]; at 0 every entry but 0 is sent.
    pub significance_threshold: f64,
    /// Combination of the updates of a step.
    pub aggregate: Aggregate,
    /// Order in which updates are added.
    pub addition_order: AdditionOrder,
    /// Whether a worker downloads its own update like the others.
    pub reads_own_update: bool,
    /// Encoding of an update in the store.
    pub encoding: Encoding,
    /// Whether all workers start from the same parameters.
    pub seeded_replicas: bool,
    /// Model that is evaluated after the last epoch.
    pub final_model: FinalModel,
    /// Whether updates stay in the store, as published. Otherwise each worker
    /// deletes its own, one step after it was read.
    pub keeps_updates: bool,
    /// Whether each log line rewrites a growing log object, as published.
    pub rewrites_log: bool,
    /// Number of updates that a worker fetches at once.
    pub transfers_at_once: usize,
}

impl Settings {
    /// The settings of a fidelity.
    pub fn new(fidelity: Fidelity) -> Self {
        match fidelity {
            Fidelity::Paper => Self {
                exchange: Exchange::Updates,
                filter: Filter::PerParameter,
                significance_threshold: 0.7,
                aggregate: Aggregate::Sum,
                addition_order: AdditionOrder::Rank,
                reads_own_update: false,
                encoding: Encoding::Shorter,
                seeded_replicas: true,
                final_model: FinalModel::Mean,
                keeps_updates: false,
                rewrites_log: false,
                transfers_at_once: 1,
            },
            Fidelity::Code => Self {
                exchange: Exchange::Gradients,
                filter: Filter::None,
                significance_threshold: 0.0,
                aggregate: Aggregate::Mean,
                addition_order: AdditionOrder::Rank,
                reads_own_update: true,
                encoding: Encoding::Dense,
                seeded_replicas: false,
                final_model: FinalModel::FirstWorker,
                keeps_updates: true,
                rewrites_log: true,
                transfers_at_once: 1,
            },
            Fidelity::Tuned => Self {
                transfers_at_once: TRANSFERS_AT_ONCE,
                ..Self::new(Fidelity::Paper)
            },
        }
    }
}
