//! Residual networks (He et al. 2016): of basic blocks for 32×32 images, with one 3×3 convolution
//! of stride 1 first and no max-pool, and ResNet-50 as torchvision defines it, with a 7×7 stem of
//! stride 2, a max-pool, and bottlenecks.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use epochcost_architectures::models::resnet::{Layout, Stem};

use super::Network;
use super::residual::{Block, NormedConvolution};
use crate::layers::{Linear, Pass};
use crate::ops::{Features, LayerOps, PoolWindow, Window};
use crate::source::ParameterSource;

const POOL: PoolWindow = PoolWindow {
    side: 3,
    stride: 2,
    padding: 1,
    overhanging: false,
};

/// `[batch, 32, 32, 3]` to ten classes.
#[derive(Module, Debug)]
pub(crate) struct ResNet<B: Backend> {
    stem: NormedConvolution<B>,
    blocks: Vec<Block<B>>,
    classifier: Linear<B>,
    #[module(skip)]
    pooled: bool,
}

impl<B: LayerOps> Network<B> for ResNet<B> {
    type Layout = Layout;

    fn new(source: &mut ParameterSource<'_, B>, layout: Layout) -> Self {
        let pooled = layout.stem == Stem::ImageNet;
        let mut inputs = layout.width();
        let window = Window::centred(layout.stem.kernel(), if pooled { 2 } else { 1 });
        let stem = NormedConvolution::of_layout(source, layout, [3, inputs], window);
        let mut blocks = vec![];
        for (stage, &(width, count)) in layout.stages.iter().enumerate() {
            for block in 0..count {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                blocks.push(Block::new(source, layout, [inputs, width], stride));
                inputs = layout.expansion * width;
            }
        }
        Self {
            // Without a stride, a hundredth of a step's multiplications make a tenth of what it
            // would keep.
            stem: if pooled { stem } else { stem.made_again() },
            blocks,
            classifier: Linear::new(source, [inputs, 10]),
            pooled,
        }
    }

    fn forward(&self, images: Tensor<B, 4>, pass: &mut Pass<B>) -> Tensor<B, 2> {
        let stem = self.stem.forward(Features::plain(images), pass);
        let mut features = if self.pooled {
            Features::plain(B::max_pool(stem.rectified(), POOL))
        } else {
            B::activation(stem, None, true)
        };
        for block in &self.blocks {
            features = block.forward(features, pass);
        }
        self.classifier.forward(B::global_average(features.values))
    }
}
