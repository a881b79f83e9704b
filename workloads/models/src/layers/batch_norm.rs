//! Batch norm with its statistics outside of the network.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::ModelError;
use crate::flat;
use crate::ops::{Features, LayerOps, Moments, Norm};
use crate::source::{Initial, ParameterSource};

/// Share of the batch's statistics in the new running statistics.
const MOMENTUM: f32 = 0.1;

/// The batch norm of channels-last images; see the crate's batch-norm policy.
#[derive(Module, Debug)]
pub(crate) struct BatchNorm<B: Backend> {
    weight: Param<Tensor<B, 1>>,
    bias: Param<Tensor<B, 1>>,
}

/// What the batch norms of one forward pass normalise by.
pub(crate) enum Normalisation<B: Backend> {
    /// By the batch's own statistics. Each layer notes its mean and its unbiased
    /// variance, `[channels]` each.
    Batch {
        /// The notes, in the order of the flat statistics.
        noted: Vec<Tensor<B, 1>>,
    },
    /// By running statistics.
    Running {
        /// The flat statistics.
        statistics: Tensor<B, 1>,
        /// How many of them the layers before have taken.
        taken: usize,
    },
}

impl<B: Backend> Normalisation<B> {
    /// For a training step.
    pub(crate) fn batch() -> Self {
        Self::Batch { noted: vec![] }
    }

    /// For evaluation by these flat statistics.
    pub(crate) fn running(statistics: Tensor<B, 1>) -> Self {
        Self::Running {
            statistics,
            taken: 0,
        }
    }

    /// The batch's statistics as one flat vector; empty without batch norms or
    /// outside of training.
    pub(crate) fn into_batch_statistics(self) -> Result<Vec<f32>, ModelError> {
        match self {
            Self::Batch { noted } if !noted.is_empty() => flat::values(Tensor::cat(noted, 0)),
            _ => Ok(vec![]),
        }
    }
}

/// The running statistics after a training step:
/// `running ← 0.9 · running + 0.1 · batch`.
pub(crate) fn update_running(running: &mut [f32], batch: &[f32]) {
    for (running, batch) in running.iter_mut().zip(batch) {
        *running = (1.0 - MOMENTUM) * *running + MOMENTUM * batch;
    }
}

impl<B: Backend> BatchNorm<B> {
    pub(crate) fn new(
        source: &mut ParameterSource<'_>,
        channels: usize,
        device: &B::Device,
    ) -> Self {
        source.keep_statistics(channels);
        Self {
            weight: source.take([channels], Initial::Ones, device),
            bias: source.take([channels], Initial::Zeros, device),
        }
    }

    /// `[batch, height, width, channels]`, to be normalised by whichever operation reads
    /// them.
    pub(crate) fn forward(&self, features: Features<B>, moments: Moments<B>) -> Features<B>
    where
        B: LayerOps,
    {
        let norm = Norm {
            weight: self.weight.val(),
            bias: self.bias.val(),
            moments,
            rectified: false,
        };
        features.normed(norm)
    }
}

/// Notes the moments of features of that shape: the mean and the unbiased variance.
pub(super) fn note<B: Backend>(
    noted: &mut Vec<Tensor<B, 1>>,
    moments: &Moments<B>,
    [batch, height, width, _]: [usize; 4],
) {
    let count = (batch * height * width) as f64;
    noted.push(moments.mean.clone());
    noted.push(moments.variance.clone() * (count / (count - 1.0)));
}

/// The next layer's running statistics as moments.
pub(super) fn running<B: Backend>(
    statistics: &Tensor<B, 1>,
    taken: &mut usize,
    channels: usize,
) -> Moments<B> {
    let mut next = || {
        let range = *taken..*taken + channels;
        *taken = range.end;
        statistics.clone().slice([range])
    };
    Moments {
        mean: next(),
        variance: next(),
    }
}
