//! MobileNet V3 Small (Howard et al. 2019, Table 2) as torchvision defines it: inverted
//! residuals, some with squeeze-and-excite, and hard swish.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;
use epochcost_architectures::models::mobilenet_v3::{
    self as described, BLOCKS, HIDDEN, LAST_EXPANSION, STEM,
};

use super::Network;
use super::residual::NormedConvolution;
use crate::layers::{Linear, Pass};
use crate::ops::Function::HardSwish;
use crate::ops::{Features, Function, LayerOps, Window};
use crate::source::{Initial, ParameterSource};

/// Added to each variance; PyTorch's own default is a hundredth of it.
const EPSILON: f64 = 1e-3;

/// Share of the classifier's hidden values that dropout drops.
const DROPPED: f32 = 0.2;

/// 1,528,106 parameters, `[batch, 32, 32, 3]` to ten classes.
#[derive(Module, Debug)]
pub(crate) struct MobileNetV3Small<B: Backend> {
    stem: NormedConvolution<B>,
    blocks: Vec<Block<B>>,
    last: NormedConvolution<B>,
    hidden: Linear<B>,
    classifier: Linear<B>,
}

/// An inverted residual: a 1×1 convolution to more channels, a depthwise one, and a 1×1
/// to few, beside a shortcut where the shape stays.
#[derive(Module, Debug)]
struct Block<B: Backend> {
    expand: Option<NormedConvolution<B>>,
    depthwise: NormedConvolution<B>,
    excite: Option<Excite<B>>,
    project: NormedConvolution<B>,
    /// The function between its convolutions.
    #[module(skip)]
    then: Function,
    #[module(skip)]
    keeps_shape: bool,
}

/// Squeeze-and-excite (Hu et al. 2018): each channel times a share that the means of all
/// channels decide.
#[derive(Module, Debug)]
struct Excite<B: Backend> {
    squeeze: Linear<B>,
    expand: Linear<B>,
}

impl<B: LayerOps> Network<B> for MobileNetV3Small<B> {
    const MOMENTUM: f32 = 0.01;

    type Layout = ();

    fn new(source: &mut ParameterSource<'_, B>, (): ()) -> Self {
        let stem = convolution(source, [3, STEM], Window::three(2));
        let mut inputs = STEM;
        let blocks = BLOCKS
            .iter()
            .map(|described| {
                let block = Block::new(source, inputs, described);
                inputs = described.outputs;
                block
            })
            .collect();
        let features = LAST_EXPANSION * inputs;
        let initial = [Initial::Deviation(0.01), Initial::Zeros];
        Self {
            stem,
            blocks,
            last: convolution(source, [inputs, features], Window::one(1)),
            hidden: Linear::begun(source, [features, HIDDEN], initial),
            classifier: Linear::begun(source, [HIDDEN, 10], initial),
        }
    }

    fn forward(&self, images: Tensor<B, 4>, pass: &mut Pass<B>) -> Tensor<B, 2> {
        let stem = self.stem.forward(Features::plain(images), pass);
        let mut features = stem.then(HardSwish);
        for block in &self.blocks {
            features = block.forward(features, pass);
        }
        let features = self.last.forward(features, pass).then(HardSwish);
        let features = B::activation(features, None, false).values;
        let hidden = self.hidden.forward(B::global_average(features));
        let hidden = hidden.clone() * B::hard_sigmoids(hidden);
        self.classifier.forward(pass.dropout(hidden, DROPPED))
    }
}

impl<B: LayerOps> Block<B> {
    fn new(
        source: &mut ParameterSource<'_, B>,
        inputs: usize,
        described: &described::Block,
    ) -> Self {
        let &described::Block {
            kernel,
            expanded,
            outputs,
            squeezed,
            then,
            stride,
        } = described;
        let within = Window::centred(kernel, stride).groups(expanded);
        let one = Window::one(1);
        Self {
            expand: (expanded != inputs).then(|| convolution(source, [inputs, expanded], one)),
            depthwise: convolution(source, [expanded, expanded], within),
            excite: (squeezed > 0).then(|| Excite::new(source, [expanded, squeezed])),
            project: convolution(source, [expanded, outputs], one),
            then,
            keeps_shape: stride == 1 && inputs == outputs,
        }
    }

    fn forward(&self, input: Features<B>, pass: &mut Pass<B>) -> Features<B> {
        let then = self.then;
        // Read twice: by the block and by its sum.
        let input = if self.keeps_shape && input.norm.is_some() {
            B::activation(input, None, false)
        } else {
            input
        };
        let mut features = input.clone();
        if let Some(expand) = &self.expand {
            features = expand.forward(features, pass).then(then);
        }
        features = self.depthwise.forward(features, pass).then(then);
        if let Some(excite) = &self.excite {
            features = excite.forward(features);
        }
        let features = self.project.forward(features, pass);
        if self.keeps_shape {
            B::activation(features, Some(input), false)
        } else {
            features
        }
    }
}

impl<B: LayerOps> Excite<B> {
    fn new(source: &mut ParameterSource<'_, B>, [channels, squeezed]: [usize; 2]) -> Self {
        let mut next = |[inputs, outputs]: [usize; 2]| {
            let initial = [Initial::He(outputs), Initial::Zeros];
            Linear::begun(source, [inputs, outputs], initial)
        };
        Self {
            squeeze: next([channels, squeezed]),
            expand: next([squeezed, channels]),
        }
    }

    fn forward(&self, features: Features<B>) -> Features<B> {
        let values = B::activation(features, None, false).values;
        let squeezed = relu(self.squeeze.forward(B::global_average(values.clone())));
        let shares = B::hard_sigmoids(self.expand.forward(squeezed));
        Features::plain(B::excite(values, shares))
    }
}

fn convolution<B: LayerOps>(
    source: &mut ParameterSource<'_, B>,
    sizes: [usize; 2],
    window: Window,
) -> NormedConvolution<B> {
    NormedConvolution::by_fan_out(source, sizes, window).with_epsilon(EPSILON)
}
