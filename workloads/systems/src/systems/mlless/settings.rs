use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NAME;
use super::scale_in::ScaleIn;
use crate::mechanics::transfers::TRANSFERS_AT_ONCE;
use crate::{EarlyStopping, Fidelity, ReduceOnPlateau, SettingsError, Task};

/// Values that workers send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Exchange {
    /// The change that a local optimizer step made.
    Updates,
    /// Gradients; the optimizer step comes after the exchange.
    Gradients,
}

/// Filter of the accumulated update that is sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Aggregate {
    /// Added: with W workers, a step that is W times as long.
    Sum,
    /// Added and divided by the number of workers that sent one.
    Mean,
}

/// Order in which updates are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdditionOrder {
    /// Rank order: a seed gives the same weights every time.
    Rank,
    /// Order of announcement, as published.
    Arrival,
}

/// Encoding of an update in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// 16 bytes per entry, an index and a value of 8 bytes each: the sparse vectors of the
    /// original, without its zlib, whose size has no closed form.
    Original,
    /// The shorter of both: 4 bytes per parameter, or 8 bytes and 8 more per entry.
    Shorter,
    /// 4 bytes per parameter.
    Dense,
}

/// Model that is evaluated after the last epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FinalModel {
    /// Worker 0's replica.
    FirstWorker,
    /// The mean of all replicas, which the others store for worker 0, with its
    /// batch-norm statistics.
    Mean,
}

/// End of training at a loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopAtLoss {
    /// Mean training loss of all workers in a step.
    #[schemars(range(min = -1e9, max = 1e9))]
    pub loss: f64,
    /// Consecutive steps that must not be above it: 10, as published.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub steps: usize,
}

fn ten() -> usize {
    10
}

