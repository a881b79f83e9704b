//! MobileNet for 32×32 images: a 3×3 stem, 13 depthwise-separable blocks, average
//! pool and one linear layer (Howard et al. 2017, with the strides of its CIFAR
//! variant).

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use epochcost_architectures::models::mobilenet::{BLOCKS, STEM};

use super::Network;
use crate::layers::{BatchNorm, Convolution, Linear, Pass};
use crate::ops::{Features, LayerOps, Window};
use crate::source::ParameterSource;

/// 3,217,226 parameters, `[batch, 32, 32, 3]` to ten classes.
#[derive(Module, Debug)]
pub(crate) struct MobileNet<B: Backend> {
    stem: Convolution<B>,
    stem_norm: BatchNorm<B>,
    blocks: Vec<Block<B>>,
    classifier: Linear<B>,
}

/// A 3×3 depthwise convolution, then a 1×1 convolution across channels.
#[derive(Module, Debug)]
struct Block<B: Backend> {
    depthwise: Convolution<B>,
    depthwise_norm: BatchNorm<B>,
    pointwise: Convolution<B>,
    pointwise_norm: BatchNorm<B>,
}

impl<B: LayerOps> Network<B> for MobileNet<B> {
    type Layout = ();

    fn new(source: &mut ParameterSource<'_>, (): (), device: &B::Device) -> Self {
        let stem = Convolution::new(source, [3, STEM], Window::three(1), device);
        let stem_norm = BatchNorm::new(source, STEM, device);
        let mut inputs = STEM;
        let blocks = BLOCKS
            .iter()
            .map(|&(outputs, stride)| {
                let block = Block::new(source, [inputs, outputs], stride, device);
                inputs = outputs;
                block
            })
            .collect();
        Self {
            stem,
            stem_norm,
            blocks,
            classifier: Linear::new(source, [inputs, 10], device),
        }
    }

    fn forward(&self, images: Tensor<B, 4>, pass: &mut Pass<B>) -> Tensor<B, 2> {
        let images = Features::plain(images);
        let stem = self.stem.forward_normed(images, &self.stem_norm, pass);
        let mut features = stem.rectified();
        for block in &self.blocks {
            features = block.forward(features, pass);
        }
        let features = B::activation(features, None, false);
        self.classifier.forward(B::global_average(features.values))
    }
}

impl<B: LayerOps> Block<B> {
    fn new(
        source: &mut ParameterSource<'_>,
        [inputs, outputs]: [usize; 2],
        stride: usize,
        device: &B::Device,
    ) -> Self {
        let depthwise = Window::three(stride).groups(inputs);
        Self {
            depthwise: Convolution::new(source, [inputs, inputs], depthwise, device),
            depthwise_norm: BatchNorm::new(source, inputs, device),
            pointwise: Convolution::new(source, [inputs, outputs], Window::one(1), device),
            pointwise_norm: BatchNorm::new(source, outputs, device),
        }
    }

    fn forward(&self, features: Features<B>, pass: &mut Pass<B>) -> Features<B> {
        let features = self
            .depthwise
            .forward_normed(features, &self.depthwise_norm, pass)
            .rectified();
        self.pointwise
            .forward_normed(features, &self.pointwise_norm, pass)
            .rectified()
    }
}
