//! The two-dimensional convolution over channels-last images.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::batch_norm::BatchNorm;
use super::pass::{Noted, Pass, running};
use crate::ops::{Features, LayerOps, Moments, Window};
use crate::source::{Initial, ParameterSource};

/// Most terms of an output that is computed again where a pass recomputes: those of depthwise
/// convolutions and of the first layers, whose outputs are the largest.
const SHORT_SUM: usize = 32;

/// A convolution with a square window, its weight
/// `[out, in / groups, kernel, kernel]` as PyTorch keeps it.
#[derive(Module, Debug)]
pub(crate) struct Convolution<B: Backend> {
    weight: Param<Tensor<B, 4>>,
    #[module(skip)]
    window: Window,
    /// Whether the backward pass computes the output again instead of keeping it.
    #[module(skip)]
    made_again: bool,
}

impl<B: LayerOps> Convolution<B> {
    /// A convolution without bias, whose weight begins with those values.
    pub(crate) fn new(
        source: &mut ParameterSource<'_, B>,
        [inputs, outputs]: [usize; 2],
        window: Window,
        initial: Initial,
    ) -> Self {
        let Window { kernel, groups, .. } = window;
        Self {
            weight: source.take([outputs, inputs / groups, kernel, kernel], initial),
            window,
            made_again: false,
        }
    }

    /// Returns the same convolution, its output computed again in the backward pass:
    /// for one whose output takes more memory than its computation takes time.
    pub(crate) fn made_again(self) -> Self {
        Self {
            made_again: true,
            ..self
        }
    }

    /// `[batch, height, width, in]` to `[batch, height', width', out]`.
    pub(crate) fn forward(&self, features: Features<B>) -> Features<B> {
        self.kept(B::convolution(features, self.weight.val(), self.window))
    }

    /// Convolves features, and then applies a batch norm. The `shift` is added to the outputs, which
    /// is seen in the mean that is noted alone.
    pub(crate) fn forward_normed(
        &self,
        features: Features<B>,
        shift: Option<Tensor<B, 1>>,
        norm: &BatchNorm<B>,
        pass: &mut Pass<B>,
    ) -> Features<B> {
        let (weight, window) = (self.weight.val(), self.window);
        let (output, moments) = match pass {
            Pass::Training { noted, .. } => {
                let (output, moments) = B::convolution_with_moments(features, weight, window);
                let mut seen = moments.clone();
                if let Some(shift) = shift {
                    seen.mean = seen.mean + shift;
                }
                noted.push(Noted::new(seen, output.values.dims()));
                (output, moments)
            }
            Pass::Evaluation { statistics, taken } => {
                let output = B::convolution(features, weight, window);
                let [_, _, _, channels] = output.values.dims();
                let Moments { mean, variance } = running(statistics, taken, channels);
                let mean = match shift {
                    Some(shift) => mean - shift,
                    None => mean,
                };
                (output, Moments { mean, variance })
            }
        };
        let output = match pass {
            Pass::Training {
                recomputes: true, ..
            } if self.terms() <= SHORT_SUM => output,
            _ => self.kept(output),
        };
        norm.forward(output, moments)
    }

    /// Returns the number of terms that each output sums.
    fn terms(&self) -> usize {
        self.weight.dims()[1..].iter().product()
    }

    fn kept(&self, output: Features<B>) -> Features<B> {
        if self.made_again {
            output
        } else {
            output.kept()
        }
    }
}

#[cfg(test)]
mod tests {
    use burn_autodiff::Autodiff;
    use burn_flex::{Flex, FlexDevice};

    use super::*;
    use crate::layers::Draws;

    /// What is computed again has an origin that it is made from; what is kept has none.
    #[test]
    fn short_sums_are_computed_again_where_a_pass_recomputes() {
        type Graph = Autodiff<Flex>;
        let source = &mut ParameterSource::<Graph>::begun(Some(1), &FlexDevice);
        let norm = BatchNorm::new(source, 32);
        let images = Features::plain(Tensor::<Graph, 4>::ones([2, 4, 4, 32], &FlexDevice));
        for (groups, is_short) in [(32, true), (1, false)] {
            let window = Window::three(1).groups(groups);
            let convolution = Convolution::new(source, [32, 32], window, Initial::Ones);
            for recomputes in [false, true] {
                let pass = &mut Pass::training(Draws::new(1), recomputes);
                let output = convolution.forward_normed(images.clone(), None, &norm, pass);
                assert_eq!(output.origin.is_some(), recomputes && is_short, "{groups}");
            }
        }
    }
}
