//! Tensors as kernels take them, and how many units a kernel is launched on.

use burn::tensor::{DType, Shape, Tensor, TensorPrimitive};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{BoolElement, CubeBackend, CubeRuntime, IntElement};
use cubecl::calculate_cube_count_elemwise;
use cubecl::prelude::*;

/// Units that keep a large GPU busy, beyond which blocks of rows grow instead.
const UNITS: usize = 1 << 17;

/// Fewest rows of a block, where there are as many.
const LEAST_ROWS: usize = 16;

/// A tensor's primitive in row-major order without gaps.
pub(super) fn primitive<R, I, B, const D: usize>(
    tensor: Tensor<CubeBackend<R, f32, I, B>, D>,
) -> CubeTensor<R>
where
    R: CubeRuntime,
    I: IntElement,
    B: BoolElement,
{
    into_contiguous(tensor.into_primitive().tensor())
}

pub(super) fn tensor<R, I, B, const D: usize>(
    primitive: CubeTensor<R>,
) -> Tensor<CubeBackend<R, f32, I, B>, D>
where
    R: CubeRuntime,
    I: IntElement,
    B: BoolElement,
{
    Tensor::from_primitive(TensorPrimitive::Float(primitive))
}

/// A tensor for a kernel to fill, where `like` is.
pub(super) fn empty<R: CubeRuntime, const D: usize>(
    like: &CubeTensor<R>,
    shape: [usize; D],
) -> CubeTensor<R> {
    empty_device_contiguous_dtype(
        like.client.clone(),
        like.device.clone(),
        Shape::new(shape),
        DType::F32,
    )
}

/// Cubes for one unit a value of the output.
pub(super) fn grid<R: CubeRuntime>(output: &CubeTensor<R>) -> (CubeCount, CubeDim) {
    let units = output.meta.num_elements();
    let cube = CubeDim::new(&output.client, units);
    let count = calculate_cube_count_elemwise(&output.client, units, cube);
    (count, cube)
}

/// Rows cut into blocks of equal length, the last one perhaps shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Blocks {
    pub(super) length: usize,
    pub(super) count: usize,
}

impl Blocks {
    /// Returns the blocks for kernels with one unit per block and column.
    pub(super) fn of(rows: usize, columns: usize) -> Self {
        let wanted = (UNITS / columns).max(1);
        let length = rows.div_ceil(wanted).max(LEAST_ROWS);
        Self {
            length,
            count: rows.div_ceil(length),
        }
    }

    /// Returns the number of blocks that a unit joins, so that few joins follow: all of
    /// them up to 256.
    pub(super) fn joined(self) -> usize {
        match self.count {
            0..=256 => self.count,
            many => (many as f64).sqrt().ceil() as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_all_rows_and_one_or_two_joins_are_left() {
        for (rows, columns) in [(1, 1), (1, 1024), (17, 3), (524_288, 32), (2_048, 1024)] {
            let blocks = Blocks::of(rows, columns);
            assert!(blocks.length * (blocks.count - 1) < rows);
            assert!(blocks.length * blocks.count >= rows);
            let groups = blocks.count.div_ceil(blocks.joined());
            assert!(groups <= blocks.joined().max(1), "{blocks:?}");
        }
    }
}
