//! The two-dimensional convolution over channels-last images.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::batch_norm::{BatchNorm, Normalisation, note, running};
use crate::ops::{Features, LayerOps, Window};
use crate::source::{Initial, ParameterSource};

/// A convolution with a square window, its weight
/// `[out, in / groups, kernel, kernel]` as PyTorch keeps it.
#[derive(Module, Debug)]
pub(crate) struct Convolution<B: Backend> {
    weight: Param<Tensor<B, 4>>,
    #[module(skip)]
    window: Window,
    /// Whether the backward pass makes the output again instead of keeping it.
    #[module(skip)]
    made_again: bool,
}

impl<B: LayerOps> Convolution<B> {
    /// A convolution without bias: a batch norm or a pool that adds one follows.
    pub(crate) fn new(
        source: &mut ParameterSource<'_>,
        [inputs, outputs]: [usize; 2],
        window: Window,
        device: &B::Device,
    ) -> Self {
        let shape = [
            outputs,
            inputs / window.groups,
            window.kernel,
            window.kernel,
        ];
        let initial = Initial::Uniform {
            fan_in: window.fan_in(inputs),
        };
        Self {
            weight: source.take(shape, initial, device),
            window,
            made_again: false,
        }
    }

    /// The same convolution, its output made again in the backward pass: for one whose
    /// output takes more memory than its making takes time.
    pub(crate) fn made_again(self) -> Self {
        Self {
            made_again: true,
            ..self
        }
    }

    /// `[batch, height, width, in]` to `[batch, height', width', out]`.
    pub(crate) fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 4> {
        B::convolution(Features::plain(images), self.weight.val(), self.window).values
    }

    /// As [`Convolution::forward`], and then a batch norm.
    pub(crate) fn forward_normed(
        &self,
        features: Features<B>,
        norm: &BatchNorm<B>,
        normalisation: &mut Normalisation<B>,
    ) -> Features<B> {
        let (weight, window) = (self.weight.val(), self.window);
        let (output, moments) = match normalisation {
            Normalisation::Batch { noted } => {
                let (output, moments) = B::convolution_with_moments(features, weight, window);
                note(noted, &moments, output.values.dims());
                (output, moments)
            }
            Normalisation::Running { statistics, taken } => {
                let output = B::convolution(features, weight, window);
                let [_, _, _, channels] = output.values.dims();
                (output, running(statistics, taken, channels))
            }
        };
        let output = match self.made_again {
            true => output,
            false => output.kept(),
        };
        norm.forward(output, moments)
    }
}
