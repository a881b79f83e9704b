//! Patches of images and back, in one pass each: what a dense convolution's product reads.

use burn::tensor::Shape;
use burn_cubecl::CubeRuntime;
use burn_cubecl::ops::reshape;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{empty, grid};
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
    let (height, width) = (images.shape(1), images.shape(2));
    let channel = ABSOLUTE_POS % channels;
    let tap = (ABSOLUTE_POS / channels) % (kernel * kernel);
    let pixel = ABSOLUTE_POS / (channels * kernel * kernel);
    let x = (pixel % output.shape(2)) * stride + tap % kernel;
    let y = ((pixel / output.shape(2)) % output.shape(1)) * stride + tap / kernel;
    let image = pixel / (output.shape(2) * output.shape(1));
    let mut value = 0.0f32;
    if y >= padding && y < height + padding && x >= padding && x < width + padding {
        let row = (image * height + y - padding) * width + x - padding;
        value = images[row * channels + channel];
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
                    let tap = tap_y * kernel + tap_x;
                    sum += patches[(row * (kernel * kernel) + tap) * channels + channel];
                }
            }
        }
    }
    output[ABSOLUTE_POS] = sum;
}

/// See [`crate::ops::LayerOps::patches`].
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

/// See [`crate::ops::LayerOps::fold`].
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
