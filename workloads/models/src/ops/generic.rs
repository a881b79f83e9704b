//! The convolution in burn's tensor operations.
//!
//! A dense window becomes a matrix of patches (im2col) and a matrix product, which
//! for a 1×1 window is the images themselves; a depthwise window becomes a sum of
//! shifted products.

use burn::tensor::backend::Backend;
use burn::tensor::ops::FloatTensor;
use burn::tensor::{Slice, Tensor, TensorPrimitive};

use super::{ConvolutionOps, Window};

/// Most values of one matrix of patches (64 MiB): it bounds the memory of a dense
/// convolution whatever the batch.
const PATCH_VALUES: usize = 1 << 24;

/// A dense window: see [`ConvolutionOps::convolution`].
pub(super) fn dense<B: ConvolutionOps>(
    images: FloatTensor<B>,
    weight: FloatTensor<B>,
    window: Window,
) -> FloatTensor<B> {
    let (images, weight) = (lift::<B, 4>(images), lift::<B, 4>(weight));
    let [outputs, ..] = weight.dims();
    let matrix = weight_matrix(weight);
    let parts = parts(&images, window).map(|(start, length)| {
        let images = images.clone().narrow(0, start, length);
        let [batch, height, width] = output_dims(&images, window);
        rows_seen(images, window)
            .matmul(matrix.clone().transpose())
            .reshape([batch, height, width, outputs])
    });
    lower(Tensor::cat(parts.collect(), 0))
}

/// A dense window: see [`ConvolutionOps::convolution_backward`].
pub(super) fn dense_backward<B: ConvolutionOps>(
    images: FloatTensor<B>,
    weight: FloatTensor<B>,
    output_gradient: FloatTensor<B>,
    window: Window,
    images_wanted: bool,
) -> (Option<FloatTensor<B>>, FloatTensor<B>) {
    let (images, weight) = (lift::<B, 4>(images), lift::<B, 4>(weight));
    let output_gradient = lift::<B, 4>(output_gradient);
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
        let seen = rows_seen(images, window);
        weight_gradient = weight_gradient + rows.clone().transpose().matmul(seen);
        if images_wanted {
            let patches = rows.matmul(matrix.clone());
            images_gradient.push(unseen(patches, dims, window));
        }
    }
    let weight_gradient = weight_gradient.reshape([outputs, kernel * kernel, inputs]);
    let weight_gradient: Tensor<B, 3> = lift(B::transpose_matrices(lower(weight_gradient)));
    let weight_gradient = weight_gradient.reshape([outputs, inputs, kernel, kernel]);
    let images_gradient = images_wanted.then(|| lower(Tensor::cat(images_gradient, 0)));
    (images_gradient, lower(weight_gradient))
}

/// Weights `[out, in, kernel, kernel]` as `[out, kernel · kernel · in]`: a patch's
/// order.
fn weight_matrix<B: ConvolutionOps>(weight: Tensor<B, 4>) -> Tensor<B, 2> {
    let [outputs, inputs, kernel, _] = weight.dims();
    let taps = kernel * kernel;
    let matrices = weight.reshape([outputs, inputs, taps]);
    lift::<B, 3>(B::transpose_matrices(lower(matrices))).reshape([outputs, taps * inputs])
}

/// See [`ConvolutionOps::transpose_matrices`].
pub(super) fn transpose_matrices<B: Backend>(matrices: FloatTensor<B>) -> FloatTensor<B> {
    lower(lift::<B, 3>(matrices).swap_dims(1, 2))
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

/// The matrix of patches; of a 1×1 window, the images themselves.
fn rows_seen<B: ConvolutionOps>(images: Tensor<B, 4>, window: Window) -> Tensor<B, 2> {
    let [batch, height, width, channels] = images.dims();
    if window == Window::one(1) {
        return images.reshape([batch * height * width, channels]);
    }
    lift(B::patches(lower(images), window))
}

/// The transpose of [`rows_seen`].
fn unseen<B: ConvolutionOps>(
    patches: Tensor<B, 2>,
    images: [usize; 4],
    window: Window,
) -> Tensor<B, 4> {
    if window == Window::one(1) {
        return patches.reshape(images);
    }
    lift(B::fold(lower(patches), images, window))
}

/// See [`ConvolutionOps::patches`].
pub(super) fn patches<B: Backend>(images: FloatTensor<B>, window: Window) -> FloatTensor<B> {
    let images = lift::<B, 4>(images);
    let [_, _, _, channels] = images.dims();
    let [batch, height, width] = output_dims(&images, window);
    let padded = pad(images, window);
    let taps = taps([height, width], window)
        .map(|tap| padded.clone().slice(tap))
        .collect();
    let rows = batch * height * width;
    let columns = window.kernel * window.kernel * channels;
    lower(Tensor::cat(taps, 3).reshape([rows, columns]))
}

/// See [`ConvolutionOps::fold`].
pub(super) fn fold<B: Backend>(
    patches: FloatTensor<B>,
    images: [usize; 4],
    window: Window,
) -> FloatTensor<B> {
    let [batch, height, width, channels] = images;
    let outputs = [window.outputs(height), window.outputs(width)];
    let columns = window.kernel * window.kernel * channels;
    let patches = lift::<B, 2>(patches).reshape([batch, outputs[0], outputs[1], columns]);
    let contributions = (0..window.kernel * window.kernel)
        .map(|tap| patches.clone().narrow(3, tap * channels, channels));
    let device = patches.device();
    lower(scatter(contributions, images, outputs, window, &device))
}

/// See [`ConvolutionOps::depthwise`].
pub(super) fn depthwise<B: Backend>(
    images: FloatTensor<B>,
    weight: FloatTensor<B>,
    window: Window,
) -> FloatTensor<B> {
    let images = lift::<B, 4>(images);
    let [batch, height, width] = output_dims(&images, window);
    let [_, _, _, channels] = images.dims();
    let padded = pad(images, window);
    let zeros = Tensor::zeros([batch, height, width, channels], &padded.device());
    let sum = taps([height, width], window)
        .zip(tap_weights(lift(weight)))
        .fold(zeros, |sum, (tap, weight)| {
            sum + padded.clone().slice(tap) * weight
        });
    lower(sum)
}

/// See [`ConvolutionOps::depthwise_backward`].
pub(super) fn depthwise_backward<B: Backend>(
    images: FloatTensor<B>,
    weight: FloatTensor<B>,
    output_gradient: FloatTensor<B>,
    window: Window,
    images_wanted: bool,
) -> (Option<FloatTensor<B>>, FloatTensor<B>) {
    let (images, weight) = (lift::<B, 4>(images), lift::<B, 4>(weight));
    let output_gradient = lift::<B, 4>(output_gradient);
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
        lower(scatter(
            contributions,
            dims,
            [height, width],
            window,
            &device,
        ))
    });
    (images_gradient, lower(weight_gradient))
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

fn lift<B: Backend, const D: usize>(tensor: FloatTensor<B>) -> Tensor<B, D> {
    Tensor::from_primitive(TensorPrimitive::Float(tensor))
}

fn lower<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> FloatTensor<B> {
    tensor.into_primitive().tensor()
}
