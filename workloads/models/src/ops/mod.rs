//! The operations that the networks call, and the place for faster ones.
//!
//! burn's own operations are slow on the CPU in the backward pass, and each writes all
//! of its output to memory. [`LayerOps`] is what these networks spend their time in,
//! over channels-last images, and [`LayerGradients`] its backward pass. Their default bodies are
//! burn's tensor operations, which any backend has; a backend overrides what it does
//! better, as the CPU's does with the kernels of [`crate::cpu`].
//!
//! A batch norm is not computed where it stands: [`Features`] carry it to whichever
//! operation reads them. So a convolution's output is all that is kept for the backward
//! pass, and what the norm made of it, a block's sum with its shortcut included, is made
//! again.

mod autodiff;
mod flex;
mod kept;
#[cfg(any(test, feature = "gpu"))]
pub(crate) mod max_pool;
pub(crate) mod precision;
pub(crate) mod reference;
mod tap;
mod window;

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

pub(crate) use epochcost_architectures::Function;
pub(crate) use tap::{GradientTap, Taken};
pub(crate) use window::{PoolWindow, Window};

/// Channels-last features `[batch, height, width, channels]`, with a batch norm that
/// their reader applies.
#[derive(Debug, Clone)]
pub(crate) struct Features<B: LayerOps> {
    pub(crate) values: Tensor<B, 4>,
    pub(crate) norm: Option<Norm<B>>,
    /// Origin from which the values can be computed again, where the backward pass
    /// should keep that instead of them.
    pub(crate) origin: Option<B::Origin>,
}

/// Arithmetic of every channel: a batch norm, or a bias alone, and then a function.
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

/// Operations that networks consist of, over channels-last features.
pub(crate) trait LayerOps: Backend {
    /// Origin from which an operation's output can be computed again; nothing where no
    /// backward pass follows.
    type Origin: Clone + std::fmt::Debug + Send + Sync;

    /// Whether reading a tensor waits for what the device has not computed yet: then a step
    /// reads once, at its end.
    const READS_WAIT: bool = false;

    /// Adds a parameter to this thread's [`GradientTap`], if it has one: the gradient is sent,
    /// with the position, when it is known.
    fn tap_gradient<const D: usize>(_parameter: Tensor<Self, D>, _position: usize) {}

    /// Returns a convolution without bias.
    ///
    /// The weight is `[out, in / groups, kernel, kernel]`. A window has one group
    /// (dense), or as many groups as there are input and output channels (depthwise).
    fn convolution(
        input: Features<Self>,
        weight: Tensor<Self, 4>,
        window: Window,
    ) -> Features<Self>;

    /// Returns a convolution and the moments of its output.
    fn convolution_with_moments(
        input: Features<Self>,
        weight: Tensor<Self, 4>,
        window: Window,
    ) -> (Features<Self>, Moments<Self>);

    /// `features + shortcut`, its norms applied, and perhaps a ReLU of it.
    fn activation(
        features: Features<Self>,
        shortcut: Option<Features<Self>>,
        rectified: bool,
    ) -> Features<Self>;

    /// Returns the mean of each channel's plane, `[batch, channels]`.
    fn global_average(values: Tensor<Self, 4>) -> Tensor<Self, 2> {
        reference::global_average(values)
    }

    /// `min(max(x + 3, 0), 6) / 6`, the hard sigmoid (Howard et al. 2019, §5.2).
    fn hard_sigmoids(values: Tensor<Self, 2>) -> Tensor<Self, 2> {
        reference::hard_sigmoids(values)
    }

    /// Returns each channel of an image times its share, `[batch, channels]`.
    fn excite(values: Tensor<Self, 4>, shares: Tensor<Self, 2>) -> Tensor<Self, 4> {
        reference::excite(values, shares)
    }

    /// Returns the channels of two tensors of the same images, those of the second after those
    /// of the first.
    fn side_by_side(parts: [Tensor<Self, 4>; 2]) -> Tensor<Self, 4> {
        Tensor::cat(parts.to_vec(), 3)
    }

    /// Returns the values of each image, those of its first channel first.
    fn channels_first(images: Tensor<Self, 4>) -> Tensor<Self, 2> {
        images.permute([0, 3, 1, 2]).flatten(1, 3)
    }

    /// Returns the maximum of each window; what lies outside of the images is no maximum.
    fn max_pool(features: Features<Self>, window: PoolWindow) -> Tensor<Self, 4>;