/// MLLess's settings: every difference between paper and published code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Values that workers send each other.
    pub exchange: Exchange,
    /// Filter of the update.
    pub filter: Filter,
    /// v of the filter `per_parameter`; at 0 every entry but 0 is sent.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub significance_threshold: f64,
    /// Combination of the updates of a step.
    pub aggregate: Aggregate,
    /// Order in which updates are added.
    pub addition_order: AdditionOrder,
    /// Whether a worker downloads its own update like the others.
    pub reads_own_update: bool,
    /// Encoding in the store of an update that was filtered per parameter; others are dense.
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
    #[schemars(range(min = 1, max = 10_000))]
    pub transfers_at_once: usize,
    /// Steps that a worker may be ahead of the slowest; at 0 all are in step. With `exchange: updates` and
    /// `aggregate: sum`, and without what ends training early or removes workers.
    #[schemars(range(max = 1_000_000))]
    pub slack: usize,
    /// Epochs after which workers and supervisor each invoke themselves again, since no function runs for
    /// more than 15 minutes; null: never. Without `slack`, `filter: norm`, and what ends training by its
    /// course or removes workers.
    #[schemars(range(min = 1, max = 100_000))]
    pub epochs_per_invocation: Option<usize>,
    /// Removal of workers after the knee of the loss, one per interval, as long as the predicted loss is
    /// not too far above that of all workers; null: all stay. With `exchange: updates`.
    pub scale_in: Option<ScaleIn>,
    /// End of training at a loss; null: none.
    pub stop_at_loss: Option<StopAtLoss>,
    /// Seconds of training after which it ends with its step; null: no limit.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub stop_after_s: Option<f64>,
    /// Reduction of the learning rate when the loss no longer falls; null: none.
    pub reduce_on_plateau: Option<ReduceOnPlateau>,
    /// End of training before its last epoch; null: none.
    pub early_stopping: Option<EarlyStopping>,
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
                encoding: Encoding::Original,
                seeded_replicas: true,
                final_model: FinalModel::Mean,
                keeps_updates: false,
                rewrites_log: false,
                transfers_at_once: 1,
                slack: 0,
                epochs_per_invocation: None,
                scale_in: None,
                stop_at_loss: None,
                stop_after_s: None,
                reduce_on_plateau: None,
                early_stopping: None,
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
                ..Self::new(Fidelity::Paper)
            },
            Fidelity::Tuned => Self {
                encoding: Encoding::Shorter,
                transfers_at_once: TRANSFERS_AT_ONCE,
                ..Self::new(Fidelity::Paper)
            },
        }
    }

    /// The epoch at which the task's invocation ends.
    pub(super) fn end(&self, task: &Task) -> usize {
        let epochs = self.epochs_per_invocation.unwrap_or(task.job.epochs);
        task.job.epochs.min(task.epoch + epochs.max(1))
    }

    /// Form of updates in the store: the encoding is one of what is filtered per parameter.
    pub(super) fn form(&self) -> Encoding {
        match self.filter {
            Filter::PerParameter => self.encoding,
            Filter::Norm | Filter::None => Encoding::Dense,
        }
    }

    /// Whether the supervisor may end training before the last epoch.
    pub(super) fn may_stop(&self) -> bool {
        self.stop_at_loss.is_some() || self.stop_after_s.is_some()
    }

    /// Whether the closed form depends on how training went.
    pub(super) fn depends_on_course(&self) -> bool {
        self.scale_in.is_some() || self.may_stop()
    }

    /// Refuses values that are out of range, or contradict each other.
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        let unusable = |field: &str, reason: &str| Err(SettingsError::value(NAME, field, reason));
        let threshold = self.significance_threshold;
        if !threshold.is_finite() || threshold < 0.0 {
            let reason = format!("it is {threshold}, but must be finite and at least 0");
            return unusable("significance_threshold", &reason);
        }
        if let Some(reason) = self.scale_in.as_ref().and_then(ScaleIn::fault) {
            return unusable("scale_in", reason);
        }
        if (self.stop_at_loss).is_some_and(|stop| !stop.loss.is_finite() || stop.steps == 0) {
            return unusable("stop_at_loss", "give a finite loss, and 1 step or more");
        }
        if (self.stop_after_s).is_some_and(|s| !s.is_finite() || s <= 0.0) {
            return unusable("stop_after_s", "give a number of seconds above 0");
        }
        if self.may_stop() && self.early_stopping.is_some() {
            let reason =
                "training ends in one way: leave out stop_at_loss and stop_after_s, or this";
            return unusable("early_stopping", reason);
        }
        let is_held = self.slack > 0 || self.depends_on_course() || self.filter == Filter::Norm;
        if self.epochs_per_invocation.is_some() && is_held {
            let reason = "what an invocation hands over to the next is of workers in step: leave out slack, \
                          filter: norm, scale_in, stop_at_loss and stop_after_s";
            return unusable("epochs_per_invocation", reason);
        }
        if self.slack > 0 {
            return self
                .slack_fault()
                .map_or(Ok(()), |reason| unusable("slack", reason));
        }
        if self.scale_in.is_some() && self.exchange == Exchange::Gradients {
            let reason = "models that exchange gradients are alike, and nothing is gained by \
                          averaging with one that leaves; use exchange: updates";
            return unusable("scale_in", reason);
        }
        Ok(())
    }

    /// Why workers cannot run ahead of each other under these settings.
    fn slack_fault(&self) -> Option<&'static str> {
        if (self.exchange, self.aggregate) != (Exchange::Updates, Aggregate::Sum) {
            return Some(
                "only a sum of updates can be added later; use exchange: updates and aggregate: sum",
            );
        }
        if self.depends_on_course()
            || self.reduce_on_plateau.is_some()
            || self.early_stopping.is_some()
        {
            return Some(
                "workers that run ahead of each other do not end or leave together; leave out \
                 scale_in, stop_at_loss, stop_after_s, reduce_on_plateau and early_stopping",
            );
        }
        None
    }
}
