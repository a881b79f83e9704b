//! The parts of residual networks (He et al. 2016): convolutions beside a shortcut.

use burn::module::Module;
use burn::tensor::backend::Backend;
use burn::tensor::{Slice, Tensor};
use epochcost_architectures::models::resnet::{Layout, Shortcut, Stem};

use crate::layers::{BatchNorm, Convolution, Pass};
use crate::ops::{Features, LayerOps, Window};
use crate::source::{Initial, ParameterSource};

/// A convolution and its batch norm.
#[derive(Module, Debug)]
pub(crate) struct NormedConvolution<B: Backend> {
    convolution: Convolution<B>,
    norm: BatchNorm<B>,
}

/// Two 3×3 convolutions, or a 1×1 convolution to few channels, a 3×3 among those and a 1×1 to four
/// times as many, beside a shortcut.
#[derive(Module, Debug)]
pub(crate) struct Block<B: Backend> {
    convolutions: Vec<NormedConvolution<B>>,
    projection: Option<NormedConvolution<B>>,
    #[module(skip)]
    stride: usize,
    /// Channels of zeros that a shortcut without projection adds.
    #[module(skip)]
    added: usize,
}

impl<B: LayerOps> NormedConvolution<B> {
    pub(crate) fn new(
        source: &mut ParameterSource<'_, B>,
        sizes: [usize; 2],
        window: Window,
    ) -> Self {
        let initial = Initial::Uniform(window.fan_in(sizes[0]));
        Self::begun(source, sizes, window, initial)
    }

    /// Returns a convolution whose weight begins by the outputs of each input, as in
    /// torchvision's networks.
    pub(crate) fn by_fan_out(
        source: &mut ParameterSource<'_, B>,
        sizes: [usize; 2],
        window: Window,
    ) -> Self {
        Self::begun(source, sizes, window, Initial::He(window.fan_out(sizes[1])))
    }

    fn begun(
        source: &mut ParameterSource<'_, B>,
        sizes: [usize; 2],
        window: Window,
        initial: Initial,
    ) -> Self {
        Self {
            convolution: Convolution::new(source, sizes, window, initial),
            norm: BatchNorm::new(source, sizes[1]),
        }
    }

    /// Returns a convolution of a network of that layout.
    pub(crate) fn of_layout(
        source: &mut ParameterSource<'_, B>,
        layout: Layout,
        sizes: [usize; 2],
        window: Window,
    ) -> Self {
        match layout.stem {
            Stem::Cifar => Self::new(source, sizes, window),
            Stem::ImageNet => Self::by_fan_out(source, sizes, window),
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
        let Self { convolution, norm } = self;
        convolution.forward_normed(features, None, norm, pass)
    }
}

impl<B: LayerOps> Block<B> {
    /// Returns a block of `inputs` channels over `width` inner ones. The first 3×3 convolution has
    /// the stride, as in torchvision.
    pub(crate) fn new(
        source: &mut ParameterSource<'_, B>,
        layout: Layout,
        [inputs, width]: [usize; 2],
        stride: usize,
    ) -> Self {
        let outputs = layout.expansion * width;
        let mut next = |sizes, window| NormedConvolution::of_layout(source, layout, sizes, window);
        let mut left = stride;
        let convolutions = layout.block(inputs, width).into_iter();
        let convolutions = convolutions.map(|(kernel, sizes)| {
            let stride = match kernel {
                1 => 1,
                _ => std::mem::replace(&mut left, 1),
            };
            next(sizes, Window::centred(kernel, stride))
        });
        let convolutions = convolutions.collect();
        let changes_shape = stride != 1 || inputs != outputs;
        Self {
            convolutions,
            projection: (changes_shape && layout.shortcut == Shortcut::Projected)
                .then(|| next([inputs, outputs], Window::one(stride))),
            stride,
            added: outputs - inputs,
        }
    }

    pub(crate) fn forward(&self, input: Features<B>, pass: &mut Pass<B>) -> Features<B> {
        let mut features = input.clone();
        for (index, convolution) in self.convolutions.iter().enumerate() {
            if index > 0 {
                features = features.rectified();
            }
            features = convolution.forward(features, pass);
        }
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
