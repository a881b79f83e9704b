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
mod reference;

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

/// Added to the variance before its root is taken.
pub(crate) const EPSILON: f64 = 1e-5;

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

/// A batch norm, `(x - mean) / √(variance + ε) · weight + bias`, its tensors
/// `[channels]`.
///
/// Its backward pass takes the moments for the features' own: that of a training step.
#[derive(Debug, Clone)]
pub(crate) struct Norm<B: Backend> {
    pub(crate) weight: Tensor<B, 1>,
    pub(crate) bias: Tensor<B, 1>,
    pub(crate) moments: Moments<B>,
    /// Whether a ReLU follows.
    pub(crate) rectified: bool,
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
    pub(crate) norm: Option<[Tensor<B, 1>; 2]>,
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

    /// The features with a ReLU after their norm.
    pub(crate) fn rectified(mut self) -> Self {
        if let Some(norm) = &mut self.norm {
            norm.rectified = true;
        }
        self
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

    /// `relu(features + shortcut)`.
    fn activation(features: Features<Self>, shortcut: Option<Features<Self>>) -> Features<Self> {
        Features::plain(reference::activation(features, shortcut))
    }

    /// The gradients of the features and of the shortcut.
    fn activation_backward(
        features: Features<Self>,
        shortcut: Option<Features<Self>>,
        output_gradient: Tensor<Self, 4>,
    ) -> (FeatureGradients<Self>, Option<FeatureGradients<Self>>) {
        reference::activation_backward(features, shortcut, output_gradient)
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

    /// 5×5 of stride 1.
    pub(crate) const fn five(padding: usize) -> Self {
        Self::new(5, 1, padding)
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

    /// Outputs along an axis of so many inputs.
    pub(crate) const fn outputs(self, inputs: usize) -> usize {
        (inputs + 2 * self.padding - self.kernel) / self.stride + 1
    }
}

#[cfg(test)]
mod tests;
