//! Sums over blocks of rows, joined to one.

use burn_cubecl::CubeRuntime;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{Blocks, empty, grid};

/// One unit per group of blocks and column.
#[cube(launch)]
fn join_blocks(blocks: &Tensor<f32>, output: &mut Tensor<f32>, group: usize) {
    if ABSOLUTE_POS >= output.len() {
        terminate!();
    }
    let columns = output.shape(1);
    let column = ABSOLUTE_POS % columns;
    let start = (ABSOLUTE_POS / columns) * group;
    let mut end = start + group;
    if end > blocks.shape(0) {
        end = blocks.shape(0);
    }
    let mut sum = 0.0f32;
    for block in start..end {
        sum += blocks[block * columns + column];
    }
    output[ABSOLUTE_POS] = sum;
}

/// The sum of rows `[blocks, columns]`, `[1, columns]`.
pub(super) fn joined<R: CubeRuntime>(mut blocks: CubeTensor<R>) -> CubeTensor<R> {
    loop {
        let [count, columns] = blocks.meta.shape().dims();
        if count == 1 {
            return blocks;
        }
        let group = Blocks { length: 1, count }.joined();
        let output = empty(&blocks, [count.div_ceil(group), columns]);
        let (cubes, cube) = grid(&output);
        join_blocks::launch::<R>(
            &output.client,
            cubes,
            cube,
            blocks.into_tensor_arg(),
            output.clone().into_tensor_arg(),
            group,
        );
        blocks = output;
    }
}
