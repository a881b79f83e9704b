//! What a network is to the training step.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::layers::Pass;
use crate::ops::LayerOps;
use crate::source::ParameterSource;

/// A classifier of images.
pub(crate) trait Network<B: LayerOps>: Module<B> {
    /// Share of the batch's statistics in the new running statistics.
    const MOMENTUM: f32 = 0.1;

    /// Difference between the models of one network.
    type Layout: Copy + Send + 'static;

    /// Builds the network, taking its tensors from the source in field order.
    fn new(source: &mut ParameterSource<'_, B>, layout: Self::Layout) -> Self;

    /// Class scores `[batch, classes]` of images `[batch, height, width, channels]`.
    ///
    /// Batch norms must be passed in field order: that is the order of the
    /// statistics in their flat vector.
    fn forward(&self, images: Tensor<B, 4>, pass: &mut Pass<B>) -> Tensor<B, 2>;
}

/// The means of `side`×`side` parts of each channel's plane, as PyTorch's
/// `adaptive_avg_pool2d` cuts it: parts overlap where the plane has no multiple of `side`
/// pixels, and repeat pixels where it has fewer.
pub(crate) fn adaptive_average_pool<B: Backend>(
    features: Tensor<B, 4>,
    side: usize,
) -> Tensor<B, 4> {
    let [_, height, width, _] = features.dims();
    if [height, width] == [side; 2] {
        return features;
    }
    let along = |features: Tensor<B, 4>, axis: usize, length: usize| {
        let parts = (0..side).map(|part| {
            let (start, end) = (part * length / side, ((part + 1) * length).div_ceil(side));
            features
                .clone()
                .narrow(axis, start, end - start)
                .mean_dim(axis)
        });
        Tensor::cat(parts.collect(), axis)
    };
    let rows = along(features, 1, height);
    along(rows, 2, width)
}
