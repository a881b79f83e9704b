//! Adam.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{KernelError, expect_length};

const OPERATION: &str = "take an Adam step";

/// Adam (Kingma and Ba 2015) with the semantics of PyTorch's
/// `torch.optim.Adam`: bias corrections in `f64`, L2 weight decay added to the
/// gradient (not AdamW), ε added after the square root.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Adam {
    /// Step length η.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub learning_rate: f64,
    /// Decay of the first moment; 0.9 by default.
    #[serde(default = "default_beta1")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub beta1: f64,
    /// Decay of the second moment; 0.999 by default.
    #[serde(default = "default_beta2")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub beta2: f64,
    /// Added to the denominator; 1e-8 by default.
    #[serde(default = "default_epsilon")]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub epsilon: f64,
    /// Weight decay λ, added to the gradient as λ·w.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub weight_decay: f64,
}

const fn default_beta1() -> f64 {
    0.9
}

const fn default_beta2() -> f64 {
    0.999
}

const fn default_epsilon() -> f64 {
    1e-8
}

/// State that Adam keeps between steps.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct AdamState {
    /// Steps taken.
    pub step: u64,
    /// First moment; empty before the first step.
    pub m: Vec<f32>,
    /// Second moment; empty before the first step.
    pub v: Vec<f32>,
}

impl Adam {
    /// Adam with PyTorch's defaults but for the learning rate.
    #[must_use]
    pub const fn new(learning_rate: f64) -> Self {
        Self {
            learning_rate,
            beta1: default_beta1(),
            beta2: default_beta2(),
            epsilon: default_epsilon(),
            weight_decay: 0.0,
        }
    }

    /// One step: g ← g + λw; m ← m + (1 − β₁)(g − m); v ← β₂v + (1 − β₂)g²;
    /// w ← w − (η / (1 − β₁ᵗ)) · m / (√v / √(1 − β₂ᵗ) + ε).
    ///
    /// # Errors
    /// [`KernelError::LengthMismatch`]: vector 1 is the gradient, vectors 2 and
    /// 3 the moments. Nothing is modified then.
    pub(super) fn step(
        &self,
        parameters: &mut [f32],
        gradient: &[f32],
        state: &mut AdamState,
    ) -> Result<(), KernelError> {
        let n = parameters.len();
        expect_length(OPERATION, 1, n, gradient.len())?;
        if state.m.is_empty() && state.v.is_empty() {
            state.m.resize(n, 0.0);
            state.v.resize(n, 0.0);
        }
        expect_length(OPERATION, 2, n, state.m.len())?;
        expect_length(OPERATION, 3, n, state.v.len())?;
        state.step += 1;
        self.update(parameters, gradient, state);
        Ok(())
    }

    fn update(&self, parameters: &mut [f32], gradient: &[f32], state: &mut AdamState) {
        let t = state.step as f64;
        let step_size = (self.learning_rate / (1.0 - self.beta1.powf(t))) as f32;
        let correction = (1.0 - self.beta2.powf(t)).sqrt() as f32;
        let (decay, epsilon) = (self.weight_decay as f32, self.epsilon as f32);
        let blend = (1.0 - self.beta1) as f32;
        let (keep, add) = (self.beta2 as f32, (1.0 - self.beta2) as f32);
        let moments = state.m.iter_mut().zip(&mut state.v);
        for ((w, g), (m, v)) in parameters.iter_mut().zip(gradient).zip(moments) {
            let g = g + decay * *w;
            *m += blend * (g - *m);
            *v = keep * *v + add * g * g;
            *w -= step_size * *m / (v.sqrt() / correction + epsilon);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by hand, η = 0.1: after the first step m̂ = g and v̂ = g², so w moves by
    /// η·sign(g) whatever the gradient's size. Second step, g = 1 after 0.5:
    /// m = 0.05·0.9 + 0.1 = 0.145, m̂ = 0.145 / 0.19 = 0.7631579;
    /// v = 0.00025·0.999 + 0.001 = 0.00124975, v̂ = v / 0.001999 = 0.6251876;
    /// w = 0.9 − 0.1 · 0.7631579 / 0.7906881 = 0.8034818.
    #[test]
    fn two_steps_by_hand() {
        let (mut w, mut state) = ([1.0, -1.0], AdamState::default());
        let adam = Adam::new(0.1);
        adam.step(&mut w, &[0.5, -1e-3], &mut state).unwrap();
        assert!((w[0] - 0.9).abs() < 1e-6 && (w[1] + 0.9).abs() < 1e-5);
        adam.step(&mut w, &[1.0, 0.0], &mut state).unwrap();
        assert!((w[0] - 0.803_481_8).abs() < 1e-6, "{}", w[0]);
        assert!((state.m[0] - 0.145).abs() < 1e-7);
        assert!((state.v[0] - 0.001_249_75).abs() < 1e-9);
        assert_eq!(state.step, 2);
    }

    #[test]
    fn mismatches_leave_everything_unchanged() {
        let (mut w, mut state) = ([1.0], AdamState::default());
        assert!(
            Adam::new(0.1)
                .step(&mut w, &[1.0, 2.0], &mut state)
                .is_err()
        );
        assert_eq!((w, &state), ([1.0], &AdamState::default()));
        state.m = vec![0.0];
        assert!(Adam::new(0.1).step(&mut w, &[1.0], &mut state).is_err());
        assert_eq!(state.step, 0);
    }
}
