//! The convolution: a dense window becomes a matrix of patches (im2col) and a matrix product, which
//! for a 1×1 window is the images themselves.

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use burn_cubecl::{BoolElement, CubeBackend, CubeRuntime, IntElement};

use super::launch::{primitive, tensor};
use super::{depthwise, patches, product};
use crate::ops::Window;

/// A tensor of four dimensions on a GPU.
type Tensor4<R, I, B> = Tensor<CubeBackend<R, f32, I, B>, 4>;

/// The gradients of the images, where they are wanted, and of the weight.
type Gradients<R, I, B> = (Option<Tensor4<R, I, B>>, Tensor4<R, I, B>);

/// Most values of one matrix of patches, 1 GiB: it bounds the memory of a dense convolution
/// whatever the batch. Fewer and larger products are faster.
const PATCH_VALUES: usize = 1 << 28;

/// The images convolved.
pub(super) fn forward<R: CubeRuntime, I: IntElement, B: BoolElement>(
    images: Tensor4<R, I, B>,
    weight: Tensor4<R, I, B>,
    window: Window,
) -> Tensor4<R, I, B> {
    if window.groups > 1 {
        let (images, weight) = (primitive(images), primitive(weight));
        return tensor(depthwise::forward(images, weight, window));
    }
    let [outputs, ..] = weight.dims();
    let matrix = weight_matrix(weight);
    let parts = parts(&images, window).map(|part| {
        let images = within(&images, part);
        let [batch, height, width] = output_dims(&images, window);
        let patches = tensor(patches::patches(primitive(images), window));
        product::product(patches, matrix.clone().transpose())
            .reshape([batch, height, width, outputs])
    });
    together(parts.collect())
}

/// The [`Gradients`] of a convolution.
pub(super) fn backward<R: CubeRuntime, I: IntElement, B: BoolElement>(
    images: Tensor4<R, I, B>,
    weight: Tensor4<R, I, B>,
    output_gradient: Tensor4<R, I, B>,
    window: Window,
    images_wanted: bool,
) -> Gradients<R, I, B> {
    if window.groups > 1 {
        let [images, weight, gradient] = [images, weight, output_gradient].map(primitive);
        let images_gradient = images_wanted.then(|| {
            tensor(depthwise::images_gradient(
                weight,
                gradient.clone(),
                images.meta.shape().dims(),
                window,
            ))
        });
        let weight_gradient = depthwise::weight_gradient(images, gradient, window);
        return (images_gradient, tensor(weight_gradient));
    }
    let (weight_dims, device) = (weight.dims(), weight.device());
    let [outputs, inputs, kernel, _] = weight_dims;
    let matrix = weight_matrix(weight);
    let mut weight_gradient: Option<Tensor<_, 2>> = None;
    let mut images_gradient = vec![];
    for part in parts(&images, window) {
        let images = within(&images, part);
        let dims = images.dims();
        let [batch, height, width] = output_dims(&images, window);
        let rows = within(&output_gradient, part).reshape([batch * height * width, outputs]);
        let seen = tensor(patches::patches(primitive(images), window));
        let gradient = product::over_rows(rows.clone(), seen);
        weight_gradient = Some(match weight_gradient {
            None => gradient,
            Some(sum) => sum + gradient,
        });
        if images_wanted {
            let seen = primitive(product::product(rows, matrix.clone()));
            images_gradient.push(tensor(patches::fold(seen, dims, window)));
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
