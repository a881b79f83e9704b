//! LeNet-5 (LeCun et al. 1998) as it is trained today: padded 5×5 convolutions,
//! ReLU and 2×2 max-pools where the original has sigmoids and averages.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;

use super::Network;
use crate::layers::{BiasedPool, Convolution, Linear, Pass};
use crate::ops::{LayerOps, Window};
use crate::source::{Initial, ParameterSource};

/// 61,706 parameters, `[batch, 28, 28, 1]` to ten classes.
#[derive(Module, Debug)]
pub(crate) struct LeNet5<B: Backend> {
    first: Convolution<B>,
    first_pool: BiasedPool<B>,
    second: Convolution<B>,
    second_pool: BiasedPool<B>,
    hidden: [Linear<B>; 2],
    classifier: Linear<B>,
}

impl<B: LayerOps> Network<B> for LeNet5<B> {
    type Layout = ();

    fn new(source: &mut ParameterSource<'_>, (): (), device: &B::Device) -> Self {
        let bias = |window: Window, inputs| Initial::Uniform {
            fan_in: window.fan_in(inputs),
        };
        Self {
            first: Convolution::new(source, [1, 6], Window::five(2), device),
            first_pool: BiasedPool::new(source, 6, bias(Window::five(2), 1), device),
            second: Convolution::new(source, [6, 16], Window::five(0), device),
            second_pool: BiasedPool::new(source, 16, bias(Window::five(0), 6), device),
            hidden: [
                Linear::new(source, [16 * 5 * 5, 120], device),
                Linear::new(source, [120, 84], device),
            ],
            classifier: Linear::new(source, [84, 10], device),
        }
    }

    fn forward(&self, images: Tensor<B, 4>, _: &mut Pass<B>) -> Tensor<B, 2> {
        let features = self.first_pool.forward(self.first.forward(images));
        let features = self.second_pool.forward(self.second.forward(features));
        // The first linear layer's weights are in PyTorch's order: channels first.
        let mut rows = B::channels_first(features);
        for layer in &self.hidden {
            rows = relu(layer.forward(rows));
        }
        self.classifier.forward(rows)
    }
}
