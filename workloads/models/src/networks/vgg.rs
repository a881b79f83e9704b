//! VGG-11 (Simonyan and Zisserman 2015, configuration A): as torchvision defines it, with
//! three large linear layers, and with one small one for 32×32 images.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;
use epochcost_architectures::models::vgg::{CONVOLUTIONS, HIDDEN, SIDE};

use super::{Network, adaptive_average_pool};
use crate::layers::{BatchNorm, BiasedConvolution, Linear, Pass};
use crate::ops::{Features, LayerOps, PoolWindow, Window};
use crate::source::{Initial, ParameterSource};

/// Share of hidden values that dropout drops.
const DROPPED: f32 = 0.5;

const POOL: PoolWindow = PoolWindow {
    side: 2,
    stride: 2,
    padding: 0,
    overhanging: false,
};

/// VGG-11 as torchvision defines it: 128,807,306 parameters with ten classes, of
/// images of any size from 32×32 on.
#[derive(Module, Debug)]
pub(crate) struct Vgg11<B: Backend> {
    convolutions: [BiasedConvolution<B>; CONVOLUTIONS.len()],
    hidden: [Linear<B>; 2],
    classifier: Linear<B>,
}

impl<B: LayerOps> Network<B> for Vgg11<B> {
    /// Classes.
    type Layout = usize;

    fn new(source: &mut ParameterSource<'_, B>, classes: usize) -> Self {
        let window = Window::three(1);
        let mut inputs = 3;
        let convolutions = CONVOLUTIONS.map(|(outputs, _)| {
            let initial = [Initial::He(window.fan_out(outputs)), Initial::Zeros];
            let sizes = [inputs, outputs];
            inputs = outputs;
            BiasedConvolution::new(source, sizes, window, initial)
        });
        let initial = [Initial::Deviation(0.01), Initial::Zeros];
        let mut linear = |sizes| Linear::begun(source, sizes, initial);
        Self {
            convolutions,
            hidden: [
                linear([inputs * SIDE * SIDE, HIDDEN]),
                linear([HIDDEN, HIDDEN]),
            ],
            classifier: linear([HIDDEN, classes]),
        }
    }

    fn forward(&self, images: Tensor<B, 4>, pass: &mut Pass<B>) -> Tensor<B, 2> {
        let mut features = Features::plain(images);
        for (convolution, (_, pooled)) in self.convolutions.iter().zip(CONVOLUTIONS) {
            features = if pooled {
                Features::plain(convolution.pooled(features))
            } else {
                convolution.rectified(features)
            };
        }
        let seen = adaptive_average_pool(features.values, SIDE);
        // The first linear layer's weights are in PyTorch's order: channels first.
        let mut rows = B::channels_first(seen);
        for layer in &self.hidden {
            rows = pass.dropout(relu(layer.forward(rows)), DROPPED);
        }
        self.classifier.forward(rows)
    }
}

/// VGG-11 with batch norms and one linear layer: 9,231,114 parameters, `[batch, 32, 32, 3]`
/// to ten classes.
#[derive(Module, Debug)]
pub(crate) struct Vgg11Cifar<B: Backend> {
    convolutions: [Normed<B>; CONVOLUTIONS.len()],
    classifier: Linear<B>,
}

/// A convolution with a bias, and then a batch norm.
#[derive(Module, Debug)]
struct Normed<B: Backend> {
    convolution: BiasedConvolution<B>,
    norm: BatchNorm<B>,
}

impl<B: LayerOps> Network<B> for Vgg11Cifar<B> {
    type Layout = ();

    fn new(source: &mut ParameterSource<'_, B>, (): ()) -> Self {
        let window = Window::three(1);
        let mut inputs = 3;
        let convolutions = CONVOLUTIONS.map(|(outputs, _)| {
            let initial = Initial::Uniform(window.fan_in(inputs));
            let sizes = [inputs, outputs];
            inputs = outputs;
            Normed {
                convolution: BiasedConvolution::new(source, sizes, window, [initial; 2]),
                norm: BatchNorm::new(source, outputs),
            }
        });
        Self {
            convolutions,
            classifier: Linear::new(source, [inputs, 10]),
        }
    }

    fn forward(&self, images: Tensor<B, 4>, pass: &mut Pass<B>) -> Tensor<B, 2> {
        let mut features = Features::plain(images);
        for (layer, (_, pooled)) in self.convolutions.iter().zip(CONVOLUTIONS) {
            let Normed { convolution, norm } = layer;
            features = convolution.normed(features, norm, pass).rectified();
            if pooled {
                features = Features::plain(B::max_pool(features, POOL));
            }
        }
        let [batch, _, _, channels] = features.values.dims();
        self.classifier
            .forward(features.values.reshape([batch, channels]))
    }
}
