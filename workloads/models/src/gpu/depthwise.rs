//! The depthwise convolution: forward, and the gradients of the images and of the weight.
//! No loop over groups of channels, and no padded copy.

use burn::tensor::Shape;
use burn_cubecl::CubeRuntime;
use burn_cubecl::ops::reshape;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{Blocks, empty, grid};
use super::sums::joined;
use super::window::{input_position, output_position, position};
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
    let at = position(ABSOLUTE_POS, output.shape(1), output.shape(2), channels);
    let mut sum = 0.0f32;
    #[unroll]
    for tap_y in 0..kernel {
        #[unroll]
        for tap_x in 0..kernel {
            let pixel = input_position(images, &at, tap_y, tap_x, stride, padding);
            if pixel.in_bounds {
                sum += images[pixel.row * channels + at.channel]
                    * weight[(at.channel * kernel + tap_y) * kernel + tap_x];
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
    let at = position(ABSOLUTE_POS, output.shape(1), output.shape(2), channels);
    let (height, width) = (gradient.shape(1), gradient.shape(2));
    let mut sum = 0.0f32;
    #[unroll]
    for tap_y in 0..kernel {
        #[unroll]
        for tap_x in 0..kernel {
            let pixel = output_position(&at, height, width, tap_y, tap_x, stride, padding);
            if pixel.in_bounds {
                sum += gradient[pixel.row * channels + at.channel]
                    * weight[(at.channel * kernel + tap_y) * kernel + tap_x];
            }
        }
    }
    output[ABSOLUTE_POS] = sum;
}

/// One unit per block of outputs, tap and channel: neighbours are neighbouring channels. A
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
    let (height, width) = (gradient.shape(1), gradient.shape(2));
    let channel = ABSOLUTE_POS % channels;
    let tap = (ABSOLUTE_POS / channels) % (kernel * kernel);
    let block = ABSOLUTE_POS / (channels * kernel * kernel);
    let (tap_y, tap_x) = (tap / kernel, tap % kernel);
    let rows = gradient.shape(0) * height * width;
    let start = block * length;
    let mut end = start + length;
    if end > rows {
        end = rows;
    }
    let mut sum = 0.0f32;
    for row in start..end {
        let at = position(row, height, width, 1);
        let pixel = input_position(images, &at, tap_y, tap_x, stride, padding);
        if pixel.in_bounds {
            sum += images[pixel.row * channels + channel] * gradient[row * channels + channel];
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
