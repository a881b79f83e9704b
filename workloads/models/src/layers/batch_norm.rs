//! Batch norm with its statistics outside of the network.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::ops::{Features, Function, LayerOps, Moments, Norm, Scale};
use crate::source::{Initial, ParameterSource};

/// PyTorch's addition to the variance before its root is taken.
const EPSILON: f64 = 1e-5;

/// The batch norm of channels-last images; see the crate's batch-norm policy.
#[derive(Module, Debug)]
pub(crate) struct BatchNorm<B: Backend> {
    weight: Param<Tensor<B, 1>>,
    bias: Param<Tensor<B, 1>>,
    #[module(skip)]
    epsilon: f64,
}

/// The running statistics after a training step:
/// `running ← (1 - momentum) · running + momentum · batch`.
pub(crate) fn update_running(running: &mut [f32], batch: &[f32], momentum: f32) {
    for (running, batch) in running.iter_mut().zip(batch) {
        *running = (1.0 - momentum) * *running + momentum * batch;
    }
}

impl<B: Backend> BatchNorm<B> {
    pub(crate) fn new(source: &mut ParameterSource<'_, B>, channels: usize) -> Self {
        source.keep_statistics(channels);
        Self {
            weight: source.take([channels], Initial::Ones),
            bias: source.take([channels], Initial::Zeros),
            epsilon: EPSILON,
        }
    }

    /// The same batch norm with another addition to the variance.
    pub(crate) fn with_epsilon(self, epsilon: f64) -> Self {
        Self { epsilon, ..self }
    }

    /// `[batch, height, width, channels]`, to be normalised by whichever operation reads
    /// them.
    pub(crate) fn forward(&self, features: Features<B>, moments: Moments<B>) -> Features<B>
    where
        B: LayerOps,
    {
        let scale = Scale {
            weight: self.weight.val(),
            moments,
            epsilon: self.epsilon,
        };
        features.normed(Norm {
            scale: Some(scale),
            bias: self.bias.val(),
            then: Function::Identity,
        })
    }
}
