//! A convolution with one bias per channel.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::batch_norm::BatchNorm;
use super::convolution::Convolution;
use super::pass::Pass;
use crate::ops::{Features, Function, LayerOps, Norm, Window};
use crate::source::{Initial, ParameterSource};

/// A convolution and its bias.
#[derive(Module, Debug)]
pub(crate) struct BiasedConvolution<B: Backend> {
    convolution: Convolution<B>,
    bias: Param<Tensor<B, 1>>,
}

impl<B: LayerOps> BiasedConvolution<B> {
    /// Returns a convolution whose weight and bias begin with those values.
    pub(crate) fn new(
        source: &mut ParameterSource<'_, B>,
        sizes: [usize; 2],
        window: Window,
        [weight, bias]: [Initial; 2],
    ) -> Self {
        Self {
            convolution: Convolution::new(source, sizes, window, weight),
            bias: source.take([sizes[1]], bias),
        }
    }

    /// `[batch, height, width, in]` to `[batch, height', width', out]`, a ReLU applied.
    pub(crate) fn rectified(&self, features: Features<B>) -> Features<B> {
        let output = self.convolution.forward(features);
        output.normed(rectified(self.bias.val()))
    }

    /// The outputs of two convolutions of the same features, the channels of the second
    /// after those of the first, a ReLU applied.
    pub(crate) fn rectified_side_by_side(pair: [&Self; 2], features: &Features<B>) -> Features<B> {
        let outputs = pair.map(|of| of.convolution.forward(features.clone()).values);
        let biases = pair.map(|of| of.bias.val());
        let bias = Tensor::cat(biases.to_vec(), 0);
        Features::plain(B::side_by_side(outputs)).normed(rectified(bias))
    }

    /// The maximum of each 2×2 window of the outputs, `[batch, height' / 2, width' / 2, out]`, a
    /// ReLU applied.
    ///
    /// Bias, maximum and ReLU commute; the maximum first leaves a quarter of the values to the
    /// others.
    pub(crate) fn pooled(&self, features: Features<B>) -> Tensor<B, 4> {
        B::pool(self.convolution.forward(features).values, self.bias.val())
    }

    /// The outputs with a batch norm.
    ///
    /// The norm takes the bias out again with the mean: only the mean that is noted has it,
    /// and its gradient is 0.
    pub(crate) fn normed(
        &self,
        features: Features<B>,
        norm: &BatchNorm<B>,
        pass: &mut Pass<B>,
    ) -> Features<B> {
        let shift = Some(self.bias.val().detach());
        self.convolution.forward_normed(features, shift, norm, pass)
    }
}

/// Returns a bias and a ReLU as a norm, which the reader of the features applies.
fn rectified<B: Backend>(bias: Tensor<B, 1>) -> Norm<B> {
    Norm {
        scale: None,
        bias,
        then: Function::Relu,
    }
}
