//! The convolution in burn's tensor operations.
//!
//! A dense window becomes a matrix of patches (im2col) and a matrix product, which
//! for a 1×1 window is the images themselves; a depthwise window becomes a sum of
//! shifted products.

use burn::tensor::backend::Backend;
use burn::tensor::{Slice, Tensor};

use super::Window;

/// Most values of one matrix of patches (64 MiB): it bounds the memory of a dense
/// convolution whatever the batch.
const PATCH_VALUES: usize = 1 << 24;

/// The images convolved.
pub(super) fn convolution<B: Backend>(
    images: Tensor<B, 4>,
    weight: Tensor<B, 4>,
    window: Window,
) -> Tensor<B, 4> {
    match window.groups {
        1 => dense(images, weight, window),
        _ => depthwise(images, weight, window),
    }
}

/// The gradients of the images, where they are wanted, and of the weight.
pub(super) fn convolution_backward<B: Backend>(
    images: Tensor<B, 4>,
    weight: Tensor<B, 4>,
    output_gradient: Tensor<B, 4>,
    window: Window,
    images_wanted: bool,
) -> (Option<Tensor<B, 4>>, Tensor<B, 4>) {
    let backward = match window.groups {
        1 => dense_backward,
        _ => depthwise_backward,
    };
    backward(images, weight, output_gradient, window, images_wanted)
}

fn dense<B: Backend>(images: Tensor<B, 4>, weight: Tensor<B, 4>, window: Window) -> Tensor<B, 4> {
    let [outputs, ..] = weight.dims();
    let matrix = weight_matrix(weight);
    let parts = parts(&images, window).map(|(start, length)| {
        let images = images.clone().narrow(0, start, length);
        let [batch, height, width] = output_dims(&images, window);
        patches(images, window)
            .matmul(matrix.clone().transpose())
            .reshape([batch, height, width, outputs])
    });
    Tensor::cat(parts.collect(), 0)
}

fn dense_backward<B: Backend>(
    images: Tensor<B, 4>,
    weight: Tensor<B, 4>,
    output_gradient: Tensor<B, 4>,
    window: Window,
    images_wanted: bool,
) -> (Option<Tensor<B, 4>>, Tensor<B, 4>) {
    let [outputs, inputs, kernel, _] = weight.dims();
    let matrix = weight_matrix(weight);
    let mut weight_gradient = matrix.zeros_like();
    let mut images_gradient = vec![];
    for (start, length) in parts(&images, window) {
        let images = images.clone().narrow(0, start, length);
        let dims = images.dims();
        let [batch, height, width] = output_dims(&images, window);
        let rows = output_gradient
            .clone()
            .narrow(0, start, length)
            .reshape([batch * height * width, outputs]);
        let seen = patches(images, window);
        weight_gradient = weight_gradient + rows.clone().transpose().matmul(seen);
        if images_wanted {
            images_gradient.push(fold(rows.matmul(matrix.clone()), dims, window));
        }
    }
    let weight_gradient = weight_gradient
        .reshape([outputs, kernel * kernel, inputs])
        .swap_dims(1, 2)
        .reshape([outputs, inputs, kernel, kernel]);
    let images_gradient = images_wanted.then(|| Tensor::cat(images_gradient, 0));
    (images_gradient, weight_gradient)
}

/// Weights `[out, in, kernel, kernel]` as `[out, kernel · kernel · in]`: a patch's
/// order.
fn weight_matrix<B: Backend>(weight: Tensor<B, 4>) -> Tensor<B, 2> {
    let [outputs, inputs, kernel, _] = weight.dims();
    let taps = kernel * kernel;
    weight
        .reshape([outputs, inputs, taps])
        .swap_dims(1, 2)
        .reshape([outputs, taps * inputs])
}

/// The start and length of the parts of a batch whose patches are made at once.
fn parts<B: Backend>(
    images: &Tensor<B, 4>,
    window: Window,
) -> impl Iterator<Item = (usize, usize)> + use<B> {
    let [_, _, _, channels] = images.dims();
    let [batch, height, width] = output_dims(images, window);
    let image_values = height * width * channels * window.kernel * window.kernel;
    let length = (PATCH_VALUES / image_values).max(1);
    (0..batch)
        .step_by(length)
        .map(move |start| (start, length.min(batch - start)))
}

/// Batch, height and width of the output.
fn output_dims<B: Backend>(images: &Tensor<B, 4>, window: Window) -> [usize; 3] {
    let [batch, height, width, _] = images.dims();
    [batch, window.outputs(height), window.outputs(width)]
}

/// What each output of a dense window sees, a row an output:
/// `[batch · height' · width', kernel · kernel · channels]`.
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

/// The transpose of [`patches`]: every value added to the pixel that it came from.
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

fn depthwise_backward<B: Backend>(
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

/// For each tap of the window, row by row: the padded pixels that the outputs see
/// through it.
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
