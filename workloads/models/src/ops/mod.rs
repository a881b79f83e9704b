//! The operations that the networks call, and the place for faster ones.
//!
//! burn's own operations are slow on the CPU in the backward pass, and each writes all
//! of its output to memory. [`LayerOps`] is what these networks spend their time in,
//! over channels-last images, with its backward pass spelled out. Its default bodies are
//! burn's tensor operations, which any backend has; a backend overrides what it does
//! better, as the CPU's does with the kernels of [`crate::cpu`].
//!
//! A batch norm is not computed where it stands: [`Features`] carry it to whichever
//! operation reads them. So a convolution's output is all that is kept for the backward
//! pass, and what the norm made of it, a block's sum with its shortcut included, is made
//! again.

mod autodiff;
mod flex;
mod generic;
mod kept;
mod max_pool;
mod reference;

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

/// Channels-last features `[batch, height, width, channels]`, with a batch norm that
/// their reader applies.
#[derive(Debug, Clone)]
pub(crate) struct Features<B: LayerOps> {
    pub(crate) values: Tensor<B, 4>,
    pub(crate) norm: Option<Norm<B>>,
    /// What the values can be made from again, where the backward pass should keep that
    /// instead of them.
    pub(crate) origin: Option<B::Origin>,
}

/// What every channel goes through: a batch norm, or a bias alone, and then a function.
#[derive(Debug, Clone)]
pub(crate) struct Norm<B: Backend> {
    /// None where there is a bias alone.
    pub(crate) scale: Option<Scale<B>>,
    /// `[channels]`.
    pub(crate) bias: Tensor<B, 1>,
    pub(crate) then: Function,
}

/// The part of a batch norm before its bias: `(x - mean) / √(variance + ε) · weight`.
///
/// Its backward pass takes the moments for the features' own: that of a training step.
#[derive(Debug, Clone)]
pub(crate) struct Scale<B: Backend> {
    /// `[channels]`.
    pub(crate) weight: Tensor<B, 1>,
    pub(crate) moments: Moments<B>,
    /// Added to the variance before its root is taken.
    pub(crate) epsilon: f64,
}

/// A function of single values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    /// The value itself.
    Identity,
    /// The greater of 0 and the value.
    Relu,
    /// `x · min(max(x + 3, 0), 6) / 6` (Howard et al. 2019, §5.2).
    HardSwish,
}

/// Mean and biased variance of each channel, `[channels]`, outside of the autodiff graph.
#[derive(Debug, Clone)]
pub(crate) struct Moments<B: Backend> {
    pub(crate) mean: Tensor<B, 1>,
    pub(crate) variance: Tensor<B, 1>,
}

/// The gradients of features and of their norm's weight and bias.
#[derive(Debug)]
pub(crate) struct FeatureGradients<B: Backend> {
    pub(crate) values: Tensor<B, 4>,
    pub(crate) norm: Option<NormGradients<B>>,
}

/// The gradients of a norm's parameters, `[channels]`.
#[derive(Debug)]
pub(crate) struct NormGradients<B: Backend> {
    /// None where there is a bias alone.
    pub(crate) weight: Option<Tensor<B, 1>>,
    pub(crate) bias: Tensor<B, 1>,
}

impl<B: LayerOps> Features<B> {
    /// Features without a norm.
    pub(crate) const fn plain(values: Tensor<B, 4>) -> Self {
        Self {
            values,
            norm: None,
            origin: None,
        }
    }

    /// The features with a norm.
    pub(crate) fn normed(self, norm: Norm<B>) -> Self {
        Self {
            norm: Some(norm),
            ..self
        }
    }

    /// The features, their values to be kept for the backward pass.
    pub(crate) fn kept(self) -> Self {
        Self {
            origin: None,
            ..self
        }
    }

    /// The features with a function after their norm.
    pub(crate) fn then(mut self, function: Function) -> Self {
        if let Some(norm) = &mut self.norm {
            norm.then = function;
        }
        self
    }

    /// The features with a ReLU after their norm.
    pub(crate) fn rectified(self) -> Self {
        self.then(Function::Relu)
    }
}

