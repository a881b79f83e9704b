//! Residual networks of basic blocks for 32×32 images (He et al. 2016): one 3×3
//! convolution of stride 1 first, and no max-pool.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use epochcost_architectures::models::resnet::Basic;

use super::Network;
use super::residual::{BasicBlock, NormedConvolution};
use crate::layers::{Linear, Pass};
use crate::ops::{Features, LayerOps, Window};
use crate::source::ParameterSource;

/// `[batch, 32, 32, 3]` to ten classes.
#[derive(Module, Debug)]
pub(crate) struct ResNet<B: Backend> {
    stem: NormedConvolution<B>,
    blocks: Vec<BasicBlock<B>>,
    classifier: Linear<B>,
}

impl<B: LayerOps> Network<B> for ResNet<B> {
    type Layout = Basic;

    fn new(source: &mut ParameterSource<'_>, layout: Basic, device: &B::Device) -> Self {
        let Basic { stages, shortcut } = layout;
        let mut inputs = stages[0].0;
        let stem = NormedConvolution::new(source, [3, inputs], Window::three(1), device);
        let mut blocks = vec![];
        for (stage, &(outputs, count)) in stages.iter().enumerate() {
            for block in 0..count {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                let sizes = [inputs, outputs];
                blocks.push(BasicBlock::new(source, sizes, stride, shortcut, device));
                inputs = outputs;
            }
        }
        Self {
            // A hundredth of a step's multiplications make a tenth of what it would keep.
            stem: stem.made_again(),
            blocks,
            classifier: Linear::new(source, [inputs, 10], device),
        }
    }

    fn forward(&self, images: Tensor<B, 4>, pass: &mut Pass<B>) -> Tensor<B, 2> {
        let stem = self.stem.forward(Features::plain(images), pass);
        let mut features = B::activation(stem, None, true);
        for block in &self.blocks {
            features = block.forward(features, pass);
        }
        self.classifier.forward(B::global_average(features.values))
    }
}
