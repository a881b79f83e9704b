//! The operations in burn's own, whose gradients are those of burn's autodiff: what the kernels are
//! compared with.

use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;

use super::super::*;

/// The images convolved.
pub(super) fn convolution<B: Backend>(
    images: Tensor<B, 4>,
    weight: Tensor<B, 4>,
    window: Window,
) -> Tensor<B, 4> {
    let (stride, padding) = ([window.stride; 2], [window.padding; 2]);
    let options = ConvOptions::new(stride, padding, [1; 2], window.groups);
    let images = images.permute([0, 3, 1, 2]);
    conv2d(images, weight, None, options).permute([0, 2, 3, 1])
}

/// The features, their norm applied by the moments of the values themselves.
pub(super) fn value<B: LayerOps>(features: Features<B>) -> Tensor<B, 4> {
    let Features { values, norm, .. } = features;
    match norm {
        None => values,
        Some(norm) => {
            let then = norm.then;
            let value = normalised(values, norm);
            match then {
                Function::Identity => value,
                Function::Relu => relu(value),
                Function::HardSwish => value.clone() * sixth(value),
            }
        }
    }
}

/// `min(max(x + 3, 0), 6) / 6`: the hard sigmoid.
fn sixth<B: Backend>(values: Tensor<B, 4>) -> Tensor<B, 4> {
    ((values + 3.0) / 6.0).clamp(0.0, 1.0)
}

fn normalised<B: Backend>(values: Tensor<B, 4>, norm: Norm<B>) -> Tensor<B, 4> {
    let scaled = match norm.scale {
        None => values,
        Some(scale) => {
            let Moments { mean, variance } = moments(values.clone());
            let factor = scale.weight / (variance + scale.epsilon).sqrt();
            (values - mean.unsqueeze()) * factor.unsqueeze()
        }
    };
    scaled + norm.bias.unsqueeze()
}

/// The moments of each channel, the variance in a pass of its own.
pub(super) fn moments<B: Backend>(values: Tensor<B, 4>) -> Moments<B> {
    let mean = channel_mean(values.clone());
    let centred = values - mean.clone().unsqueeze();
    Moments {
        mean,
        variance: channel_mean(centred.clone() * centred),
    }
}

/// `[channels]`, one axis after the other: short sums keep the digits of `f32`.
fn channel_mean<B: Backend>(values: Tensor<B, 4>) -> Tensor<B, 1> {
    let [_, _, _, channels] = values.dims();
    values
        .mean_dim(0)
        .mean_dim(1)
        .mean_dim(2)
        .reshape([channels])
}

/// See [`LayerOps::activation`].
pub(super) fn activation<B: LayerOps>(
    features: Features<B>,
    shortcut: Option<Features<B>>,
    rectified: bool,
) -> Tensor<B, 4> {
    let sum = match shortcut {
        Some(shortcut) => value(features) + value(shortcut),
        None => value(features),
    };
    if rectified { relu(sum) } else { sum }
}
