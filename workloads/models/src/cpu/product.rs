//! Dense products by tiles: packed weights on the right, pixels on the left.

use super::lanes::{Lanes, Portable, Single};
use super::memory::{Output, Target, in_parallel};
use super::tile::{MAX_COLUMNS, MAX_ROWS, Operands, Rows, Run};
use super::{Kernel, dispatch, dispatch_columns};

/// Most terms that one pass over the tiles sums: a panel of the right operand then
/// stays in a second-level cache.
const PASS_TERMS: usize = 1152;

/// Terms of a panel that are packed together, where the weights of neighbouring terms lie closer than
/// those of neighbouring columns: a cache line of them is then read once.
const PACKED_TERMS: usize = 16;

/// The weights of a product: `terms` by `columns` values, the one at (term, column) is
/// `values[first(term) + column · step]`.
pub(crate) struct Weights<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) terms: usize,
    pub(crate) columns: usize,
    pub(crate) first: &'a (dyn Fn(usize) -> usize + Sync),
    pub(crate) step: usize,
}

/// Some neighbouring columns, in each row a term.
#[derive(Clone, Copy)]
pub(crate) struct Panel {
    /// First column.
    pub(crate) start: usize,
    /// Columns, those that do not exist included.
    pub(crate) width: usize,
    pub(crate) values: *mut f32,
}

impl Weights<'_> {
    /// Copies columns into a panel; those that do not exist are zeros.
    ///
    /// # Safety
    /// The panel must be valid for writes of `width` values for every term.
    pub(crate) unsafe fn pack(&self, panel: Panel) {
        let Self {
            values: weights,
            terms,
            step,
            first,
            ..
        } = *self;
        let (column, width) = (panel.start, panel.width);
        let held = width.min(self.columns - column);
        // Of the two directions, the weights are read along the one in which they lie closer.
        let along_terms = terms > 1 && first(1).abs_diff(first(0)) < step;
        let blocked = if along_terms {
            terms - terms % PACKED_TERMS
        } else {
            0
        };
        for start in (0..blocked).step_by(PACKED_TERMS) {
            let firsts: [usize; PACKED_TERMS] =
                std::array::from_fn(|term| first(start + term) + column * step);
            let last = firsts.iter().copied().fold(0, usize::max) + (held - 1) * step;
            assert!(last < weights.len(), "a weight beyond the last");
            // SAFETY: the caller guarantees the panel's rows, and no weight is beyond `last`.
            unsafe {
                let rows = panel.values.add(start * width);
                for at in 0..held {
                    for (term, first) in firsts.iter().enumerate() {
                        *rows.add(term * width + at) = *weights.get_unchecked(first + at * step);
                    }
                }
                for term in 0..PACKED_TERMS {
                    let rest = rows.add(term * width + held);
                    rest.write_bytes(0, width - held);
                }
            }
        }
        for term in blocked..terms {
            let from = &weights[first(term) + column * step..][..(held - 1) * step + 1];
            // SAFETY: the caller guarantees the panel's rows; every value is written.
            unsafe {
                let row = panel.values.add(term * width);
                if step == 1 && held == MAX_COLUMNS {
                    // A constant length is a few vectors.
                    row.copy_from_nonoverlapping(from.as_ptr(), MAX_COLUMNS);
                } else {
                    for (at, weight) in from.iter().step_by(step).enumerate() {
                        *row.add(at) = *weight;
                    }
                }
                row.add(held).write_bytes(0, width - held);
            }
        }
    }
}

/// Weights as a product reads them: panels of columns, in each a row a term.
pub(crate) struct Panels {
    values: Vec<f32>,
    terms: usize,
    columns: usize,
    /// Values of a row, from one term to the next.
    pub(crate) width: usize,
}

impl Panels {
    /// Packs the weights.
    pub(crate) fn new(weights: &Weights<'_>) -> Self {
        let Weights { terms, columns, .. } = *weights;
        let width = Self::width_of(columns);
        let panels: Vec<usize> = (0..columns.div_ceil(width)).collect();
        let mut packed = Output::new(panels.len() * terms * width);
        let target = packed.target();
        in_parallel(&panels, |panel| {
            // SAFETY: each panel's rows are its own.
            unsafe {
                weights.pack(Panel {
                    start: panel * width,
                    width,
                    values: target.at(panel * terms * width),
                });
            }
        });
        // SAFETY: all panels were written.
        Self::of(unsafe { packed.written() }, [terms, columns])
    }

    /// Columns of a panel, of so many in all.
    pub(crate) fn width_of(columns: usize) -> usize {
        dispatch_columns(columns, Columns)
    }

    /// Returns values that are in panels already.
    pub(crate) fn of(values: Vec<f32>, [terms, columns]: [usize; 2]) -> Self {
        Self {
            values,
            terms,
            columns,
            width: Self::width_of(columns),
        }
    }
}

