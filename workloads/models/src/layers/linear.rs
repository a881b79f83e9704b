//! The fully connected layer.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::ops::LayerOps;
use crate::source::{Initial, ParameterSource};

/// `y = x · weightᵀ + bias`, its weight `[out, in]` as PyTorch keeps it.
#[derive(Module, Debug)]
pub(crate) struct Linear<B: Backend> {
    weight: Param<Tensor<B, 2>>,
    bias: Param<Tensor<B, 1>>,
}

impl<B: LayerOps> Linear<B> {
    pub(crate) fn new(source: &mut ParameterSource<'_, B>, sizes: [usize; 2]) -> Self {
        Self::begun(source, sizes, [Initial::Uniform(sizes[0]); 2])
    }

    /// Returns a layer whose weight and bias begin with other values than those of
    /// [`Linear::new`].
    pub(crate) fn begun(
        source: &mut ParameterSource<'_, B>,
        [inputs, outputs]: [usize; 2],
        [weight, bias]: [Initial; 2],
    ) -> Self {
        Self {
            weight: source.take([outputs, inputs], weight),
            bias: source.take([outputs], bias),
        }
    }

    /// `[batch, in]` to `[batch, out]`.
    pub(crate) fn forward(&self, rows: Tensor<B, 2>) -> Tensor<B, 2> {
        B::fully_connected(rows, self.weight.val(), self.bias.val())
    }
}
