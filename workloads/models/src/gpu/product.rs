//! Matrix products in the step's precision.
//!
//! burn's own product picks the fastest kernel by trying them, and those on tensor cores round
//! `f32` to TF32 (10 bits of mantissa in place of 23). So `fp32` takes a kernel without tensor
//! cores by name, and `tf32` is burn's choice.

use std::cell::Cell;

use burn::tensor::{DType, Shape, Tensor};
use burn_cubecl::kernel::cast;
use burn_cubecl::kernel::matmul::{MatmulStrategy, matmul};
use burn_cubecl::ops::reshape;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{BoolElement, CubeBackend, CubeRuntime, IntElement};
use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems};
use cubek::matmul::launch::{Strategy, launch_ref};
use cubek::matmul::routines::double_unit::DoubleUnitSelectionArgs;
use cubek::matmul::routines::{BlueprintStrategy, TileSizeSelection};
use cubek::std::InputBinding;

use super::launch::{empty, primitive, tensor};
use super::sums::joined;
use crate::Precision;

/// Tiles of 64×64 outputs that keep a large GPU busy.
const TILES: usize = 256;

/// Most parts of a long sum: their sums are joined in one pass.
const PARTS: usize = 64;

/// Fewest rows of a part.
const PART_ROWS: usize = 256;

thread_local! {
    /// Of the step that this thread is in: the operations of a backend have no other argument.
    static PRECISION: Cell<Precision> = const { Cell::new(Precision::Fp32) };
}

/// Runs `work` with products of that precision on this thread.
pub(super) fn at<T>(precision: Precision, work: impl FnOnce() -> T) -> T {
    /// Puts back what was before, also after a panic.
    struct Before(Precision);
    impl Drop for Before {
        fn drop(&mut self) {
            PRECISION.set(self.0);
        }
    }
    let _before = Before(PRECISION.replace(precision));
    work()
}

/// `left · right`, over the leading axis apart where there are three.
pub(super) fn product<R: CubeRuntime, I: IntElement, B: BoolElement, const D: usize>(
    left: Tensor<CubeBackend<R, f32, I, B>, D>,
    right: Tensor<CubeBackend<R, f32, I, B>, D>,
) -> Tensor<CubeBackend<R, f32, I, B>, D> {
    let [of_left, of_right] = [&left, &right].map(|side| {
        let primitive = side.clone().into_primitive();
        primitive.tensor()
    });
    let found = match PRECISION.get() {
        Precision::Fp32 => without_tensor_cores(of_left, of_right),
        Precision::Tf32 => None,
        Precision::Bf16 => rounded(of_left, of_right),
    };
    found.map_or_else(|| left.matmul(right), tensor)
}

/// None where the kernel does not take these shapes.
fn without_tensor_cores<R: CubeRuntime>(
    left: CubeTensor<R>,
    right: CubeTensor<R>,
) -> Option<CubeTensor<R>> {
    let mut shape = left.meta.shape().clone();
    let last = shape.num_dims() - 1;
    shape[last] = right.meta.shape()[last];
    let output = match last {
        1 => empty(&left, shape.dims::<2>()),
        _ => empty(&left, shape.dims::<3>()),
    };
    let strategy = Strategy::DoubleUnit(BlueprintStrategy::Inferred(DoubleUnitSelectionArgs {
        tile_size: TileSizeSelection::MaxTileSize,
    }));
    let f32 = DType::F32.into();
    let mut types = MatmulElems::from_globals(&MatmulGlobalElems {
        lhs: f32,
        rhs: f32,
        out: f32,
    });
    let launched = launch_ref(
        &strategy,
        &output.client,
        InputBinding::new(left.binding(), f32),
        InputBinding::new(right.binding(), f32),
        output.clone().binding(),
        &mut types,
    );
    launched.is_ok().then_some(output)
}

/// Factors rounded to bf16, their products added in `f32`.
fn rounded<R: CubeRuntime>(left: CubeTensor<R>, right: CubeTensor<R>) -> Option<CubeTensor<R>> {
    let [left, right] = [left, right].map(|side| cast(side, DType::BF16));
    matmul(left, right, None, MatmulStrategy::default(), DType::F32).ok()
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

    #[test]
    fn a_precision_lasts_as_long_as_its_work() {
        let inner = at(Precision::Tf32, || PRECISION.get());
        assert_eq!((inner, PRECISION.get()), (Precision::Tf32, Precision::Fp32));
    }
}
