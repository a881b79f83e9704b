//! The maximum of each window, with what stands around it.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::ops::LayerOps;
use crate::source::{Initial, ParameterSource};

/// The bias of the convolution before, the maximum of each 2×2 window, and a ReLU.
///
/// The three commute; the maximum first leaves a quarter of the values to the others.
#[derive(Module, Debug)]
pub(crate) struct BiasedPool<B: Backend> {
    bias: Param<Tensor<B, 1>>,
}

impl<B: LayerOps> BiasedPool<B> {
    /// Returns a pool that follows a convolution of so many output channels.
    pub(crate) fn new(
        source: &mut ParameterSource<'_>,
        channels: usize,
        initial: Initial,
        device: &B::Device,
    ) -> Self {
        Self {
            bias: source.take([channels], initial, device),
        }
    }

    /// `[batch, 2h, 2w, channels]` to `[batch, h, w, channels]`.
    pub(crate) fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 4> {
        B::pool(images, self.bias.val())
    }
}
