//! The operations in burn's tensor operations: what the kernels are compared with.
//!
//! A dense window becomes a matrix of patches (im2col) and a matrix product; a depthwise window
//! becomes a sum of shifted products.

use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;
use burn::tensor::{Slice, Tensor};
use burn_flex::Flex;

use super::super::reference::passed;
use super::super::*;

/// The images convolved.
pub(super) fn convolution(
    images: Tensor<Flex, 4>,
    weight: Tensor<Flex, 4>,
    window: Window,
) -> Tensor<Flex, 4> {
    if window.groups > 1 {
        return depthwise(images, weight, window);
    }
    let [outputs, ..] = weight.dims();
    let [batch, height, width] = output_dims(&images, window);
    let product = patches(images, window).matmul(weight_matrix(weight).transpose());
    product.reshape([batch, height, width, outputs])
}

/// The gradients of the images and of the weight.
pub(super) fn convolution_backward(
    images: Tensor<Flex, 4>,
    weight: Tensor<Flex, 4>,
    output_gradient: Tensor<Flex, 4>,
    window: Window,
) -> (Tensor<Flex, 4>, Tensor<Flex, 4>) {
    if window.groups > 1 {
        return depthwise_backward(images, weight, output_gradient, window);
    }
    let (dims, weight_dims) = (images.dims(), weight.dims());
    let [outputs, inputs, kernel, _] = weight_dims;
    let rows = output_gradient.flatten(0, 2);
    let weight_gradient = rows.clone().transpose().matmul(patches(images, window));
    let weight_gradient = weight_gradient
        .reshape([outputs, kernel * kernel, inputs])
        .swap_dims(1, 2)
        .reshape(weight_dims);
    let images = fold(rows.matmul(weight_matrix(weight)), dims, window);
    (images, weight_gradient)
}

/// Weights `[out, in, kernel, kernel]` as `[out, kernel · kernel · in]`: a patch's
/// order.
fn weight_matrix(weight: Tensor<Flex, 4>) -> Tensor<Flex, 2> {
    let [outputs, inputs, kernel, _] = weight.dims();
    let taps = kernel * kernel;
    weight
        .reshape([outputs, inputs, taps])
        .swap_dims(1, 2)
        .reshape([outputs, taps * inputs])
}

/// Batch, height and width of the output.
fn output_dims<B: Backend>(images: &Tensor<B, 4>, window: Window) -> [usize; 3] {
    let [batch, height, width, _] = images.dims();
    [batch, window.outputs(height), window.outputs(width)]
}

/// Returns the inputs of each output of a dense window, one row per output.
fn patches<B: Backend>(images: Tensor<B, 4>, window: Window) -> Tensor<B, 2> {
    let [_, _, _, channels] = images.dims();
    let [batch, height, width] = output_dims(&images, window);
    let padded = pad(images, window);
    let taps = taps([height, width], window)
        .map(|tap| padded.clone().slice(tap))
        .collect();
    let rows = batch * height * width;
    let columns = window.kernel * window.kernel * channels;
    Tensor::cat(taps, 3).reshape([rows, columns])
}

/// Returns the transpose of [`patches`].
fn fold<B: Backend>(patches: Tensor<B, 2>, images: [usize; 4], window: Window) -> Tensor<B, 4> {
    let [batch, height, width, channels] = images;
    let outputs = [window.outputs(height), window.outputs(width)];
    let columns = window.kernel * window.kernel * channels;
    let patches = patches.reshape([batch, outputs[0], outputs[1], columns]);
    let contributions = (0..window.kernel * window.kernel)
        .map(|tap| patches.clone().narrow(3, tap * channels, channels));
    let device = patches.device();
    scatter(contributions, images, outputs, window, &device)
}

