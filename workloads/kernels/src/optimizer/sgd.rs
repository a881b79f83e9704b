//! Stochastic gradient descent, alone and fused with the mean of gradients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{KernelError, expect_length};
use crate::reduce::{BLOCK, append_sum, blocks, common_length, divide};

const OPERATION: &str = "take an SGD step";

/// SGD with momentum and L2 weight decay, with the semantics of PyTorch's
/// `torch.optim.SGD` (dampening 0, no Nesterov).
///
/// Settings are `f64`, as in PyTorch, and rounded to `f32` where they meet the
/// vectors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sgd {
    /// Step length η.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub learning_rate: f64,
    /// Momentum μ; 0 keeps no velocity.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub momentum: f64,
    /// Weight decay λ, added to the gradient as λ·w.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub weight_decay: f64,
}

impl Sgd {
    /// One step: g ← g + λw; v ← μv + g; w ← w − ηv, in `f32`.
    ///
    /// An empty `velocity` stands for zeros, so that v = g at the first step.
    /// Without momentum it is neither read nor written.
    ///
    /// # Errors
    /// [`KernelError::LengthMismatch`]: vector 1 is the gradient, vector 2 the
    /// velocity. Nothing is modified then.
    pub fn step(
        &self,
        parameters: &mut [f32],
        gradient: &[f32],
        velocity: &mut Vec<f32>,
    ) -> Result<(), KernelError> {
        expect_length(OPERATION, 1, parameters.len(), gradient.len())?;
        let velocity = self.prepare_velocity(parameters.len(), velocity)?;
        self.update(parameters, gradient, velocity);
        Ok(())
    }

    /// Fills an empty velocity; without momentum, lends an empty slice.
    fn prepare_velocity<'v>(
        &self,
        n: usize,
        velocity: &'v mut Vec<f32>,
    ) -> Result<&'v mut [f32], KernelError> {
        if self.momentum == 0.0 {
            return Ok(&mut []);
        }
        if velocity.is_empty() {
            velocity.resize(n, 0.0);
        }
        expect_length(OPERATION, 2, n, velocity.len())?;
        Ok(velocity)
    }

    /// The arithmetic of every SGD step of this project: slices of one length,
    /// the velocity empty without momentum.
    fn update(&self, parameters: &mut [f32], gradient: &[f32], velocity: &mut [f32]) {
        let (rate, momentum) = (self.learning_rate as f32, self.momentum as f32);
        let decay = self.weight_decay as f32;
        if self.momentum == 0.0 {
            for (w, g) in parameters.iter_mut().zip(gradient) {
                *w -= rate * (g + decay * *w);
            }
            return;
        }
        for ((w, g), v) in parameters.iter_mut().zip(gradient).zip(velocity) {
            *v = momentum * *v + (g + decay * *w);
            *w -= rate * *v;
        }
    }
}

/// Takes one SGD step with the mean of `gradients`, given as little-endian `f32` bytes at any
/// alignment, in one pass over memory: the bits of [`mean_bytes`](crate::reduce::mean_bytes)
/// followed by [`Sgd::step`], without the averaged vector between them.
///
/// # Errors
/// Those of [`mean_bytes`](crate::reduce::mean_bytes) and [`Sgd::step`]. Nothing is modified then.
pub fn mean_sgd_step_bytes(
    sgd: &Sgd,
    parameters: &mut [f32],
    gradients: &[&[u8]],
    velocity: &mut Vec<f32>,
) -> Result<(), KernelError> {
    let n = common_length("average gradients", gradients)?;
    expect_length(OPERATION, 1, parameters.len(), n)?;
    let velocity = sgd.prepare_velocity(n, velocity)?;
    let mut mean = Vec::with_capacity(BLOCK.min(n));
    for range in blocks(n) {
        mean.clear();
        let block = append_sum(gradients, &range, &mut mean);
        divide(block, gradients.len() as f32);
        let velocity = velocity.get_mut(range.clone()).unwrap_or_default();
        sgd.update(&mut parameters[range], block, velocity);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_momentum_the_velocity_is_not_touched() {
        let sgd = Sgd {
            learning_rate: 0.5,
            momentum: 0.0,
            weight_decay: 0.0,
        };
        let (mut w, mut v) = ([1.0, 2.0], vec![]);
        sgd.step(&mut w, &[1.0, -1.0], &mut v).unwrap();
        assert_eq!(w, [0.5, 2.5]);
        assert!(v.is_empty());
    }

    #[test]
    fn mismatches_leave_everything_unchanged() {
        let sgd = Sgd {
            learning_rate: 0.5,
            momentum: 0.9,
            weight_decay: 0.0,
        };
        let (mut w, mut v) = ([1.0, 2.0], vec![]);
        assert!(sgd.step(&mut w, &[1.0], &mut v).is_err());
        assert!(mean_sgd_step_bytes(&sgd, &mut w, &[&[0; 4]], &mut v).is_err());
        assert!(v.is_empty());
        assert!(sgd.step(&mut w, &[1.0, 1.0], &mut vec![0.0]).is_err());
        assert_eq!(w, [1.0, 2.0]);
    }
}
