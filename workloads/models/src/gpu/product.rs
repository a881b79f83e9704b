//! Matrix products in the step's precision.
//!
//! Kernels are taken by name. burn's own product tries them and takes the fastest: those on tensor
//! cores round `f32` to TF32 (10 bits of mantissa in place of 23), so that bits would depend on
//! times, and some are wrong for some lengths of the sum ([`without_tensor_cores`]).

use burn::tensor::{DType, Shape, Tensor};
use burn_cubecl::kernel::cast;
use burn_cubecl::ops::reshape;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{BoolElement, CubeBackend, CubeRuntime, IntElement};
use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems};
use cubek::matmul::launch::{Strategy, launch_ref};
use cubek::matmul::routines::double_unit::DoubleUnitSelectionArgs;
use cubek::matmul::routines::simple_unit::SimpleUnitSelectionArgs;
use cubek::matmul::routines::{BlueprintStrategy, TileSizeSelection};
use cubek::std::InputBinding;

use super::launch::{empty, primitive, tensor};
use super::sums::joined;
use crate::Precision;
use crate::ops::precision;

/// Tiles of 64×64 outputs that keep a large GPU busy.
const TILES: usize = 256;

/// Most parts of a long sum: their sums are joined in one pass.
const PARTS: usize = 64;

/// Fewest rows of a part.
const PART_ROWS: usize = 256;

/// Longest part of a sum that cubek's kernels without tensor cores take at once.
const LONGEST_PART: usize = 16;

/// `left · right`, over the leading axis apart where there are three.
pub(super) fn product<R: CubeRuntime, I: IntElement, B: BoolElement, const D: usize>(
    left: Tensor<CubeBackend<R, f32, I, B>, D>,
    right: Tensor<CubeBackend<R, f32, I, B>, D>,
) -> Tensor<CubeBackend<R, f32, I, B>, D> {
    let [of_left, of_right] = [&left, &right].map(|side| {
        let primitive = side.clone().into_primitive();
        primitive.tensor()
    });
    let precision = precision::current();
    let [of_left, of_right] = match precision {
        Precision::Fp32 | Precision::Tf32 => [of_left, of_right],
        Precision::Bf16 => [of_left, of_right].map(|side| cast(side, DType::BF16)),
    };
    let axis = D - 1;
    let (m, k) = (of_left.meta.shape()[axis - 1], of_left.meta.shape()[axis]);
    let n = of_right.meta.shape()[axis];
    let kernels = match precision {
        Precision::Fp32 => vec![without_tensor_cores(m, k, n)],
        _ => vec![on_tensor_cores(), without_tensor_cores(m, k, n)],
    };
    kernels
        .iter()
        .find_map(|kernel| launched::<R, D>(kernel, &of_left, &of_right))
        .map_or_else(|| left.matmul(right), tensor)
}

/// None where the kernel does not take these shapes or types, or not on this device.
fn launched<R: CubeRuntime, const D: usize>(
    kernel: &Strategy,
    left: &CubeTensor<R>,
    right: &CubeTensor<R>,
) -> Option<CubeTensor<R>> {
    let mut shape: [usize; D] = left.meta.shape().dims();
    shape[D - 1] = right.meta.shape()[D - 1];
    let output = empty(left, shape);
    let [of_left, of_right, of_output] = [left, right, &output].map(|side| side.dtype.into());
    let mut types = MatmulElems::from_globals(&MatmulGlobalElems {
        lhs: of_left,
        rhs: of_right,
        out: of_output,
    });
    let launched = launch_ref(
        kernel,
        &output.client,
        InputBinding::new(left.clone().binding(), of_left),
        InputBinding::new(right.clone().binding(), of_right),
        output.clone().binding(),
        &mut types,
    );
    launched.is_ok().then_some(output)
}

/// One part of the sum at a time; see [`without_tensor_cores`].
fn on_tensor_cores() -> Strategy {
    Strategy::SimpleCyclicCmma(BlueprintStrategy::default())
}

/// cubek's kernel that reads the next part of the sum while it adds this one, where it is right.
///
/// In cubek 0.2 it takes an even number of parts (of 8 or 16 here), and checks whether the last
/// lies within the sum only where the length of a part does not divide the sum's: to a sum of
/// one part, or of three, it adds what lies beyond. That with one part at a time does not.
fn without_tensor_cores(m: usize, k: usize, n: usize) -> Strategy {
    let tile_size = TileSizeSelection::MaxTileSize;
    if m > 1 && n > 1 && k.is_multiple_of(2 * LONGEST_PART) {
        let arguments = DoubleUnitSelectionArgs { tile_size };
        return Strategy::DoubleUnit(BlueprintStrategy::Inferred(arguments));
    }
    let arguments = SimpleUnitSelectionArgs { tile_size };
    Strategy::SimpleUnit(BlueprintStrategy::Inferred(arguments))
}

/// `leftᵀ · right` of rows `[rows, m]` and `[rows, n]`.
///
/// Weights are small and rows many: one sum over all rows would keep few units busy, so parts
/// of the rows are summed at the same time.
pub(super) fn over_rows<R: CubeRuntime, I: IntElement, B: BoolElement>(
    left: Tensor<CubeBackend<R, f32, I, B>, 2>,
    right: Tensor<CubeBackend<R, f32, I, B>, 2>,
) -> Tensor<CubeBackend<R, f32, I, B>, 2> {
    let ([rows, m], [_, n]) = (left.dims(), right.dims());
    let parts = parts(rows, m, n);
    if parts == 1 {
        return product(left.transpose(), right);
    }
    let left = left.reshape([parts, rows / parts, m]).swap_dims(1, 2);
    let right = right.reshape([parts, rows / parts, n]);
    let sums = primitive(product(left, right));
    let sum = joined(reshape(sums, Shape::new([parts, m * n])));
    tensor(reshape(sum, Shape::new([m, n])))
}

/// Into how many equal parts the rows are cut.
fn parts(rows: usize, m: usize, n: usize) -> usize {
    let tiles = m.div_ceil(64) * n.div_ceil(64);
    let mut parts = 1;
    while parts < PARTS
        && tiles * parts < TILES
        && rows.is_multiple_of(2 * parts)
        && rows / (2 * parts) >= PART_ROWS
    {
        parts *= 2;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_cut_evenly_and_no_further_than_it_helps() {
        assert_eq!(parts(512 * 1024, 64, 64), 64);
        assert_eq!(parts(512 * 4, 1024, 1024), 1);
        assert_eq!(parts(512 * 16, 512, 512), 4);
        assert_eq!(parts(511, 10, 10), 1);
        assert_eq!(parts(1_022, 10, 10), 2);
    }
}