/// Returns the depthwise convolution, one channel at a time.
fn depthwise<B: Backend>(
    images: Tensor<B, 4>,
    weight: Tensor<B, 4>,
    window: Window,
) -> Tensor<B, 4> {
    let [batch, height, width] = output_dims(&images, window);
    let [_, _, _, channels] = images.dims();
    let padded = pad(images, window);
    let zeros = Tensor::zeros([batch, height, width, channels], &padded.device());
    taps([height, width], window)
        .zip(tap_weights(weight))
        .fold(zeros, |sum, (tap, weight)| {
            sum + padded.clone().slice(tap) * weight
        })
}

/// Returns the gradients of the images and of the weight.
fn depthwise_backward<B: Backend>(
    images: Tensor<B, 4>,
    weight: Tensor<B, 4>,
    output_gradient: Tensor<B, 4>,
    window: Window,
) -> (Tensor<B, 4>, Tensor<B, 4>) {
    let (dims, weight_dims) = (images.dims(), weight.dims());
    let [_, height, width] = output_dims(&images, window);
    let padded = pad(images, window);
    let weight_gradient = taps([height, width], window)
        .map(|tap| {
            let products = padded.clone().slice(tap) * output_gradient.clone();
            products
                .sum_dim(0)
                .sum_dim(1)
                .sum_dim(2)
                .reshape([dims[3], 1])
        })
        .collect();
    let weight_gradient = Tensor::cat(weight_gradient, 1).reshape(weight_dims);
    let contributions = tap_weights(weight)
        .into_iter()
        .map(|weight| output_gradient.clone() * weight);
    let device = output_gradient.device();
    let images_gradient = scatter(contributions, dims, [height, width], window, &device);
    (images_gradient, weight_gradient)
}

/// Depthwise weights `[channels, 1, kernel, kernel]`, a `[1, 1, 1, channels]` a tap.
fn tap_weights<B: Backend>(weight: Tensor<B, 4>) -> Vec<Tensor<B, 4>> {
    let [channels, _, kernel, _] = weight.dims();
    let taps = kernel * kernel;
    let rows = weight.reshape([channels, taps]).transpose();
    (0..taps)
        .map(|tap| rows.clone().narrow(0, tap, 1).reshape([1, 1, 1, channels]))
        .collect()
}

/// Adds what each tap contributes, `[batch, outputs.., channels]`, to the images.
fn scatter<B: Backend>(
    contributions: impl Iterator<Item = Tensor<B, 4>>,
    [batch, height, width, channels]: [usize; 4],
    outputs: [usize; 2],
    window: Window,
    device: &B::Device,
) -> Tensor<B, 4> {
    let padding = window.padding;
    let padded = [batch, height + 2 * padding, width + 2 * padding, channels];
    taps(outputs, window)
        .zip(contributions)
        .fold(Tensor::zeros(padded, device), |sum, (tap, contribution)| {
            let added = sum.clone().slice(tap) + contribution;
            sum.slice_assign(tap, added)
        })
        .narrow(1, padding, height)
        .narrow(2, padding, width)
}

/// Returns, for each tap of the window, row by row, the padded pixels that the
/// outputs read through it.
fn taps([height, width]: [usize; 2], window: Window) -> impl Iterator<Item = [Slice; 4]> {
    let along = move |tap: usize, outputs: usize| {
        let end = tap + window.stride * (outputs - 1) + 1;
        Slice::new(tap as isize, Some(end as isize), window.stride as isize)
    };
    (0..window.kernel * window.kernel).map(move |tap| {
        [
            Slice::full(),
            along(tap / window.kernel, height),
            along(tap % window.kernel, width),
            Slice::full(),
        ]
    })
}

fn pad<B: Backend>(images: Tensor<B, 4>, window: Window) -> Tensor<B, 4> {
    let padding = window.padding;
    if padding == 0 {
        return images;
    }
    let [batch, height, width, channels] = images.dims();
    let dims = [batch, height + 2 * padding, width + 2 * padding, channels];
    Tensor::zeros(dims, &images.device()).slice_assign(
        [
            Slice::full(),
            Slice::from(padding..padding + height),
            Slice::from(padding..padding + width),
            Slice::full(),
        ],
        images,
    )
}