/// What networks are made of, over channels-last features.
pub(crate) trait LayerOps: Backend {
    /// What an operation's output can be made from again; nothing where no backward pass
    /// follows.
    type Origin: Clone + std::fmt::Debug + Send + Sync;

    /// A convolution without bias.
    ///
    /// The weight is `[out, in / groups, kernel, kernel]`. A window has one group
    /// (dense), or as many groups as there are input and output channels (depthwise).
    fn convolution(
        input: Features<Self>,
        weight: Tensor<Self, 4>,
        window: Window,
    ) -> Features<Self> {
        Features::plain(generic::convolution(
            reference::value(input),
            weight,
            window,
        ))
    }

    /// A convolution and the moments of its output.
    fn convolution_with_moments(
        input: Features<Self>,
        weight: Tensor<Self, 4>,
        window: Window,
    ) -> (Features<Self>, Moments<Self>) {
        let output = Self::convolution(input, weight, window);
        let moments = reference::moments(output.values.clone());
        (output, moments)
    }

    /// The gradients of the input, where they are wanted, and of the weight.
    fn convolution_backward(
        input: Features<Self>,
        weight: Tensor<Self, 4>,
        output_gradient: Tensor<Self, 4>,
        window: Window,
        input_wanted: bool,
    ) -> (Option<FeatureGradients<Self>>, Tensor<Self, 4>) {
        let images = reference::value(input.clone());
        let (gradient, weight) =
            generic::convolution_backward(images, weight, output_gradient, window, input_wanted);
        let gradient = gradient.map(|gradient| reference::value_backward(input, gradient));
        (gradient, weight)
    }

    /// `features + shortcut`, its norms applied, and perhaps a ReLU of it.
    fn activation(
        features: Features<Self>,
        shortcut: Option<Features<Self>>,
        rectified: bool,
    ) -> Features<Self> {
        Features::plain(reference::activation(features, shortcut, rectified))
    }

    /// The gradients of the features and of the shortcut.
    fn activation_backward(
        features: Features<Self>,
        shortcut: Option<Features<Self>>,
        rectified: bool,
        output_gradient: Tensor<Self, 4>,
    ) -> (FeatureGradients<Self>, Option<FeatureGradients<Self>>) {
        reference::activation_backward(features, shortcut, rectified, output_gradient)
    }

    /// The maximum of each window; what lies outside of the images is no maximum.
    fn max_pool(features: Features<Self>, window: PoolWindow) -> Tensor<Self, 4> {
        max_pool::forward(reference::value(features), window)
    }

    /// The gradients of the features: all of a window's goes to its first maximum.
    fn max_pool_backward(
        features: Features<Self>,
        window: PoolWindow,
        output_gradient: Tensor<Self, 4>,
    ) -> FeatureGradients<Self> {
        let images = reference::value(features.clone());
        let gradient = max_pool::backward(images, window, output_gradient);
        reference::value_backward(features, gradient)
    }

    /// `relu(max(images) + bias)` over windows of 2×2, odd last rows and columns left
    /// out; the bias is `[channels]`.
    fn pool(images: Tensor<Self, 4>, bias: Tensor<Self, 1>) -> Tensor<Self, 4> {
        reference::pool(images, bias)
    }

    /// The gradients of the images and of the bias.
    fn pool_backward(
        images: Tensor<Self, 4>,
        bias: Tensor<Self, 1>,
        output_gradient: Tensor<Self, 4>,
    ) -> (Tensor<Self, 4>, Tensor<Self, 1>) {
        reference::pool_backward(images, bias, output_gradient)
    }

    /// `rows · weightᵀ + bias`: `[batch, in]` to `[batch, out]`, the weight `[out, in]`.
    fn fully_connected(
        rows: Tensor<Self, 2>,
        weight: Tensor<Self, 2>,
        bias: Tensor<Self, 1>,
    ) -> Tensor<Self, 2> {
        rows.matmul(weight.transpose()) + bias.unsqueeze()
    }

