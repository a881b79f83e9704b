//! One bias per channel.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::convolution::Convolution;
use crate::ops::{Features, Function, LayerOps, Norm, Window};
use crate::source::{Initial, ParameterSource};

/// The bias of a convolution.
#[derive(Module, Debug)]
pub(crate) struct Bias<B: Backend> {
    values: Param<Tensor<B, 1>>,
}

impl<B: LayerOps> Bias<B> {
    pub(crate) fn new(
        source: &mut ParameterSource<'_>,
        channels: usize,
        initial: Initial,
        device: &B::Device,
    ) -> Self {
        Self {
            values: source.take([channels], initial, device),
        }
    }

    /// The values, outside of the autodiff graph.
    pub(crate) fn held(&self) -> Tensor<B, 1> {
        self.values.val().detach()
    }

    /// Returns the bias and a ReLU as a norm, which the reader of the features applies.
    pub(crate) fn rectified(&self) -> Norm<B> {
        rectified(self.values.val())
    }

    /// Returns [`Bias::rectified`] of channels that stand side by side.
    pub(crate) fn rectified_side_by_side(biases: [&Self; 2]) -> Norm<B> {
        let biases = biases.map(|bias| bias.values.val());
        rectified(Tensor::cat(biases.to_vec(), 0))
    }
}

fn rectified<B: Backend>(bias: Tensor<B, 1>) -> Norm<B> {
    Norm {
        scale: None,
        bias,
        then: Function::Relu,
    }
}

/// A convolution, its bias and a ReLU.
#[derive(Module, Debug)]
pub(crate) struct RectifiedConvolution<B: Backend> {
    convolution: Convolution<B>,
    bias: Bias<B>,
}

impl<B: LayerOps> RectifiedConvolution<B> {
    /// Returns a convolution whose biases begin at 0.
    pub(crate) fn new(
        source: &mut ParameterSource<'_>,
        [inputs, outputs]: [usize; 2],
        window: Window,
        initial: Initial,
        device: &B::Device,
    ) -> Self {
        Self {
            convolution: Convolution::begun(source, [inputs, outputs], window, initial, device),
            bias: Bias::new(source, outputs, Initial::Zeros, device),
        }
    }

    /// `[batch, height, width, in]` to `[batch, height', width', out]`.
    pub(crate) fn forward(&self, features: Features<B>) -> Features<B> {
        let output = self.convolution.forward_features(features);
        output.normed(self.bias.rectified())
    }

    /// The outputs of two convolutions of the same features, the channels of the second
    /// after those of the first.
    pub(crate) fn forward_side_by_side(pair: [&Self; 2], features: &Features<B>) -> Features<B> {
        let outputs = pair.map(|of| of.convolution.forward_features(features.clone()).values);
        let values = B::side_by_side(outputs);
        Features::plain(values).normed(Bias::rectified_side_by_side(pair.map(|of| &of.bias)))
    }
}
