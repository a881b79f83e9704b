//! LeNet-5 (LeCun et al. 1998) as it is trained today: padded 5×5 convolutions,
//! ReLU and 2×2 max-pools where the original has sigmoids and averages.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;

use super::Network;
use crate::layers::{BiasedConvolution, Linear, Pass};
use crate::ops::{Features, LayerOps, Window};
use crate::source::{Initial, ParameterSource};

/// 61,706 parameters, `[batch, 28, 28, 1]` to ten classes.
#[derive(Module, Debug)]
pub(crate) struct LeNet5<B: Backend> {
    convolutions: [BiasedConvolution<B>; 2],
    hidden: [Linear<B>; 2],
    classifier: Linear<B>,
}

impl<B: LayerOps> Network<B> for LeNet5<B> {
    type Layout = ();

    fn new(source: &mut ParameterSource<'_, B>, (): ()) -> Self {
        let mut convolution = |sizes: [usize; 2], window: Window| {
            let initial = Initial::Uniform(window.fan_in(sizes[0]));
            BiasedConvolution::new(source, sizes, window, [initial; 2])
        };
        Self {
            convolutions: [
                convolution([1, 6], Window::five(2)),
                convolution([6, 16], Window::five(0)),
            ],
            hidden: [
                Linear::new(source, [16 * 5 * 5, 120]),
                Linear::new(source, [120, 84]),
            ],
            classifier: Linear::new(source, [84, 10]),
        }
    }

    fn forward(&self, images: Tensor<B, 4>, _: &mut Pass<B>) -> Tensor<B, 2> {
        let mut images = images;
        for convolution in &self.convolutions {
            images = convolution.pooled(Features::plain(images));
        }
        // The first linear layer's weights are in PyTorch's order: channels first.
        let mut rows = B::channels_first(images);
        for layer in &self.hidden {
            rows = relu(layer.forward(rows));
        }
        self.classifier.forward(rows)
    }
}
