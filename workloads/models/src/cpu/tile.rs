//! The innermost loop of every dense product: one tile of sums, in registers.
//!
//! A product reads its left operand through one pointer a row, so that the rows may
//! lie anywhere (the pixels that a window sees need not be copied together first,
//! as in XNNPACK's indirect convolution), and its right operand a vector at a time.

use std::marker::PhantomData;

use super::lanes::Lanes;

/// Most rows of a tile at any level.
pub(crate) const MAX_ROWS: usize = 8;

/// Most columns of a tile, and of a panel of the right operand.
pub(crate) const MAX_COLUMNS: usize = 32;

/// A run of terms of the sums: `length` steps along both operands, from offsets
/// (in values) relative to the tile's first terms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) left: usize,
    pub(crate) right: usize,
    pub(crate) length: usize,
}

/// The terms that every tile of a product sums over.
#[derive(Clone, Copy)]
pub(crate) struct Operands<'a> {
    /// The runs, in the order of summation.
    pub(crate) runs: &'a [Run],
    /// Values from one term to the next on the left.
    pub(crate) left_step: usize,
    /// The right operand's first row at the tile's first column, in a panel of
    /// [`Lanes::COLUMNS`] columns.
    pub(crate) right: *const f32,
    /// Columns of the tile that exist.
    pub(crate) columns: usize,
    /// Whether the sums are added to what the output holds.
    pub(crate) accumulate: bool,
}

/// Starts of a tile's rows. Rows from `count` on repeat a row that exists and are
/// not stored.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) left: [*const f32; MAX_ROWS],
    pub(crate) output: [*mut f32; MAX_ROWS],
    pub(crate) count: usize,
}

/// The shape of a tile: `R` rows by `C` vectors.
pub(crate) struct Tile<L, const R: usize, const C: usize>(PhantomData<L>);

impl<L: Lanes, const R: usize, const C: usize> Tile<L, R, C> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

/// Sums one tile and stores it.
///
/// # Safety
/// The CPU must support the instruction set of `L`. For every run, each row's left pointer
/// must be valid for reads of `length` values, `left_step` apart, and the right one for as
/// many whole rows of a panel; each output for reads and writes of `columns` values.
#[inline(always)]
pub(crate) unsafe fn tile<L: Lanes, const R: usize, const C: usize>(
    _: Tile<L, R, C>,
    operands: &Operands<'_>,
    rows: &Rows,
) {
    // SAFETY: the caller guarantees the instruction set, the operands and the outputs;
    // whole vectors of outputs are touched only where all columns exist.
    unsafe {
        let sums = match operands.left_step {
            // Packed operands: constant steps save the loop its address arithmetic.
            1 => sums::<L, R, C>(operands, rows, 1),
            step if step == R => sums::<L, R, C>(operands, rows, R),
            step => sums::<L, R, C>(operands, rows, step),
        };
        if operands.columns == C * L::WIDTH {
            for (row, sums) in sums.iter().enumerate().take(rows.count) {
                let output = rows.output[row];
                for (column, &sum) in sums.iter().enumerate() {
                    let output = output.add(column * L::WIDTH);
                    let sum = if operands.accumulate {
                        L::add(sum, L::load(output))
                    } else {
                        sum
                    };
                    L::store(output, sum);
                }
            }
        } else {
            store_some::<L, R, C>(&sums, operands, rows);
        }
    }
}

/// # Safety
/// What [`tile`] needs must hold of the operands.
#[inline(always)]
unsafe fn sums<L: Lanes, const R: usize, const C: usize>(
    operands: &Operands<'_>,
    rows: &Rows,
    left_step: usize,
) -> [[L::V; C]; R] {
    // SAFETY: the caller guarantees the instruction set and, of every run, the left values
    // and the whole rows of the right panel, which hold the `C` vectors.
    unsafe {
        let mut sums = [[L::splat(0.0); C]; R];
        for run in operands.runs {
            let left: [*const f32; R] = std::array::from_fn(|row| rows.left[row].add(run.left));
            let mut right = operands.right.add(run.right);
            let mut at = 0;
            for _ in 0..run.length {
                let terms: [L::V; C] =
                    std::array::from_fn(|column| L::load(right.add(column * L::WIDTH)));
                for (sums, left) in sums.iter_mut().zip(left) {
                    let factor = L::splat(*left.add(at));
                    for (sum, term) in sums.iter_mut().zip(terms) {
                        *sum = L::fma(factor, term, *sum);
                    }
                }
                right = right.wrapping_add(L::COLUMNS);
                at += left_step;
            }
        }
        sums
    }
}

/// The tile at the right edge: fewer columns than its vectors hold.
///
/// # Safety
/// What [`tile`] needs must hold of the outputs; `C` vectors must have 64 values at most.
#[cold]
#[inline(always)]
unsafe fn store_some<L: Lanes, const R: usize, const C: usize>(
    sums: &[[L::V; C]; R],
    operands: &Operands<'_>,
    rows: &Rows,
) {
    // SAFETY: the caller guarantees the instruction set, the `C` vectors fit into `values`,
    // and the outputs are valid for `columns` values, of which there are fewer than 64.
    unsafe {
        for (row, sums) in sums.iter().enumerate().take(rows.count) {
            let mut values = [0.0f32; 64];
            for (column, &sum) in sums.iter().enumerate() {
                L::store(values.as_mut_ptr().add(column * L::WIDTH), sum);
            }
            for (column, value) in values.iter().enumerate().take(operands.columns) {
                let output = rows.output[row].add(column);
                *output = if operands.accumulate {
                    *output + value
                } else {
                    *value
                };
            }
        }
    }
}
