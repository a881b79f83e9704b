//! LeNet-5 (LeCun et al. 1998) as it is trained today: padded 5×5 convolutions,
//! ReLU and 2×2 max-pools where the original has sigmoids and averages.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;
use burn::tensor::module::max_pool2d;

use crate::layers::{Convolution, Linear, Normalisation};
use crate::network::Network;
use crate::ops::{ConvolutionOps, Window};
use crate::source::ParameterSource;

/// 61,706 parameters, `[batch, 28, 28, 1]` to ten classes.
#[derive(Module, Debug)]
pub(crate) struct LeNet5<B: Backend> {
    first: Convolution<B>,
    second: Convolution<B>,
    hidden: [Linear<B>; 2],
    classifier: Linear<B>,
}

impl<B: ConvolutionOps> Network<B> for LeNet5<B> {
    fn new(source: &mut ParameterSource<'_>, device: &B::Device) -> Self {
        Self {
            first: Convolution::with_bias(source, [1, 6], Window::five(2), device),
            second: Convolution::with_bias(source, [6, 16], Window::five(0), device),
            hidden: [
                Linear::new(source, [16 * 5 * 5, 120], device),
                Linear::new(source, [120, 84], device),
            ],
            classifier: Linear::new(source, [84, 10], device),
        }
    }

    fn forward(&self, images: Tensor<B, 4>, _: &mut Normalisation<B>) -> Tensor<B, 2> {
        let features = rectify_and_pool(self.first.forward(images));
        let features = rectify_and_pool(self.second.forward(features));
        // The first linear layer's weights are in PyTorch's order: channels first.
        let mut rows = features.permute([0, 3, 1, 2]).flatten(1, 3);
        for layer in &self.hidden {
            rows = relu(layer.forward(rows));
        }
        self.classifier.forward(rows)
    }
}

/// ReLU and then the maximum of each 2×2 window: `[batch, 2h, 2w, channels]` to
/// `[batch, h, w, channels]`. The two commute; the pool first leaves a quarter of the
/// values to the ReLU.
fn rectify_and_pool<B: Backend>(features: Tensor<B, 4>) -> Tensor<B, 4> {
    let planes = features.permute([0, 3, 1, 2]);
    let pooled = max_pool2d(planes, [2, 2], [2, 2], [0, 0], [1, 1], false);
    relu(pooled).permute([0, 2, 3, 1])
}
