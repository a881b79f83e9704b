//! Residual networks of basic blocks for 32×32 images (He et al. 2016): one 3×3
//! convolution of stride 1 first, and no max-pool.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::layers::{Linear, Pass};
use crate::network::{Network, global_average_pool};
use crate::ops::{Features, LayerOps, Window};
use crate::residual::{BasicBlock, NormedConvolution, Shortcut};
use crate::source::ParameterSource;

/// What a residual network is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Channels and blocks of each stage; the first block of each but the first has
    /// stride 2.
    stages: &'static [(usize, usize)],
    shortcut: Shortcut,
}

/// He et al. 2016, Table 1: 11,173,962 parameters.
pub(crate) const RESNET18: Layout = Layout {
    stages: &[(64, 2), (128, 2), (256, 2), (512, 2)],
    shortcut: Shortcut::Projected,
};

/// He et al. 2016, Table 1: 21,282,122 parameters.
pub(crate) const RESNET34: Layout = Layout {
    stages: &[(64, 3), (128, 4), (256, 6), (512, 3)],
    shortcut: Shortcut::Projected,
};

/// He et al. 2016, §4.2, n = 5: 464,154 parameters.
pub(crate) const RESNET32: Layout = Layout {
    stages: &[(16, 5), (32, 5), (64, 5)],
    shortcut: Shortcut::Padded,
};

/// `[batch, 32, 32, 3]` to ten classes.
#[derive(Module, Debug)]
pub(crate) struct ResNet<B: Backend> {
    stem: NormedConvolution<B>,
    blocks: Vec<BasicBlock<B>>,
    classifier: Linear<B>,
}

impl<B: LayerOps> Network<B> for ResNet<B> {
    type Layout = Layout;

    fn new(source: &mut ParameterSource<'_>, layout: Layout, device: &B::Device) -> Self {
        let Layout { stages, shortcut } = layout;
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
        self.classifier
            .forward(global_average_pool(features.values))
    }
}
