//! SqueezeNet 1.1 (Iandola et al. 2016) as torchvision defines it: fire modules instead of
//! wide 3×3 convolutions, and class scores from a 1×1 convolution.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use epochcost_architectures::models::squeezenet::{self as described, FIRES, STEM};

use super::Network;
use crate::layers::{BiasedConvolution, Pass};
use crate::ops::{Features, LayerOps, PoolWindow, Window};
use crate::source::{Initial, ParameterSource};

const POOL: PoolWindow = PoolWindow {
    side: 3,
    stride: 2,
    padding: 0,
    overhanging: true,
};

/// Share of the last features that dropout drops.
const DROPPED: f32 = 0.5;

/// 727,626 parameters, `[batch, 32, 32, 3]` to ten classes.
#[derive(Module, Debug)]
pub(crate) struct SqueezeNet<B: Backend> {
    stem: BiasedConvolution<B>,
    fires: Vec<Fire<B>>,
    classifier: BiasedConvolution<B>,
}

/// A 1×1 convolution to few channels, and from those a 1×1 and a 3×3 one side by side.
#[derive(Module, Debug)]
struct Fire<B: Backend> {
    squeeze: BiasedConvolution<B>,
    expand_one: BiasedConvolution<B>,
    expand_three: BiasedConvolution<B>,
}

impl<B: LayerOps> Network<B> for SqueezeNet<B> {
    type Layout = ();

    fn new(source: &mut ParameterSource<'_, B>, (): ()) -> Self {
        let stem = convolution(source, [3, STEM], Window::three_within(2));
        let mut inputs = STEM;
        let fires = FIRES
            .iter()
            .map(|described| {
                let fire = Fire::new(source, inputs, described);
                inputs = 2 * described.expanded;
                fire
            })
            .collect();
        let initial = [Initial::Deviation(0.01), Initial::Zeros];
        Self {
            stem,
            fires,
            classifier: BiasedConvolution::new(source, [inputs, 10], Window::one(1), initial),
        }
    }

    fn forward(&self, images: Tensor<B, 4>, pass: &mut Pass<B>) -> Tensor<B, 2> {
        let mut features = self.stem.rectified(Features::plain(images));
        for (fire, described) in self.fires.iter().zip(&FIRES) {
            if described.pooled {
                features = Features::plain(B::max_pool(features, POOL));
            }
            features = fire.forward(features);
        }
        let features = B::activation(features, None, false).values;
        let dims = features.dims();
        let [batch, height, width, channels] = dims;
        let rows = features.reshape([batch, height * width * channels]);
        let features = pass.dropout(rows, DROPPED).reshape(dims);
        let scores = self.classifier.rectified(Features::plain(features));
        B::global_average(B::activation(scores, None, false).values)
    }
}

impl<B: LayerOps> Fire<B> {
    fn new(
        source: &mut ParameterSource<'_, B>,
        inputs: usize,
        described: &described::Fire,
    ) -> Self {
        let &described::Fire {
            squeezed, expanded, ..
        } = described;
        Self {
            squeeze: convolution(source, [inputs, squeezed], Window::one(1)),
            expand_one: convolution(source, [squeezed, expanded], Window::one(1)),
            expand_three: convolution(source, [squeezed, expanded], Window::three(1)),
        }
    }

    fn forward(&self, features: Features<B>) -> Features<B> {
        let squeezed = self.squeeze.rectified(features);
        let expansions = [&self.expand_one, &self.expand_three];
        BiasedConvolution::rectified_side_by_side(expansions, &squeezed)
    }
}

fn convolution<B: LayerOps>(
    source: &mut ParameterSource<'_, B>,
    sizes: [usize; 2],
    window: Window,
) -> BiasedConvolution<B> {
    let initial = [Initial::He(window.fan_in(sizes[0])), Initial::Zeros];
    BiasedConvolution::new(source, sizes, window, initial)
}
