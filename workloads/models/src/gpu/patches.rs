//! Patches of images and back, in one pass each: what a dense convolution's product reads.

use burn::tensor::Shape;
use burn_cubecl::CubeRuntime;
use burn_cubecl::ops::reshape;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{empty, grid};
use super::window::{input_position, output_position, position};
use crate::ops::Window;

/// One unit a value of the patches, `[batch, height', width', taps · channels]`.
#[cube(launch)]
fn gather_patches(
    images: &Tensor<f32>,
    output: &mut Tensor<f32>,
    #[comptime] kernel: usize,
    #[comptime] stride: usize,
    #[comptime] padding: usize,
) {
    if ABSOLUTE_POS >= output.len() {
        terminate!();
    }
    let channels = images.shape(3);
    let channel = ABSOLUTE_POS % channels;
    let tap = (ABSOLUTE_POS / channels) % (kernel * kernel);
    let row = ABSOLUTE_POS / (channels * kernel * kernel);
    let at = position(row, output.shape(1), output.shape(2), 1);
    let pixel = input_position(images, &at, tap / kernel, tap % kernel, stride, padding);
    let mut value = 0.0f32;
    if pixel.in_bounds {
        value = images[pixel.row * channels + channel];
    }
    output[ABSOLUTE_POS] = value;
}

/// One unit a value of the images: the sum over the patches that hold it, which are of
/// `height` × `width` outputs.
#[cube(launch)]
fn fold_patches(
    patches: &Tensor<f32>,
    output: &mut Tensor<f32>,
    height: usize,
    width: usize,
    #[comptime] kernel: usize,
    #[comptime] stride: usize,
    #[comptime] padding: usize,
) {
    if ABSOLUTE_POS >= output.len() {
        terminate!();
    }
    let channels = output.shape(3);
    let at = position(ABSOLUTE_POS, output.shape(1), output.shape(2), channels);
    let mut sum = 0.0f32;
    #[unroll]
    for tap_y in 0..kernel {
        #[unroll]
        for tap_x in 0..kernel {
            let pixel = output_position(&at, height, width, tap_y, tap_x, stride, padding);
            if pixel.in_bounds {
                let tap = tap_y * kernel + tap_x;
                sum += patches[(pixel.row * (kernel * kernel) + tap) * channels + at.channel];
            }
        }
    }
    output[ABSOLUTE_POS] = sum;
}

/// Returns the inputs of each output of a dense window, one row per output:
/// `[batch · height' · width', kernel · kernel · channels]`.
pub(super) fn patches<R: CubeRuntime>(images: CubeTensor<R>, window: Window) -> CubeTensor<R> {
    let [batch, height, width, channels] = images.meta.shape().dims();
    let [height, width] = [height, width].map(|side| window.outputs(side));
    let columns = window.kernel * window.kernel * channels;
    let matrix = Shape::new([batch * height * width, columns]);
    if window.kernel == 1 && window.stride == 1 && window.padding == 0 {
        return reshape(images, matrix);
    }
    let output = empty(&images, [batch, height, width, columns]);
    let (cubes, cube) = grid(&output);
    gather_patches::launch::<R>(
        &output.client,
        cubes,
        cube,
        images.into_tensor_arg(),
        output.clone().into_tensor_arg(),
        window.kernel,
        window.stride,
        window.padding,
    );
    reshape(output, matrix)
}

/// Returns the transpose of [`patches`]: every value added to the pixel of `images` (batch, height,
/// width, channels) that it came from.
pub(super) fn fold<R: CubeRuntime>(
    patches: CubeTensor<R>,
    images: [usize; 4],
    window: Window,
) -> CubeTensor<R> {
    let [_, height, width, _] = images;
    if window.kernel == 1 && window.stride == 1 && window.padding == 0 {
        return reshape(patches, Shape::new(images));
    }
    let output = empty(&patches, images);
    let (cubes, cube) = grid(&output);
    fold_patches::launch::<R>(
        &output.client,
        cubes,
        cube,
        patches.into_tensor_arg(),
        output.clone().into_tensor_arg(),
        window.outputs(height),
        window.outputs(width),
        window.kernel,
        window.stride,
        window.padding,
    );
    output
}
