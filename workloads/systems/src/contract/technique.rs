//! What a job does when its loss on the validation split no longer falls: a smaller
//! learning rate, an early end.
//!
//! Both are settings (`reduce_on_plateau`, `early_stopping`), null by default, of every system that
//! has settings of these names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Evaluate, Job, SettingsError};

/// PyTorch's ReduceLROnPlateau, with the constants of the P2P paper's code. It needs `evaluate: every_epoch`
/// and a share `validation` of the dataset, whose loss it follows; worker 0 decides for all. Without losses
/// it does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReduceOnPlateau {
    /// Factor of a reduction, above 0 and below 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub factor: f64,
    /// Epochs without a lower loss that are tolerated.
    #[schemars(range(max = 100_000))]
    pub patience: usize,
    /// The learning rate does not fall below it.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub minimum: f64,
}

impl Default for ReduceOnPlateau {
    fn default() -> Self {
        Self {
            factor: 0.1,
            patience: 5,
            minimum: 1e-6,
        }
    }
}

/// An end after so many epochs without a lower loss, with the constants of the P2P paper's code. It needs
/// what `reduce_on_plateau` does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EarlyStopping {
    /// Epochs without a lower loss after which training ends.
    #[schemars(range(max = 100_000))]
    pub patience: usize,
    /// Least difference of a loss that counts as lower.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub min_delta: f64,
}

impl Default for EarlyStopping {
    fn default() -> Self {
        Self {
            patience: 10,
            min_delta: 0.0,
        }
    }
}

/// The techniques of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Techniques {
    /// Reduction of the learning rate when the loss no longer falls; null: none.
    pub reduce_on_plateau: Option<ReduceOnPlateau>,
    /// End of training before its last epoch; null: none.
    pub early_stopping: Option<EarlyStopping>,
}

impl Techniques {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses values out of range, a job that does not evaluate every epoch, and one
    /// without a validation split: a technique that follows the loss on the test split
    /// would select on what accuracy is reported of.
    ///
    /// # Errors
    /// Names the setting that does not fit.
    pub(crate) fn check(&self, system: &'static str, job: &Job) -> Result<(), SettingsError> {
        if self.is_empty() {
            return Ok(());
        }
        let unusable = |field: &str, reason: &str| SettingsError::value(system, field, reason);
        let field = match self.early_stopping {
            Some(_) => "early_stopping",
            None => "reduce_on_plateau",
        };
        if job.data.validation_samples == 0 {
            let reason = "it follows the loss on a validation split, and there is none; set \
                          dataset: {validation: 0.1}";
            return Err(unusable(field, reason));
        }
        if job.evaluate != Evaluate::EveryEpoch {
            let reason = "it follows the loss after each epoch; set evaluate: every_epoch";
            return Err(unusable(field, reason));
        }
        if let Some(plateau) = self.reduce_on_plateau
            && !(plateau.factor > 0.0 && plateau.factor < 1.0 && plateau.minimum >= 0.0)
        {
            let reason = "its factor is above 0 and below 1, its minimum at least 0";
            return Err(unusable("reduce_on_plateau", reason));
        }
        Ok(())
    }
}
