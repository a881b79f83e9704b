//! Everything but the convolution in burn's tensor operations.

use burn::tensor::activation::{log_softmax, relu, softmax};
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};

use super::{FeatureGradients, Features, Function, LayerOps, Moments, Norm, NormGradients, Scale};

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

/// See [`LayerOps::global_average`]: one axis after the other.
pub(super) fn global_average<B: Backend>(values: Tensor<B, 4>) -> Tensor<B, 2> {
    let [batch, _, _, channels] = values.dims();
    values.mean_dim(1).mean_dim(2).reshape([batch, channels])
}

/// See [`LayerOps::global_average_backward`].
pub(super) fn global_average_backward<B: Backend>(
    shape: [usize; 4],
    gradient: Tensor<B, 2>,
) -> Tensor<B, 4> {
    let [batch, height, width, channels] = shape;
    let [down, across] = mean_factors(shape);
    let row = (gradient * across) * down;
    row.reshape([batch, 1, 1, channels])
        .expand([batch, height, width, channels])
}

/// Factors of the means' gradients, down and across the images.
pub(super) fn mean_factors([_, height, width, _]: [usize; 4]) -> [f32; 2] {
    [height, width].map(|length| (1.0 / length as f64) as f32)
}

/// See [`LayerOps::hard_sigmoids`].
pub(super) fn hard_sigmoids<B: Backend>(values: Tensor<B, 2>) -> Tensor<B, 2> {
    ((values + 3.0) / 6.0).clamp(0.0, 1.0)
}

/// See [`LayerOps::hard_sigmoids_backward`].
pub(super) fn hard_sigmoids_backward<B: Backend>(
    values: Tensor<B, 2>,
    gradient: Tensor<B, 2>,
) -> Tensor<B, 2> {
    let shares = (values + 3.0) / 6.0;
    let outside = shares
        .clone()
        .lower_elem(0.0)
        .bool_or(shares.greater_elem(1.0));
    (gradient / 6.0).mask_fill(outside, 0.0)
}

/// See [`LayerOps::excite`].
pub(super) fn excite<B: Backend>(values: Tensor<B, 4>, shares: Tensor<B, 2>) -> Tensor<B, 4> {
    let [batch, channels] = shares.dims();
    values * shares.reshape([batch, 1, 1, channels])
}

/// See [`LayerOps::excite_backward`].
pub(super) fn excite_backward<B: Backend>(
    values: Tensor<B, 4>,
    shares: Tensor<B, 2>,
    gradient: Tensor<B, 4>,
) -> (Tensor<B, 4>, Tensor<B, 2>) {
    let [batch, channels] = shares.dims();
    let sums = (gradient.clone() * values).sum_dim(1).sum_dim(2);
    (excite(gradient, shares), sums.reshape([batch, channels]))
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

/// Returns the gradient where the value is not 0 or less.
fn passed<B: Backend>(gradient: Tensor<B, 4>, value: Tensor<B, 4>) -> Tensor<B, 4> {
    gradient.mask_fill(value.lower_equal_elem(0.0), 0.0)
}

fn sum<B: LayerOps>(features: Features<B>, shortcut: Option<Features<B>>) -> Tensor<B, 4> {
    let sum = B::value(features);
    match shortcut {
        Some(shortcut) => sum + B::value(shortcut),
        None => sum,
    }
}

/// See [`super::LayerOps::activation`].
pub(super) fn activation<B: LayerOps>(
    features: Features<B>,
    shortcut: Option<Features<B>>,
    rectified: bool,
) -> Tensor<B, 4> {
    let sum = sum(features, shortcut);
    if rectified { relu(sum) } else { sum }
}

/// See [`super::LayerOps::activation_backward`].
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
    let shortcut = shortcut.map(|shortcut| B::value_backward(shortcut, gradient.clone()));
    (B::value_backward(features, gradient), shortcut)
}

/// Each window's four values, a row a window and channel.
fn windows<B: Backend>(images: Tensor<B, 4>) -> Tensor<B, 2> {
    let [batch, height, width, channels] = images.dims();
    let [height, width] = [height / 2, width / 2];
    images
        .narrow(1, 0, 2 * height)
        .narrow(2, 0, 2 * width)
        .reshape([batch, height, 2, width, 2, channels])
        .permute([0, 1, 3, 5, 2, 4])
        .reshape([batch * height * width * channels, 4])
}

/// See [`super::LayerOps::pool`].
pub(super) fn pool<B: Backend>(images: Tensor<B, 4>, bias: Tensor<B, 1>) -> Tensor<B, 4> {
    let [batch, height, width, channels] = images.dims();
    let greatest = windows(images).max_dim(1);
    relu(greatest.reshape([batch, height / 2, width / 2, channels]) + bias.unsqueeze())
}

/// See [`super::LayerOps::pool_backward`].
pub(super) fn pool_backward<B: Backend>(
    images: Tensor<B, 4>,
    bias: Tensor<B, 1>,
    output_gradient: Tensor<B, 4>,
) -> (Tensor<B, 4>, Tensor<B, 1>) {
    let dims = images.dims();
    let [batch, height, width, channels] = dims;
    let [half_height, half_width] = [height / 2, width / 2];
    let device = images.device();
    let (greatest, index) = windows(images).max_dim_with_indices(1);
    let value = greatest.reshape(output_gradient.dims()) + bias.unsqueeze();
    let gradient = passed(output_gradient, value);
    let positions = Tensor::<B, 1, Int>::arange(0..4, &device).unsqueeze::<2>();
    let here = index.repeat_dim(1, 4).equal(positions).float();
    let pooled = here * gradient.clone().reshape([-1, 1]);
    let pooled = pooled
        .reshape([batch, half_height, half_width, channels, 2, 2])
        .permute([0, 1, 4, 2, 5, 3])
        .reshape([batch, 2 * half_height, 2 * half_width, channels]);
    let images = Tensor::zeros(dims, &device).slice_assign(
        [0..batch, 0..2 * half_height, 0..2 * half_width, 0..channels],
        pooled,
    );
    let bias = gradient
        .sum_dim(0)
        .sum_dim(1)
        .sum_dim(2)
        .reshape([channels]);
    (images, bias)
}

fn indices<B: Backend>(labels: &[u8], device: &B::Device) -> Tensor<B, 2, Int> {
    let indices: Vec<i64> = labels.iter().map(|&label| i64::from(label)).collect();
    let row = TensorData::new(indices, [labels.len()]);
    Tensor::<B, 1, Int>::from_data(row, device).reshape([labels.len(), 1])
}

/// See [`super::LayerOps::cross_entropy`].
pub(super) fn cross_entropy<B: Backend>(scores: Tensor<B, 2>, labels: &[u8]) -> Tensor<B, 1> {
    let indices = indices(labels, &scores.device());
    log_softmax(scores, 1).gather(1, indices).neg().mean()
}

/// See [`super::LayerOps::cross_entropy_backward`].
pub(super) fn cross_entropy_backward<B: Backend>(
    scores: Tensor<B, 2>,
    labels: &[u8],
    loss_gradient: Tensor<B, 1>,
) -> Tensor<B, 2> {
    let [batch, classes] = scores.dims();
    let device = scores.device();
    let row = Tensor::<B, 1, Int>::arange(0..classes as i64, &device).unsqueeze::<2>();
    let hot = indices(labels, &device)
        .repeat_dim(1, classes)
        .equal(row)
        .float();
    (softmax(scores, 1) - hot) * loss_gradient.unsqueeze() / batch as f64
}
