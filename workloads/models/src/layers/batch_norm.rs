//! Batch norm with its statistics outside of the network.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::ModelError;
use crate::flat;
use crate::source::{Initial, ParameterSource};

/// Added to the variance before its root is taken.
const EPSILON: f64 = 1e-5;

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

    /// Normalises `[batch, height, width, channels]`.
    pub(crate) fn forward(
        &self,
        features: Tensor<B, 4>,
        normalisation: &mut Normalisation<B>,
    ) -> Tensor<B, 4> {
        let (centred, variance) = match normalisation {
            Normalisation::Batch { noted } => by_batch(features, noted),
            Normalisation::Running { statistics, taken } => by_running(features, statistics, taken),
        };
        let scale = self.weight.val().unsqueeze() / (variance + EPSILON).sqrt();
        centred * scale + self.bias.val().unsqueeze()
    }
}

/// The features less their mean, and their biased variance `[1, 1, 1, channels]`.
/// Both stay in the autodiff graph.
fn by_batch<B: Backend>(
    features: Tensor<B, 4>,
    noted: &mut Vec<Tensor<B, 1>>,
) -> (Tensor<B, 4>, Tensor<B, 4>) {
    let [batch, height, width, channels] = features.dims();
    let count = (batch * height * width) as f64;
    let mean = channel_mean(features.clone());
    let centred = features - mean.clone();
    let variance = channel_mean(centred.clone() * centred.clone());
    noted.push(mean.detach().reshape([channels]));
    noted.push(variance.clone().detach().reshape([channels]) * (count / (count - 1.0)));
    (centred, variance)
}

/// As [`by_batch`], with the next layer's running statistics.
fn by_running<B: Backend>(
    features: Tensor<B, 4>,
    statistics: &Tensor<B, 1>,
    taken: &mut usize,
) -> (Tensor<B, 4>, Tensor<B, 4>) {
    let [_, _, _, channels] = features.dims();
    let mut next = || {
        let range = *taken..*taken + channels;
        *taken = range.end;
        statistics.clone().slice([range]).unsqueeze()
    };
    let mean: Tensor<B, 4> = next();
    (features - mean, next())
}

/// `[1, 1, 1, channels]`, one axis after the other: short sums keep the digits of
/// `f32`, and as matrices they are what the CPU backend is fast at.
fn channel_mean<B: Backend>(features: Tensor<B, 4>) -> Tensor<B, 4> {
    let [batch, height, width, channels] = features.dims();
    features
        .reshape([batch, height * width * channels])
        .mean_dim(0)
        .reshape([height, width * channels])
        .mean_dim(0)
        .reshape([width, channels])
        .mean_dim(0)
        .reshape([1, 1, 1, channels])
}
