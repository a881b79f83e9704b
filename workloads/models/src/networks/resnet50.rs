//! ResNet-50 (He et al. 2016) as torchvision defines it: a 7×7 stem of stride 2, a
//! max-pool, and bottlenecks.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use epochcost_architectures::models::resnet::{BOTTLENECK_STEM, BOTTLENECKS, EXPANSION, Stem};

use super::Network;
use super::residual::{Bottleneck, NormedConvolution};
use crate::layers::{Linear, Pass};
use crate::ops::{Features, LayerOps, PoolWindow, Window};
use crate::source::ParameterSource;

const POOL: PoolWindow = PoolWindow {
    side: 3,
    stride: 2,
    padding: 1,
    overhanging: false,
};

/// 23,528,522 parameters, `[batch, 32, 32, 3]` to ten classes.
#[derive(Module, Debug)]
pub(crate) struct ResNet50<B: Backend> {
    stem: NormedConvolution<B>,
    blocks: Vec<Bottleneck<B>>,
    classifier: Linear<B>,
}

impl<B: LayerOps> Network<B> for ResNet50<B> {
    type Layout = ();

    fn new(source: &mut ParameterSource<'_>, (): (), device: &B::Device) -> Self {
        let window = Window::centred(Stem::ImageNet.kernel(), 2);
        let mut inputs = BOTTLENECK_STEM;
        let stem = NormedConvolution::by_fan_out(source, [3, inputs], window, device);
        let mut blocks = vec![];
        for (stage, &(width, count)) in BOTTLENECKS.iter().enumerate() {
            for block in 0..count {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                blocks.push(Bottleneck::new(source, [inputs, width], stride, device));
                inputs = EXPANSION * width;
            }
        }
        Self {
            stem,
            blocks,
            classifier: Linear::new(source, [inputs, 10], device),
        }
    }

    fn forward(&self, images: Tensor<B, 4>, pass: &mut Pass<B>) -> Tensor<B, 2> {
        let stem = self.stem.forward(Features::plain(images), pass).rectified();
        let mut features = Features::plain(B::max_pool(stem, POOL));
        for block in &self.blocks {
            features = block.forward(features, pass);
        }
        self.classifier.forward(B::global_average(features.values))
    }
}
