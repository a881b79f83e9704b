//! The depthwise convolution: forward, and the gradients of the images and of the weight.
//! No loop over groups of channels, and no padded copy.

use burn::tensor::Shape;
use burn_cubecl::CubeRuntime;
use burn_cubecl::ops::reshape;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{Blocks, empty, grid};
use super::sums::joined;
use crate::ops::Window;

/// One unit an output: the sum over the taps.
#[cube(launch)]
fn depthwise_forward(
    images: &Tensor<f32>,
    weight: &Tensor<f32>,
    output: &mut Tensor<f32>,
    #[comptime] kernel: usize,
    #[comptime] stride: usize,
    #[comptime] padding: usize,
) {
    if ABSOLUTE_POS >= output.len() {
        terminate!();
    }
    let channels = images.shape(3);
    let (height, width) = (images.shape(1), images.shape(2));
    let channel = ABSOLUTE_POS % channels;
    let pixel = ABSOLUTE_POS / channels;
    let x = pixel % output.shape(2);
    let y = (pixel / output.shape(2)) % output.shape(1);
    let image = pixel / (output.shape(2) * output.shape(1));
    let mut sum = 0.0f32;
    #[unroll]
    for tap_y in 0..kernel {
        let from_y = y * stride + tap_y;
        #[unroll]
        for tap_x in 0..kernel {
            let from_x = x * stride + tap_x;
            if from_y >= padding
                && from_y < height + padding
                && from_x >= padding
                && from_x < width + padding
            {
                let row = (image * height + from_y - padding) * width + from_x - padding;
                sum += images[row * channels + channel]
                    * weight[(channel * kernel + tap_y) * kernel + tap_x];
            }
        }
    }
    output[ABSOLUTE_POS] = sum;
}

/// One unit a value of the images: the sum over the outputs that saw it.
#[cube(launch)]
fn depthwise_images(
    gradient: &Tensor<f32>,
    weight: &Tensor<f32>,
    output: &mut Tensor<f32>,
    #[comptime] kernel: usize,
    #[comptime] stride: usize,
    #[comptime] padding: usize,
) {
    if ABSOLUTE_POS >= output.len() {
        terminate!();
    }
    let channels = output.shape(3);
    let (height, width) = (gradient.shape(1), gradient.shape(2));
    let channel = ABSOLUTE_POS % channels;
    let pixel = ABSOLUTE_POS / channels;
    let x = pixel % output.shape(2) + padding;
    let y = (pixel / output.shape(2)) % output.shape(1) + padding;
    let image = pixel / (output.shape(2) * output.shape(1));
    let mut sum = 0.0f32;
    #[unroll]
    for tap_y in 0..kernel {
        #[unroll]
        for tap_x in 0..kernel {
            if y >= tap_y && x >= tap_x {
                let (from_y, from_x) = (y - tap_y, x - tap_x);
                let (at_y, at_x) = (from_y / stride, from_x / stride);
                if at_y * stride == from_y
                    && at_x * stride == from_x
                    && at_y < height
                    && at_x < width
                {
                    let row = (image * height + at_y) * width + at_x;
                    sum += gradient[row * channels + channel]
                        * weight[(channel * kernel + tap_y) * kernel + tap_x];
                }
            }
        }
    }
    output[ABSOLUTE_POS] = sum;
}

/// One unit a block of outputs, tap and channel: neighbours are neighbouring channels. A
/// block's sums are in the weight's order.
#[cube(launch)]
fn depthwise_weight(
    images: &Tensor<f32>,
    gradient: &Tensor<f32>,
    sums: &mut Tensor<f32>,
    length: usize,
    #[comptime] kernel: usize,
    #[comptime] stride: usize,
    #[comptime] padding: usize,
) {
    if ABSOLUTE_POS >= sums.len() {
        terminate!();
    }
    let channels = images.shape(3);
    let (height, width) = (images.shape(1), images.shape(2));
    let channel = ABSOLUTE_POS % channels;
    let tap = (ABSOLUTE_POS / channels) % (kernel * kernel);
    let block = ABSOLUTE_POS / (channels * kernel * kernel);
    let (tap_y, tap_x) = (tap / kernel, tap % kernel);
    let rows = gradient.shape(0) * gradient.shape(1) * gradient.shape(2);
    let start = block * length;
    let mut end = start + length;
    if end > rows {
        end = rows;
    }
    let mut sum = 0.0f32;
    for row in start..end {
        let from_x = (row % gradient.shape(2)) * stride + tap_x;
        let line = row / gradient.shape(2);
        let from_y = (line % gradient.shape(1)) * stride + tap_y;
        let image = line / gradient.shape(1);
        if from_y >= padding
            && from_y < height + padding
            && from_x >= padding
            && from_x < width + padding
        {
            let pixel = (image * height + from_y - padding) * width + from_x - padding;
            sum += images[pixel * channels + channel] * gradient[row * channels + channel];
        }
    }
    sums[(block * channels + channel) * kernel * kernel + tap] = sum;
}

/// Images `[batch, height, width, channels]` and weight `[channels, 1, kernel, kernel]` to
/// `[batch, height', width', channels]`.
pub(super) fn forward<R: CubeRuntime>(
    images: CubeTensor<R>,
    weight: CubeTensor<R>,
    window: Window,
) -> CubeTensor<R> {
    let [batch, height, width, channels] = images.meta.shape().dims();
    let shape = [
        batch,
        window.outputs(height),
        window.outputs(width),
        channels,
    ];
    let output = empty(&images, shape);
    let (cubes, cube) = grid(&output);
    depthwise_forward::launch::<R>(
        &output.client,
        cubes,
        cube,
        images.into_tensor_arg(),
        weight.into_tensor_arg(),
        output.clone().into_tensor_arg(),
        window.kernel,
        window.stride,
        window.padding,
    );
    output
}

/// The gradient of images of that shape.
pub(super) fn images_gradient<R: CubeRuntime>(
    weight: CubeTensor<R>,
    gradient: CubeTensor<R>,
    images: [usize; 4],
    window: Window,
) -> CubeTensor<R> {
    let output = empty(&gradient, images);
    let (cubes, cube) = grid(&output);
    depthwise_images::launch::<R>(
        &output.client,
        cubes,
        cube,
        gradient.into_tensor_arg(),
        weight.into_tensor_arg(),
        output.clone().into_tensor_arg(),
        window.kernel,
        window.stride,
        window.padding,
    );
    output
}

/// The gradient of the weight, `[channels, 1, kernel, kernel]`.
pub(super) fn weight_gradient<R: CubeRuntime>(
    images: CubeTensor<R>,
    gradient: CubeTensor<R>,
    window: Window,
) -> CubeTensor<R> {
    let [batch, height, width, channels] = gradient.meta.shape().dims();
    let columns = channels * window.kernel * window.kernel;
    let blocks = Blocks::of(batch * height * width, columns);
    let sums = empty(&gradient, [blocks.count, columns]);
    let (cubes, cube) = grid(&sums);
    depthwise_weight::launch::<R>(
        &sums.client,
        cubes,
        cube,
        images.into_tensor_arg(),
        gradient.into_tensor_arg(),
        sums.clone().into_tensor_arg(),
        blocks.length,
        window.kernel,
        window.stride,
        window.padding,
    );
    let shape = Shape::new([channels, 1, window.kernel, window.kernel]);
    reshape(joined(sums), shape)
}
