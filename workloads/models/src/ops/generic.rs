//! The convolution in burn's tensor operations.
//!
//! A dense window becomes a matrix of patches (im2col) and a matrix product, which
//! for a 1×1 window is the images themselves; a depthwise window becomes a sum of
//! shifted products.

use burn::tensor::backend::Backend;
use burn::tensor::{Slice, Tensor};

use super::{LayerOps, Window};

/// The images convolved.
pub(super) fn convolution<B: LayerOps>(
    images: Tensor<B, 4>,
    weight: Tensor<B, 4>,
    window: Window,
) -> Tensor<B, 4> {
    match window.groups {
        1 => dense(images, weight, window),
        _ => B::depthwise(images, weight, window),
    }
}

/// The gradients of the images, where they are wanted, and of the weight.
pub(super) fn convolution_backward<B: LayerOps>(
    images: Tensor<B, 4>,
    weight: Tensor<B, 4>,
    output_gradient: Tensor<B, 4>,
    window: Window,
    images_wanted: bool,
) -> (Option<Tensor<B, 4>>, Tensor<B, 4>) {
    let backward = match window.groups {
        1 => dense_backward,
        _ => B::depthwise_backward,
    };
    backward(images, weight, output_gradient, window, images_wanted)
}

fn dense<B: LayerOps>(images: Tensor<B, 4>, weight: Tensor<B, 4>, window: Window) -> Tensor<B, 4> {
    let [outputs, ..] = weight.dims();
    let matrix = weight_matrix(weight);
    let parts = parts(&images, window).map(|part| {
        let images = within(&images, part);
        let [batch, height, width] = output_dims(&images, window);
        let patches = B::patches(images, window);
        B::product(patches, matrix.clone().transpose()).reshape([batch, height, width, outputs])
    });
    together(parts.collect())
}

fn dense_backward<B: LayerOps>(
    images: Tensor<B, 4>,
    weight: Tensor<B, 4>,
    output_gradient: Tensor<B, 4>,
    window: Window,
    images_wanted: bool,
) -> (Option<Tensor<B, 4>>, Tensor<B, 4>) {
    let (weight_dims, device) = (weight.dims(), weight.device());
    let [outputs, inputs, kernel, _] = weight_dims;
    let matrix = weight_matrix(weight);
    let mut weight_gradient: Option<Tensor<B, 2>> = None;
    let mut images_gradient = vec![];
    for part in parts(&images, window) {
        let images = within(&images, part);
        let dims = images.dims();
        let [batch, height, width] = output_dims(&images, window);
        let rows = within(&output_gradient, part).reshape([batch * height * width, outputs]);
        let seen = B::patches(images, window);
        let gradient = B::product_over_rows(rows.clone(), seen);
        weight_gradient = Some(match weight_gradient {
            None => gradient,
            Some(sum) => sum + gradient,
        });
        if images_wanted {
            images_gradient.push(B::fold(B::product(rows, matrix.clone()), dims, window));
        }
    }
    let weight_gradient = match weight_gradient {
        None => Tensor::zeros(weight_dims, &device),
        Some(gradient) if kernel == 1 => gradient.reshape(weight_dims),
        Some(gradient) => gradient
            .reshape([outputs, kernel * kernel, inputs])
            .swap_dims(1, 2)
            .reshape(weight_dims),
    };
    let images_gradient = images_wanted.then(|| together(images_gradient));
    (images_gradient, weight_gradient)
}

/// Returns the images of a part: no copy where it is all of them.
fn within<B: Backend>(images: &Tensor<B, 4>, (start, length): (usize, usize)) -> Tensor<B, 4> {
    if length == images.dims()[0] {
        images.clone()
    } else {
        images.clone().narrow(0, start, length)
    }
}

/// Parts of a batch as one: no copy of a single one.
fn together<B: Backend>(mut parts: Vec<Tensor<B, 4>>) -> Tensor<B, 4> {
    match (parts.len(), parts.pop()) {
        (1, Some(part)) => part,
        (_, last) => {
            parts.extend(last);
            Tensor::cat(parts, 0)
        }
    }
}

/// Weights `[out, in, kernel, kernel]` as `[out, kernel · kernel · in]`: a patch's
/// order.
fn weight_matrix<B: Backend>(weight: Tensor<B, 4>) -> Tensor<B, 2> {
    let [outputs, inputs, kernel, _] = weight.dims();
    let taps = kernel * kernel;
    if taps == 1 {
        return weight.reshape([outputs, inputs]);
    }
    weight
        .reshape([outputs, inputs, taps])
        .swap_dims(1, 2)
        .reshape([outputs, taps * inputs])
}

/// Returns the start and length of the parts of a batch whose patches are made at once.
fn parts<B: LayerOps>(
    images: &Tensor<B, 4>,
    window: Window,
) -> impl Iterator<Item = (usize, usize)> + use<B> {
    let [_, _, _, channels] = images.dims();
    let [batch, height, width] = output_dims(images, window);
    let image_values = height * width * channels * window.kernel * window.kernel;
    let length = (B::PATCH_VALUES / image_values).max(1);
    (0..batch)
        .step_by(length)
        .map(move |start| (start, length.min(batch - start)))
}

/// Batch, height and width of the output.
fn output_dims<B: Backend>(images: &Tensor<B, 4>, window: Window) -> [usize; 3] {
    let [batch, height, width, _] = images.dims();
    [batch, window.outputs(height), window.outputs(width)]
}

/// See [`LayerOps::patches`].
pub(super) fn patches<B: Backend>(images: Tensor<B, 4>, window: Window) -> Tensor<B, 2> {
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

/// See [`LayerOps::fold`].
pub(super) fn fold<B: Backend>(
    patches: Tensor<B, 2>,
    images: [usize; 4],
    window: Window,
) -> Tensor<B, 4> {
    let [batch, height, width, channels] = images;
    let outputs = [window.outputs(height), window.outputs(width)];
    let columns = window.kernel * window.kernel * channels;
    let patches = patches.reshape([batch, outputs[0], outputs[1], columns]);
    let contributions = (0..window.kernel * window.kernel)
        .map(|tap| patches.clone().narrow(3, tap * channels, channels));
    let device = patches.device();
    scatter(contributions, images, outputs, window, &device)
}

/// See [`LayerOps::depthwise`].
pub(super) fn depthwise<B: Backend>(
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

/// See [`LayerOps::depthwise_backward`].
pub(super) fn depthwise_backward<B: Backend>(
    images: Tensor<B, 4>,
    weight: Tensor<B, 4>,
    output_gradient: Tensor<B, 4>,
    window: Window,
    images_wanted: bool,
) -> (Option<Tensor<B, 4>>, Tensor<B, 4>) {
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
    let images_gradient = images_wanted.then(|| {
        let contributions = tap_weights(weight)
            .into_iter()
            .map(|weight| output_gradient.clone() * weight);
        let device = output_gradient.device();
        scatter(contributions, dims, [height, width], window, &device)
    });
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
