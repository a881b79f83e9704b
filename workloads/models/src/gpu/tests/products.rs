//! Matrix products against burn's on the CPU.

use super::*;
use crate::gpu::product;

/// Sizes below, at and beyond a tile, also odd ones; sums of one, three and more of cubek's
/// parts.
const SIZES: [[usize; 3]; 12] = [
    [1, 1, 1],
    [2, 3, 10],
    [12, 8, 32],
    [5, 17, 3],
    [40, 64, 48],
    [33, 100, 10],
    [130, 27, 32],
    [64, 8, 64],
    [24, 24, 8],
    [64, 96, 33],
    [1, 32, 5],
    [6, 32, 1],
];

/// Returns a random matrix on both backends, as it stands in memory, or transposed there.
fn sides(
    draw: &mut Draw,
    [m, k]: [usize; 2],
    transposed: bool,
) -> (Tensor<Flex, 2>, Tensor<Gpu, 2>) {
    if transposed {
        let matrix = draw.tensor([k, m]);
        (matrix.clone().transpose(), there(&matrix).transpose())
    } else {
        let matrix = draw.tensor([m, k]);
        (matrix.clone(), there(&matrix))
    }
}

#[test]
fn products_of_all_layouts() {
    let draw = &mut Draw::new(3);
    for [m, k, n] in SIZES {
        for (left_transposed, right_transposed) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let case = format!("{m}×{k}×{n}, transposed {left_transposed} {right_transposed}");
            let (left, our_left) = sides(draw, [m, k], left_transposed);
            let (right, our_right) = sides(draw, [k, n], right_transposed);
            let expected = left.matmul(right);
            let ours = product::product(our_left, our_right);
            assert_close(ours, expected, &case);
        }
    }
}

/// Their parts are added after one another.
#[test]
fn products_over_many_rows() {
    let draw = &mut Draw::new(4);
    for [rows, m, n] in [[2_048, 10, 3], [1_536, 64, 32], [515, 3, 8]] {
        let (left, right): (Tensor<Flex, 2>, Tensor<Flex, 2>) =
            (draw.tensor([rows, m]), draw.tensor([rows, n]));
        let ours = product::over_rows(there(&left), there(&right));
        let expected = left.transpose().matmul(right);
        assert_close(ours, expected, &format!("{rows} rows of {m} and {n}"));
    }
}