    /// The gradients of the rows, of the weight and of the bias.
    fn fully_connected_backward(
        rows: Tensor<Self, 2>,
        weight: Tensor<Self, 2>,
        output_gradient: Tensor<Self, 2>,
    ) -> (Tensor<Self, 2>, Tensor<Self, 2>, Tensor<Self, 1>) {
        let [_, outputs] = output_gradient.dims();
        let bias_gradient = output_gradient.clone().sum_dim(0).reshape([outputs]);
        let weight_gradient = output_gradient.clone().transpose().matmul(rows);
        (
            output_gradient.matmul(weight),
            weight_gradient,
            bias_gradient,
        )
    }

    /// The mean cross-entropy of scores `[batch, classes]`, `[1]`.
    fn cross_entropy(scores: Tensor<Self, 2>, labels: &[u8]) -> Tensor<Self, 1> {
        reference::cross_entropy(scores, labels)
    }

    /// The gradient of the scores.
    fn cross_entropy_backward(
        scores: Tensor<Self, 2>,
        labels: &[u8],
        loss_gradient: Tensor<Self, 1>,
    ) -> Tensor<Self, 2> {
        reference::cross_entropy_backward(scores, labels, loss_gradient)
    }
}

/// The square window of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Height and width of the kernel.
    pub(crate) kernel: usize,
    /// Step between two outputs, in both directions.
    pub(crate) stride: usize,
    /// Zeros added on each of the four sides.
    pub(crate) padding: usize,
    /// Groups of channels: 1, or one a channel.
    pub(crate) groups: usize,
}

impl Window {
    /// 1×1.
    pub(crate) const fn one(stride: usize) -> Self {
        Self::new(1, stride, 0)
    }

    /// 3×3, padded by 1.
    pub(crate) const fn three(stride: usize) -> Self {
        Self::new(3, stride, 1)
    }

    /// 3×3, not padded.
    pub(crate) const fn three_within(stride: usize) -> Self {
        Self::new(3, stride, 0)
    }

    /// 5×5 of stride 1.
    pub(crate) const fn five(padding: usize) -> Self {
        Self::new(5, 1, padding)
    }

    /// Of an odd side, padded so that stride 1 keeps the size.
    pub(crate) const fn centred(kernel: usize, stride: usize) -> Self {
        Self::new(kernel, stride, kernel / 2)
    }

    const fn new(kernel: usize, stride: usize, padding: usize) -> Self {
        Self {
            kernel,
            stride,
            padding,
            groups: 1,
        }
    }

    /// The same window over so many groups.
    pub(crate) const fn groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }

    /// Inputs that one output sums over, of so many input channels.
    pub(crate) const fn fan_in(self, inputs: usize) -> usize {
        inputs / self.groups * self.kernel * self.kernel
    }

    /// Outputs that one input is part of, of so many output channels: as PyTorch counts
    /// them, whatever the groups.
    pub(crate) const fn fan_out(self, outputs: usize) -> usize {
        outputs * self.kernel * self.kernel
    }

    /// Outputs along an axis of so many inputs.
    pub(crate) const fn outputs(self, inputs: usize) -> usize {
        (inputs + 2 * self.padding - self.kernel) / self.stride + 1
    }
}

/// The square window of a max-pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolWindow {
    /// Height and width.
    pub(crate) side: usize,
    /// Step between two windows, in both directions.
    pub(crate) stride: usize,
    /// Rows and columns by which windows reach over each of the four edges.
    pub(crate) padding: usize,
    /// Whether a last window may reach over the far edge further than that (PyTorch's
    /// `ceil_mode`).
    pub(crate) overhanging: bool,
}

impl PoolWindow {
    /// Outputs along an axis of so many inputs.
    pub(crate) const fn outputs(self, inputs: usize) -> usize {
        let span = inputs + 2 * self.padding - self.side;
        if !self.overhanging {
            return span / self.stride + 1;
        }
        let outputs = span.div_ceil(self.stride) + 1;
        // No window begins beyond the inputs.
        if (outputs - 1) * self.stride >= inputs + self.padding {
            outputs - 1
        } else {
            outputs
        }
    }

    /// The inputs that output `at` sees along an axis of so many.
    pub(crate) fn range(self, at: usize, inputs: usize) -> std::ops::Range<usize> {
        let start = at * self.stride;
        let end = (start + self.side).saturating_sub(self.padding).min(inputs);
        start.saturating_sub(self.padding)..end
    }
}

#[cfg(test)]
mod tests;