/// The features, their norm applied.
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
            let factor = scale.weight.clone() / deviation(&scale);
            (values - scale.moments.mean.unsqueeze()) * factor.unsqueeze()
        }
    };
    scaled + norm.bias.unsqueeze()
}

fn deviation<B: Backend>(scale: &Scale<B>) -> Tensor<B, 1> {
    (scale.moments.variance.clone() + scale.epsilon).sqrt()
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

/// Computes the gradients of the features from that of [`value`].
pub(super) fn value_backward<B: LayerOps>(
    features: Features<B>,
    gradient: Tensor<B, 4>,
) -> FeatureGradients<B> {
    let Features { values, norm, .. } = features;
    let Some(norm) = norm else {
        return FeatureGradients {
            values: gradient,
            norm: None,
        };
    };
    // The gradient before the function.
    let value = || normalised(values.clone(), norm.clone());
    let gradient = match norm.then {
        Function::Identity => gradient,
        Function::Relu => passed(gradient, value()),
        Function::HardSwish => gradient * hard_swish_slope(value()),
    };
    // The gradient of the bias; without a scale, that is all.
    let [batch, height, width, _] = values.dims();
    let count = (batch * height * width) as f64;
    let offset = channel_mean(gradient.clone());
    let bias = offset.clone() * count;
    let Some(scale) = norm.scale else {
        return FeatureGradients {
            values: gradient,
            norm: Some(NormGradients { weight: None, bias }),
        };
    };
    // The gradients of the weight and of the values, which moved the moments.
    let deviation = deviation(&scale);
    let standard = (values - scale.moments.mean.unsqueeze()) / deviation.clone().unsqueeze();
    let slope = channel_mean(gradient.clone() * standard.clone());
    let weight = Some(slope.clone() * count);
    let factor = scale.weight / deviation;
    let values =
        (gradient - offset.unsqueeze() - standard * slope.unsqueeze()) * factor.unsqueeze();
    FeatureGradients {
        values,
        norm: Some(NormGradients { weight, bias }),
    }
}

/// 0 up to -3, then `x / 3 + 1 / 2`, and 1 from 3 on.
fn hard_swish_slope<B: Backend>(values: Tensor<B, 4>) -> Tensor<B, 4> {
    let (low, high) = (
        values.clone().lower_equal_elem(-3.0),
        values.clone().greater_equal_elem(3.0),
    );
    (values / 3.0 + 0.5)
        .mask_fill(low, 0.0)
        .mask_fill(high, 1.0)
}

fn sum<B: LayerOps>(features: Features<B>, shortcut: Option<Features<B>>) -> Tensor<B, 4> {
    let sum = value(features);
    match shortcut {
        Some(shortcut) => sum + value(shortcut),
        None => sum,
    }
}

/// See [`LayerOps::activation`].
pub(super) fn activation<B: LayerOps>(
    features: Features<B>,
    shortcut: Option<Features<B>>,
    rectified: bool,
) -> Tensor<B, 4> {
    let sum = sum(features, shortcut);
    if rectified { relu(sum) } else { sum }
}

/// See [`LayerGradients::activation_backward`].
pub(super) fn activation_backward<B: LayerOps>(
    features: Features<B>,
    shortcut: Option<Features<B>>,
    rectified: bool,
    output_gradient: Tensor<B, 4>,
) -> (FeatureGradients<B>, Option<FeatureGradients<B>>) {
    let gradient = if rectified {
        passed(output_gradient, sum(features.clone(), shortcut.clone()))
    } else {
        output_gradient
    };
    let shortcut = shortcut.map(|shortcut| value_backward(shortcut, gradient.clone()));
    (value_backward(features, gradient), shortcut)
}
