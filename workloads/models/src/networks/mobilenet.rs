//! MobileNet for 32×32 images: a 3×3 stem, 13 depthwise-separable blocks, average
//! pool and one linear layer (Howard et al. 2017, with the strides of its CIFAR
//! variant).

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use epochcost_architectures::models::mobilenet::{BLOCKS, STEM};

use super::Network;
use super::residual::NormedConvolution;
use crate::layers::{Linear, Pass};
use crate::ops::{Features, LayerOps, Window};
use crate::source::ParameterSource;

/// 3,217,226 parameters, `[batch, 32, 32, 3]` to ten classes.
#[derive(Module, Debug)]
pub(crate) struct MobileNet<B: Backend> {
    /// The stem, and each block's 3×3 depthwise convolution and 1×1 convolution across channels.
    convolutions: Vec<NormedConvolution<B>>,
    classifier: Linear<B>,
}

impl<B: LayerOps> Network<B> for MobileNet<B> {
    type Layout = ();

    fn new(source: &mut ParameterSource<'_, B>, (): ()) -> Self {
        let mut convolutions = vec![];
        let mut next = |sizes, window| {
            convolutions.push(NormedConvolution::new(source, sizes, window));
        };
        next([3, STEM], Window::three(1));
        let mut inputs = STEM;
        for (outputs, stride) in BLOCKS {
            next([inputs, inputs], Window::three(stride).groups(inputs));
            next([inputs, outputs], Window::one(1));
            inputs = outputs;
        }
        Self {
            convolutions,
            classifier: Linear::new(source, [inputs, 10]),
        }
    }

    fn forward(&self, images: Tensor<B, 4>, pass: &mut Pass<B>) -> Tensor<B, 2> {
        let mut features = Features::plain(images);
        for convolution in &self.convolutions {
            features = convolution.forward(features, pass).rectified();
        }
        let features = B::activation(features, None, false);
        self.classifier.forward(B::global_average(features.values))
    }
}
