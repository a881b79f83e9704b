//! The two-dimensional convolution over channels-last images.

use burn::module::{Module, Param};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorPrimitive};

use crate::ops::{ConvolutionOps, Window};
use crate::source::{Initial, ParameterSource};

/// A convolution with a square window, its weight
/// `[out, in / groups, kernel, kernel]` as PyTorch keeps it.
#[derive(Module, Debug)]
pub(crate) struct Convolution<B: Backend> {
    weight: Param<Tensor<B, 4>>,
    bias: Option<Param<Tensor<B, 1>>>,
    #[module(skip)]
    window: Window,
}

impl<B: ConvolutionOps> Convolution<B> {
    /// A convolution without bias, as it stands before a batch norm.
    pub(crate) fn new(
        source: &mut ParameterSource<'_>,
        channels: [usize; 2],
        window: Window,
        device: &B::Device,
    ) -> Self {
        Self {
            weight: weight(source, channels, window, device),
            bias: None,
            window,
        }
    }

    /// A convolution with bias.
    pub(crate) fn with_bias(
        source: &mut ParameterSource<'_>,
        [inputs, outputs]: [usize; 2],
        window: Window,
        device: &B::Device,
    ) -> Self {
        let weight = weight(source, [inputs, outputs], window, device);
        let initial = Initial::Uniform {
            fan_in: window.fan_in(inputs),
        };
        Self {
            weight,
            bias: Some(source.take([outputs], initial, device)),
            window,
        }
    }

    /// `[batch, height, width, in]` to `[batch, height', width', out]`.
    pub(crate) fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 4> {
        let output = Tensor::from_primitive(TensorPrimitive::Float(B::convolution(
            images.into_primitive().tensor(),
            self.weight.val().into_primitive().tensor(),
            self.window,
        )));
        match &self.bias {
            Some(bias) => output + bias.val().unsqueeze(),
            None => output,
        }
    }
}

fn weight<B: Backend>(
    source: &mut ParameterSource<'_>,
    [inputs, outputs]: [usize; 2],
    window: Window,
    device: &B::Device,
) -> Param<Tensor<B, 4>> {
    let shape = [
        outputs,
        inputs / window.groups,
        window.kernel,
        window.kernel,
    ];
    let initial = Initial::Uniform {
        fan_in: window.fan_in(inputs),
    };
    source.take(shape, initial, device)
}
