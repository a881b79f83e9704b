//! The mean and the biased variance of each channel, in one pass over the values.
//!
//! A block's squares are taken about its first row, which is as far from the mean as any
//! value is, so that no digits cancel as they would about 0. Blocks are joined about their
//! own means (Chan et al. 1979).

use burn::tensor::Shape;
use burn_cubecl::CubeRuntime;
use burn_cubecl::ops::reshape;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{Blocks, empty, grid};

/// One unit per block and channel: the block's mean, and its squares about it.
#[cube(launch)]
fn block_moments(
    values: &Tensor<f32>,
    means: &mut Tensor<f32>,
    squares: &mut Tensor<f32>,
    rows: usize,
    length: usize,
) {
    if ABSOLUTE_POS >= means.len() {
        terminate!();
    }
    let channels = means.shape(1);
    let channel = ABSOLUTE_POS % channels;
    let start = (ABSOLUTE_POS / channels) * length;
    let mut end = start + length;
    if end > rows {
        end = rows;
    }
    let first = values[start * channels + channel];
    let mut sum = 0.0f32;
    let mut square = 0.0f32;
    for row in start..end {
        let apart = values[row * channels + channel] - first;
        sum += apart;
        square += apart * apart;
    }
    let mean = sum / f32::cast_from(end - start);
    means[ABSOLUTE_POS] = first + mean;
    squares[ABSOLUTE_POS] = square - sum * mean;
}

/// One unit per group of blocks and channel. In the last join, the squares are divided by
/// their number.
#[cube(launch)]
#[allow(clippy::too_many_arguments)] // A kernel's arguments are its bindings.
fn join_moments(
    means: &Tensor<f32>,
    squares: &Tensor<f32>,
    joined_means: &mut Tensor<f32>,
    joined_squares: &mut Tensor<f32>,
    rows: usize,
    length: usize,
    group: usize,
    #[comptime] last: bool,
) {
    if ABSOLUTE_POS >= joined_means.len() {
        terminate!();
    }
    let channels = joined_means.shape(1);
    let channel = ABSOLUTE_POS % channels;
    let start = (ABSOLUTE_POS / channels) * group;
    let mut end = start + group;
    if end > means.shape(0) {
        end = means.shape(0);
    }
    // The mean of the group: distances from one mean keep digits.
    let first = means[start * channels + channel];
    let mut count = 0.0f32;
    let mut sum = 0.0f32;
    for block in start..end {
        let of_block = block_rows(block, rows, length);
        count += of_block;
        sum += of_block * (means[block * channels + channel] - first);
    }
    let mean = first + sum / count;
    // Chan, Golub and LeVeque's update of the squares.
    let mut square = 0.0f32;
    for block in start..end {
        let apart = means[block * channels + channel] - mean;
        square += squares[block * channels + channel];
        square += block_rows(block, rows, length) * apart * apart;
    }
    joined_means[ABSOLUTE_POS] = mean;
    if last {
        joined_squares[ABSOLUTE_POS] = square / count;
    } else {
        joined_squares[ABSOLUTE_POS] = square;
    }
}

/// Rows of a block: fewer in the last.
#[cube]
fn block_rows(block: usize, rows: usize, length: usize) -> f32 {
    let start = block * length;
    let mut end = start + length;
    if end > rows {
        end = rows;
    }
    f32::cast_from(end - start)
}

/// The mean and the biased variance, `[channels]` each, of values
/// `[batch, height, width, channels]`.
pub(super) fn moments<R: CubeRuntime>(values: CubeTensor<R>) -> [CubeTensor<R>; 2] {
    let [batch, height, width, channels] = values.meta.shape().dims();
    let rows = batch * height * width;
    // Each block's moments.
    let mut blocks = Blocks::of(rows, channels);
    let shape = [blocks.count, channels];
    let (mut means, mut squares) = (empty(&values, shape), empty(&values, shape));
    let (cubes, cube) = grid(&means);
    block_moments::launch::<R>(
        &values.client.clone(),
        cubes,
        cube,
        values.into_tensor_arg(),
        means.clone().into_tensor_arg(),
        squares.clone().into_tensor_arg(),
        rows,
        blocks.length,
    );
    // Once at least: the last join divides.
    loop {
        let group = blocks.joined();
        let count = blocks.count.div_ceil(group);
        let outputs = [0, 1].map(|_| empty(&means, [count, channels]));
        let (cubes, cube) = grid(&outputs[0]);
        join_moments::launch::<R>(
            &means.client.clone(),
            cubes,
            cube,
            means.into_tensor_arg(),
            squares.into_tensor_arg(),
            outputs[0].clone().into_tensor_arg(),
            outputs[1].clone().into_tensor_arg(),
            rows,
            blocks.length,
            group,
            count == 1,
        );
        if count == 1 {
            return outputs.map(|output| reshape(output, Shape::new([channels])));
        }
        [means, squares] = outputs;
        blocks = Blocks {
            length: blocks.length * group,
            count,
        };
    }
}
