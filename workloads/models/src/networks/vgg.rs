//! VGG-11 (Simonyan and Zisserman 2015, configuration A): as torchvision defines it, with
//! three large linear layers, and with one small one for 32×32 images.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;
use epochcost_architectures::models::vgg::{CONVOLUTIONS, HIDDEN, SIDE};

use super::{Network, adaptive_average_pool};
use crate::layers::{BatchNorm, Bias, BiasedPool, Convolution, Linear, Pass, RectifiedConvolution};
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
    stages: Vec<Stage<B>>,
    hidden: [Linear<B>; 2],
    classifier: Linear<B>,
}

/// Convolutions up to a max-pool.
#[derive(Module, Debug)]
struct Stage<B: Backend> {
    first: Option<RectifiedConvolution<B>>,
    last: Convolution<B>,
    pool: BiasedPool<B>,
}

impl<B: LayerOps> Network<B> for Vgg11<B> {
    /// Classes.
    type Layout = usize;

    fn new(source: &mut ParameterSource<'_>, classes: usize, device: &B::Device) -> Self {
        let window = Window::three(1);
        let mut inputs = 3;
        // A stage ends with a max-pool, which takes the bias of the convolution before it.
        let mut first = None;
        let mut stages = vec![];
        for (outputs, pooled) in CONVOLUTIONS {
            let sizes = [inputs, outputs];
            let initial = Initial::He {
                fan: window.fan_out(outputs),
            };
            inputs = outputs;
            if pooled {
                stages.push(Stage {
                    first: first.take(),
                    last: Convolution::begun(source, sizes, window, initial, device),
                    pool: BiasedPool::new(source, outputs, Initial::Zeros, device),
                });
            } else {
                let convolution = RectifiedConvolution::new(source, sizes, window, initial, device);
                first = Some(convolution);
            }
        }
        // The classifier.
        let initial = [Initial::Deviation(0.01), Initial::Zeros];
        let mut linear = |sizes| Linear::begun(source, sizes, initial, device);
        Self {
            stages,
            hidden: [
                linear([inputs * SIDE * SIDE, HIDDEN]),
                linear([HIDDEN, HIDDEN]),
            ],
            classifier: linear([HIDDEN, classes]),
        }
    }

    fn forward(&self, images: Tensor<B, 4>, pass: &mut Pass<B>) -> Tensor<B, 2> {
        let mut images = images;
        for stage in &self.stages {
            let features = Features::plain(images);
            let features = match &stage.first {
                Some(first) => first.forward(features),
                None => features,
            };
            let features = stage.last.forward_features(features);
            images = stage.pool.forward(features.values);
        }
        let seen = adaptive_average_pool(images, SIDE);
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
    convolutions: Vec<Normed<B>>,
    classifier: Linear<B>,
}

/// A convolution with a bias, and then a batch norm.
#[derive(Module, Debug)]
struct Normed<B: Backend> {
    convolution: Convolution<B>,
    bias: Bias<B>,
    norm: BatchNorm<B>,
}

impl<B: LayerOps> Network<B> for Vgg11Cifar<B> {
    type Layout = ();

    fn new(source: &mut ParameterSource<'_>, (): (), device: &B::Device) -> Self {
        let window = Window::three(1);
        let mut inputs = 3;
        let convolutions = CONVOLUTIONS
            .iter()
            .map(|&(outputs, _)| {
                let initial = Initial::Uniform {
                    fan_in: window.fan_in(inputs),
                };
                let convolution = Convolution::new(source, [inputs, outputs], window, device);
                inputs = outputs;
                Normed {
                    convolution,
                    bias: Bias::new(source, outputs, initial, device),
                    norm: BatchNorm::new(source, outputs, device),
                }
            })
            .collect();
        Self {
            convolutions,
            classifier: Linear::new(source, [inputs, 10], device),
        }
    }

    fn forward(&self, images: Tensor<B, 4>, pass: &mut Pass<B>) -> Tensor<B, 2> {
        let mut features = Features::plain(images);
        for (layer, &(_, pooled)) in self.convolutions.iter().zip(&CONVOLUTIONS) {
            let Normed {
                convolution,
                bias,
                norm,
            } = layer;
            features = convolution
                .forward_biased_and_normed(features, bias, norm, pass)
                .rectified();
            if pooled {
                features = Features::plain(B::max_pool(features, POOL));
            }
        }
        let [batch, _, _, channels] = features.values.dims();
        self.classifier
            .forward(features.values.reshape([batch, channels]))
    }
}