    /// `relu(max(images) + bias)` over windows of 2×2, odd last rows and columns left
    /// out; the bias is `[channels]`.
    fn pool(images: Tensor<Self, 4>, bias: Tensor<Self, 1>) -> Tensor<Self, 4> {
        reference::pool(images, bias)
    }

    /// `rows · weightᵀ + bias`: `[batch, in]` to `[batch, out]`, the weight `[out, in]`.
    fn fully_connected(
        rows: Tensor<Self, 2>,
        weight: Tensor<Self, 2>,
        bias: Tensor<Self, 1>,
    ) -> Tensor<Self, 2>;

    /// Returns the mean cross-entropy of scores `[batch, classes]`, `[1]`.
    fn cross_entropy(scores: Tensor<Self, 2>, labels: &[u8]) -> Tensor<Self, 1> {
        reference::cross_entropy(scores, labels)
    }
}

/// The backward passes of [`LayerOps`], on the backend below the autodiff graph.
pub(crate) trait LayerGradients: LayerOps {
    /// Returns the gradients of the input, where they are wanted, and of the weight.
    fn convolution_backward(
        input: Features<Self>,
        weight: Tensor<Self, 4>,
        output_gradient: Tensor<Self, 4>,
        window: Window,
        input_wanted: bool,
    ) -> (Option<FeatureGradients<Self>>, Tensor<Self, 4>);

    /// Returns the gradients of the features and of the shortcut.
    fn activation_backward(
        features: Features<Self>,
        shortcut: Option<Features<Self>>,
        rectified: bool,
        output_gradient: Tensor<Self, 4>,
    ) -> (FeatureGradients<Self>, Option<FeatureGradients<Self>>);

    /// Returns the gradient of values of that shape from that of their means.
    fn global_average_backward(shape: [usize; 4], gradient: Tensor<Self, 2>) -> Tensor<Self, 4> {
        reference::global_average_backward(shape, gradient)
    }

    /// Returns the gradient of the values.
    fn hard_sigmoids_backward(
        values: Tensor<Self, 2>,
        output_gradient: Tensor<Self, 2>,
    ) -> Tensor<Self, 2> {
        reference::hard_sigmoids_backward(values, output_gradient)
    }

    /// Returns the gradients of the values and of the shares.
    fn excite_backward(
        values: Tensor<Self, 4>,
        shares: Tensor<Self, 2>,
        output_gradient: Tensor<Self, 4>,
    ) -> (Tensor<Self, 4>, Tensor<Self, 2>) {
        reference::excite_backward(values, shares, output_gradient)
    }

    /// Returns the parts of which the first has so many channels, the inverse of
    /// [`LayerOps::side_by_side`].
    fn apart(values: Tensor<Self, 4>, first: usize) -> [Tensor<Self, 4>; 2] {
        let channels = values.dims()[3];
        [
            values.clone().narrow(3, 0, first),
            values.narrow(3, first, channels - first),
        ]
    }

    /// Returns images of that shape, the inverse of [`LayerOps::channels_first`].
    fn channels_last(rows: Tensor<Self, 2>, shape: [usize; 4]) -> Tensor<Self, 4> {
        let [batch, height, width, channels] = shape;
        rows.reshape([batch, channels, height, width])
            .permute([0, 2, 3, 1])
    }

    /// Returns the gradients of the features: all of a window's goes to its first maximum.
    fn max_pool_backward(
        features: Features<Self>,
        window: PoolWindow,
        output_gradient: Tensor<Self, 4>,
    ) -> FeatureGradients<Self>;

    /// Returns the gradients of the images and of the bias.
    fn pool_backward(
        images: Tensor<Self, 4>,
        bias: Tensor<Self, 1>,
        output_gradient: Tensor<Self, 4>,
    ) -> (Tensor<Self, 4>, Tensor<Self, 1>) {
        reference::pool_backward(images, bias, output_gradient)
    }

    /// Returns the gradients of the rows, of the weight and of the bias.
    fn fully_connected_backward(
        rows: Tensor<Self, 2>,
        weight: Tensor<Self, 2>,
        output_gradient: Tensor<Self, 2>,
    ) -> (Tensor<Self, 2>, Tensor<Self, 2>, Tensor<Self, 1>);

    /// Returns the gradient of the scores.
    fn cross_entropy_backward(
        scores: Tensor<Self, 2>,
        labels: &[u8],
        loss_gradient: Tensor<Self, 1>,
    ) -> Tensor<Self, 2> {
        reference::cross_entropy_backward(scores, labels, loss_gradient)
    }
}

#[cfg(test)]
pub(crate) mod tests;
