//! ResNet-18 (He et al. 2016) with the stem for 32×32 images: one 3×3 convolution
//! of stride 1 and no max-pool.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::layers::{BatchNorm, Convolution, Linear, Normalisation};
use crate::network::{Network, global_average_pool};
use crate::ops::{Features, LayerOps, Window};
use crate::source::ParameterSource;

/// Output channels and stride of each block: two blocks a stage.
const BLOCKS: [(usize, usize); 8] = [
    (64, 1),
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    (512, 1),
];

/// 11,173,962 parameters, `[batch, 32, 32, 3]` to ten classes.
#[derive(Module, Debug)]
pub(crate) struct ResNet18<B: Backend> {
    stem: Convolution<B>,
    stem_norm: BatchNorm<B>,
    blocks: Vec<Block<B>>,
    classifier: Linear<B>,
}

/// Two 3×3 convolutions beside a shortcut.
#[derive(Module, Debug)]
struct Block<B: Backend> {
    first: Convolution<B>,
    first_norm: BatchNorm<B>,
    second: Convolution<B>,
    second_norm: BatchNorm<B>,
    shortcut: Option<Projection<B>>,
}

/// The shortcut of a block that changes the shape: a 1×1 convolution.
#[derive(Module, Debug)]
struct Projection<B: Backend> {
    convolution: Convolution<B>,
    norm: BatchNorm<B>,
}

impl<B: LayerOps> Network<B> for ResNet18<B> {
    fn new(source: &mut ParameterSource<'_>, device: &B::Device) -> Self {
        // A hundredth of a step's multiplications make a tenth of what it would keep.
        let stem = Convolution::new(source, [3, 64], Window::three(1), device).made_again();
        let stem_norm = BatchNorm::new(source, 64, device);
        let mut inputs = 64;
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

    fn forward(&self, images: Tensor<B, 4>, normalisation: &mut Normalisation<B>) -> Tensor<B, 2> {
        let images = Features::plain(images);
        let stem = self
            .stem
            .forward_normed(images, &self.stem_norm, normalisation);
        let mut features = B::activation(stem, None);
        for block in &self.blocks {
            features = block.forward(features, normalisation);
        }
        self.classifier
            .forward(global_average_pool(features.values))
    }
}

impl<B: LayerOps> Block<B> {
    fn new(
        source: &mut ParameterSource<'_>,
        [inputs, outputs]: [usize; 2],
        stride: usize,
        device: &B::Device,
    ) -> Self {
        let changes_shape = stride != 1 || inputs != outputs;
        Self {
            first: Convolution::new(source, [inputs, outputs], Window::three(stride), device),
            first_norm: BatchNorm::new(source, outputs, device),
            second: Convolution::new(source, [outputs, outputs], Window::three(1), device),
            second_norm: BatchNorm::new(source, outputs, device),
            shortcut: changes_shape.then(|| Projection {
                convolution: Convolution::new(
                    source,
                    [inputs, outputs],
                    Window::one(stride),
                    device,
                ),
                norm: BatchNorm::new(source, outputs, device),
            }),
        }
    }

    fn forward(&self, input: Features<B>, normalisation: &mut Normalisation<B>) -> Features<B> {
        let features = self
            .first
            .forward_normed(input.clone(), &self.first_norm, normalisation)
            .rectified();
        let features = self
            .second
            .forward_normed(features, &self.second_norm, normalisation);
        let shortcut = match &self.shortcut {
            Some(Projection { convolution, norm }) => {
                convolution.forward_normed(input, norm, normalisation)
            }
            None => input,
        };
        B::activation(features, Some(shortcut))
    }
}
