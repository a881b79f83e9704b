//! What a network is to the training step.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::layers::Normalisation;
use crate::ops::LayerOps;
use crate::source::ParameterSource;

/// A classifier of images.
pub(crate) trait Network<B: LayerOps>: Module<B> {
    /// Builds the network, taking its tensors from the source in field order.
    fn new(source: &mut ParameterSource<'_>, device: &B::Device) -> Self;

    /// Class scores `[batch, classes]` of images `[batch, height, width, channels]`.
    ///
    /// Batch norms must be passed in field order: that is the order of the
    /// statistics in their flat vector.
    fn forward(&self, images: Tensor<B, 4>, normalisation: &mut Normalisation<B>) -> Tensor<B, 2>;
}

/// The mean of each channel's plane: `[batch, height, width, channels]` to
/// `[batch, channels]`.
pub(crate) fn global_average_pool<B: Backend>(features: Tensor<B, 4>) -> Tensor<B, 2> {
    let [batch, _, _, channels] = features.dims();
    features.mean_dim(1).mean_dim(2).reshape([batch, channels])
}