struct Columns;

impl Kernel for Columns {
    type Output = usize;

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> usize {
        L::COLUMNS
    }
}

/// One product of pixels and packed weights.
pub(crate) struct Product<'a> {
    /// Start of each row, from `left`.
    pub(crate) rows: &'a [usize],
    pub(crate) left: *const f32,
    /// Terms that every row sums over.
    pub(crate) runs: &'a [Run],
    pub(crate) right: &'a Panels,
    pub(crate) output: Target,
    /// Position of each stored row, from `output`.
    pub(crate) stored: &'a [usize],
}

impl Product<'_> {
    /// Sums and stores every row.
    ///
    /// # Safety
    /// The CPU must support the instruction set of `L`. From each of `rows`, the left operand
    /// must be valid for every run, and the packed one for the terms of every run; from each of
    /// `stored`, the output must be valid for its columns, which no other thread may use.
    #[inline(always)]
    pub(crate) unsafe fn run<L: Lanes>(&self) {
        let mut first = 0;
        while first < self.runs.len() || first == 0 {
            let mut terms = 0;
            let runs = self.runs[first..].iter().take_while(|run| {
                let fits = terms == 0 || terms + run.length <= PASS_TERMS;
                terms += run.length;
                fits
            });
            let end = first + runs.count();
            // SAFETY: the caller guarantees what `pass` asks for, of all runs.
            unsafe { self.pass::<L>(&self.runs[first..end], first > 0) };
            first = end.max(first + 1);
        }
    }

    /// # Safety
    /// What [`Product::run`] needs must hold of `runs`.
    #[inline(always)]
    unsafe fn pass<L: Lanes>(&self, runs: &[Run], accumulate: bool) {
        let right = self.right;
        debug_assert_eq!(right.width, L::COLUMNS);
        // SAFETY: the caller guarantees the instruction set, the rows and the outputs;
        // columns are whole panels of the packed operand, whose width is `L::COLUMNS`.
        unsafe {
            // Panel by panel, so that each stays in the cache for all rows.
            for column in (0..right.columns).step_by(L::COLUMNS) {
                let columns = L::COLUMNS.min(right.columns - column);
                let operands = Operands {
                    runs,
                    left_step: 1,
                    right: right.values.as_ptr().add(column * right.terms),
                    columns,
                    accumulate,
                };
                let narrow = columns <= L::WIDTH;
                for row in (0..self.rows.len()).step_by(L::ROWS) {
                    let rows = self.tile_rows::<L>(row, column);
                    L::product(&operands, &rows, narrow);
                }
            }
        }
    }

    /// # Safety
    /// `row` must be one of the rows, and the pointers of these must lie within the
    /// operands.
    #[inline(always)]
    unsafe fn tile_rows<L: Lanes>(&self, row: usize, column: usize) -> Rows {
        // SAFETY: the caller guarantees that every row begins within the left operand, and
        // is stored within the output.
        unsafe {
            let count = L::ROWS.min(self.rows.len() - row);
            let mut rows = Rows {
                left: [self.left.add(self.rows[row]); MAX_ROWS],
                output: [self.output.at(self.stored[row] + column); MAX_ROWS],
                count,
            };
            for index in 1..count {
                rows.left[index] = self.left.add(self.rows[row + index]);
                rows.output[index] = self.output.at(self.stored[row + index] + column);
            }
            rows
        }
    }
}

/// Adds up equally long parts, in their order.
pub(crate) fn sum_of(parts: Vec<Vec<f32>>) -> Vec<f32> {
    let mut parts = parts.into_iter();
    let mut total = parts.next().unwrap_or_default();
    for part in parts {
        dispatch(Add {
            total: &mut total,
            part: &part,
        });
    }
    total
}

struct Add<'a> {
    total: &'a mut [f32],
    part: &'a [f32],
}

impl Kernel for Add<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for (total, part) in self.total.iter_mut().zip(self.part) {
            *total += part;
        }
    }
}

/// Copies `count` values.
///
/// # Safety
/// The CPU must support the instruction set of `L`, and the pointers must be valid for
/// reads and for writes of `count` values.
#[inline(always)]
pub(crate) unsafe fn copy<L: Lanes>(from: *const f32, to: *mut f32, count: usize) {
    // SAFETY: the caller guarantees the instruction set; every vector ends at `count` or
    // before.
    unsafe {
        let mut at = 0;
        while at + L::WIDTH <= count {
            L::store(to.add(at), L::load(from.add(at)));
            at += L::WIDTH;
        }
        while at + Portable::WIDTH <= count {
            Portable::store(to.add(at), Portable::load(from.add(at)));
            at += Portable::WIDTH;
        }
        while at < count {
            Single::store(to.add(at), Single::load(from.add(at)));
            at += 1;
        }
    }
}
