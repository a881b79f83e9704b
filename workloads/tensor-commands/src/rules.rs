use epochcost_kernels::optimizer::Sgd;
use serde::{Deserialize, Serialize};

/// An SGD step done inside the store: `g += decay·w; v = momentum·v + g;
/// w -= rate·v`, PyTorch's semantics. The velocity lives beside the
/// parameters, under the key `{parameters}:velocity`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SgdStep {
    /// Learning rate.
    pub learning_rate: f32,
    /// Momentum; 0 keeps no velocity.
    pub momentum: f32,
    /// Weight decay (L2, added to the gradient).
    pub weight_decay: f32,
}

impl From<SgdStep> for Sgd {
    fn from(step: SgdStep) -> Self {
        Self {
            learning_rate: step.learning_rate.into(),
            momentum: step.momentum.into(),
            weight_decay: step.weight_decay.into(),
        }
    }
}

/// A reduction that survives wrong gradients from some workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RobustRule {
    /// The median of each coordinate.
    CoordinateMedian,
    /// The mean of each coordinate without its `trim` smallest and largest.
    TrimmedMean {
        /// Values left out on either side.
        trim: usize,
    },
    /// The vector nearest to its neighbours (Blanchard et al. 2017).
    Krum {
        /// Wrong vectors to survive.
        faulty: usize,
    },
}
