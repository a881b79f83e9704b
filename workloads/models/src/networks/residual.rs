//! The blocks of residual networks (He et al. 2016): convolutions beside a shortcut.

use burn::module::Module;
use burn::tensor::backend::Backend;
use burn::tensor::{Slice, Tensor};
use epochcost_architectures::models::resnet::{EXPANSION, Shortcut};

use crate::layers::{BatchNorm, Convolution, Pass};
use crate::ops::{Features, LayerOps, Window};
use crate::source::{Initial, ParameterSource};

/// A convolution and its batch norm.
#[derive(Module, Debug)]
pub(crate) struct NormedConvolution<B: Backend> {
    convolution: Convolution<B>,
    norm: BatchNorm<B>,
}

/// Two 3×3 convolutions beside a shortcut.
#[derive(Module, Debug)]
pub(crate) struct BasicBlock<B: Backend> {
    first: NormedConvolution<B>,
    second: NormedConvolution<B>,
    projection: Option<NormedConvolution<B>>,
    #[module(skip)]
    stride: usize,
    /// Channels of zeros that a shortcut without projection adds.
    #[module(skip)]
    added: usize,
}

/// A 1×1 convolution to few channels, a 3×3 among those, and a 1×1 to four times as many,
/// beside a shortcut. The 3×3 has the stride, as in torchvision.
#[derive(Module, Debug)]
pub(crate) struct Bottleneck<B: Backend> {
    reduce: NormedConvolution<B>,
    middle: NormedConvolution<B>,
    expand: NormedConvolution<B>,
    projection: Option<NormedConvolution<B>>,
}

impl<B: LayerOps> NormedConvolution<B> {
    pub(crate) fn new(
        source: &mut ParameterSource<'_>,
        [inputs, outputs]: [usize; 2],
        window: Window,
        device: &B::Device,
    ) -> Self {
        Self {
            convolution: Convolution::new(source, [inputs, outputs], window, device),
            norm: BatchNorm::new(source, outputs, device),
        }
    }

    /// Returns a convolution whose weight begins by the outputs of each input, as in
    /// torchvision's networks.
    pub(crate) fn by_fan_out(
        source: &mut ParameterSource<'_>,
        [inputs, outputs]: [usize; 2],
        window: Window,
        device: &B::Device,
    ) -> Self {
        let initial = Initial::He {
            fan: window.fan_out(outputs),
        };
        Self {
            convolution: Convolution::begun(source, [inputs, outputs], window, initial, device),
            norm: BatchNorm::new(source, outputs, device),
        }
    }

    /// Returns the same convolution with another addition to the variance.
    pub(crate) fn with_epsilon(self, epsilon: f64) -> Self {
        Self {
            norm: self.norm.with_epsilon(epsilon),
            ..self
        }
    }

    /// Returns the same convolution, its output computed again in the backward pass.
    pub(crate) fn made_again(self) -> Self {
        Self {
            convolution: self.convolution.made_again(),
            ..self
        }
    }

    pub(crate) fn forward(&self, features: Features<B>, pass: &mut Pass<B>) -> Features<B> {
        self.convolution.forward_normed(features, &self.norm, pass)
    }
}

impl<B: LayerOps> BasicBlock<B> {
    pub(crate) fn new(
        source: &mut ParameterSource<'_>,
        [inputs, outputs]: [usize; 2],
        stride: usize,
        shortcut: Shortcut,
        device: &B::Device,
    ) -> Self {
        let changes_shape = stride != 1 || inputs != outputs;
        let first = [inputs, outputs];
        let second = [outputs, outputs];
        Self {
            first: NormedConvolution::new(source, first, Window::three(stride), device),
            second: NormedConvolution::new(source, second, Window::three(1), device),
            projection: (changes_shape && shortcut == Shortcut::Projected)
                .then(|| NormedConvolution::new(source, first, Window::one(stride), device)),
            stride,
            added: outputs - inputs,
        }
    }

    pub(crate) fn forward(&self, input: Features<B>, pass: &mut Pass<B>) -> Features<B> {
        let features = self.first.forward(input.clone(), pass).rectified();
        let features = self.second.forward(features, pass);
        let shortcut = match &self.projection {
            Some(projection) => projection.forward(input, pass),
            None => self.padded(input),
        };
        B::activation(features, Some(shortcut), true)
    }

    /// Every pixel that the stride does not pass over, with channels of zeros.
    fn padded(&self, input: Features<B>) -> Features<B> {
        if self.stride == 1 && self.added == 0 {
            return input;
        }
        let step = Slice::new(0, None, self.stride as isize);
        let values = input
            .values
            .slice([Slice::full(), step, step, Slice::full()]);
        let [batch, height, width, _] = values.dims();
        let zeros = Tensor::zeros([batch, height, width, self.added], &values.device());
        Features::plain(Tensor::cat(vec![values, zeros], 3))
    }
}

impl<B: LayerOps> Bottleneck<B> {
    /// Returns a bottleneck of `inputs` channels over `width` ones.
    pub(crate) fn new(
        source: &mut ParameterSource<'_>,
        [inputs, width]: [usize; 2],
        stride: usize,
        device: &B::Device,
    ) -> Self {
        let outputs = EXPANSION * width;
        let mut next = |sizes, window| NormedConvolution::by_fan_out(source, sizes, window, device);
        Self {
            reduce: next([inputs, width], Window::one(1)),
            middle: next([width, width], Window::three(stride)),
            expand: next([width, outputs], Window::one(1)),
            projection: (stride != 1 || inputs != outputs)
                .then(|| next([inputs, outputs], Window::one(stride))),
        }
    }

    pub(crate) fn forward(&self, input: Features<B>, pass: &mut Pass<B>) -> Features<B> {
        let features = self.reduce.forward(input.clone(), pass).rectified();
        let features = self.middle.forward(features, pass).rectified();
        let features = self.expand.forward(features, pass);
        let shortcut = match &self.projection {
            Some(projection) => projection.forward(input, pass),
            None => input,
        };
        B::activation(features, Some(shortcut), true)
    }
}
