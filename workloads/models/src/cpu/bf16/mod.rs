//! Dense products of bfloat16 factors, by the CPU's own instructions; their sums are `f32`.
//!
//! Both operands are copied to tiles of 1 KiB first, rounded to nearest even, with zeros where there
//! is no value. A tile of the left operand is 16 rows of 32 terms; one of the right is 16 pairs of
//! terms by 16 columns, the two values of a column side by side. AMX multiplies whole tiles;
//! AVX512-BF16, whose lanes add the products of a pair, reads the same ones. Denormal values
//! count as zeros in both.

#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "no other processor's instructions are supported")
)]

#[cfg_attr(target_arch = "x86_64", path = "x86.rs")]
#[cfg_attr(not(target_arch = "x86_64"), path = "other.rs")]
mod processor;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use super::memory::{Lines, in_parallel, with_scratch, with_tiles};
use super::product::{Panel, Product, Weights};
use super::tile::Run;
use super::{Level, SIMD};

/// Rows of a tile of the left operand, and columns of one of the right.
const SIDE: usize = 16;

/// Terms of a tile.
const TERMS: usize = 32;

/// Values of a tile.
const TILE: usize = SIDE * TERMS;

/// Rows, and columns, of the sums that are in registers at once: two tiles each.
const BLOCK: usize = 2 * SIDE;

/// Most tiles of terms that one pass sums: what it reads of the right operand then stays in a
/// second-level cache.
const PASS_TILES: usize = 36;

/// Most tiles of the left operand that are made at a time (512 KiB), for the same reason.
const LEFT_TILES: usize = 512;

/// Instructions that multiply bfloat16 factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instructions {
    /// AVX512-BF16: 16 sums of two products each.
    Avx512,
    /// AMX: 16 by 16 sums of 32 products each.
    Amx,
}

impl Instructions {
    /// Returns the machine's best that the environment allows; none where it has none. Decided once.
    pub(crate) fn best() -> Option<Self> {
        static BEST: OnceLock<Option<Instructions>> = OnceLock::new();
        *BEST.get_or_init(|| {
            let no_tiles = std::env::var(SIMD).is_ok_and(|level| level == "avx512");
            let mut supported = Self::supported();
            supported.retain(|instructions| !no_tiles || *instructions != Self::Amx);
            supported.pop()
        })
    }

    /// Returns those that this machine and the level of the other kernels have, the best last.
    fn supported() -> Vec<Self> {
        match Level::current() {
            Level::Avx512 => processor::supported(),
            _ => vec![],
        }
    }
}

/// What dense products multiply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Factors {
    /// The values as they are.
    F32,
    /// The values rounded to bfloat16.
    Bf16(Instructions),
}

/// The right operand of a product, in tiles: all terms of 16 columns, then those of the next.
/// Columns are whole blocks.
pub(crate) struct Tiles {
    lines: Lines,
    instructions: Instructions,
    /// Tiles of the terms.
    terms: usize,
    /// Columns that exist.
    columns: usize,
}

impl Tiles {
    /// Packs the weights of a product.
    pub(crate) fn new(weights: &Weights<'_>, instructions: Instructions) -> Self {
        let terms = weights.terms.div_ceil(TERMS);
        let blocks: Vec<usize> = (0..weights.columns.div_ceil(BLOCK)).collect();
        let mut lines = Lines::zeros(blocks.len() * 2 * terms * TILE / 2);
        let target = lines.target();
        in_parallel(&blocks, |block| {
            with_scratch(weights.terms * BLOCK, |panel| {
                // SAFETY: the scratch space holds the panel, and each block has its own tiles.
                unsafe {
                    weights.pack(Panel {
                        start: block * BLOCK,
                        width: BLOCK,
                        values: panel,
                    });
                    let to = target.at(block * 2 * terms * TILE / 2).cast();
                    processor::pairs(panel, weights.terms, to);
                }
            });
        });
        Self {
            lines,
            instructions,
            terms,
            columns: weights.columns,
        }
    }
}

/// Sums of tiles, a block at a time.
struct Grid<'a> {
    instructions: Instructions,
    /// The left operand's tiles: all terms of 16 rows, then those of the next; rows are whole
    /// blocks.
    left: *const u16,
    /// The right operand's tiles.
    right: *const u16,
    /// Values from one column of them to the next.
    right_column: usize,
    /// Where the left tiles' factors are in a column of right tiles, in bytes.
    offsets: &'a [usize],
    rows: usize,
    columns: usize,
    output: *mut f32,
    stored: Stored<'a>,
    /// Whether the sums are added to what the output holds.
    accumulate: bool,
}

/// Where the rows of an output begin.
#[derive(Clone, Copy)]
enum Stored<'a> {
    At(&'a [usize]),
    Every(usize),
}

impl Stored<'_> {
    /// Returns the values from one row to the next of the block that begins with `row`, if it is a
    /// whole one of listed rows that are equally far apart.
    fn step(self, row: usize, rows: usize) -> Option<usize> {
        if row + BLOCK > rows {
            return None;
        }
        match self {
            // Sums of a weight's gradient are rows of few columns: no faster where they stay.
            Self::Every(_) => None,
            Self::At(rows) => {
                let block = &rows[row..row + BLOCK];
                let step = block[1].checked_sub(block[0])?;
                let even = block.windows(2).all(|two| two[0] + step == two[1]);
                even.then_some(step)
            }
        }
    }

    fn row(self, row: usize) -> usize {
        match self {
            Self::At(rows) => rows[row],
            Self::Every(length) => row * length,
        }
    }
}

/// Part of a run of terms that lies in one tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    /// Tile among those of the right operand.
    tile: usize,
    /// First term in the tile.
    at: usize,
    /// Offset in the left operand.
    left: usize,
    length: usize,
}

/// Returns the runs cut at the tiles of the right operand, in the order of these.
fn pieces(runs: &[Run]) -> Vec<Piece> {
    let mut pieces = vec![];
    for run in runs {
        let mut done = 0;
        while done < run.length {
            let (tile, at) = ((run.right + done) / TERMS, (run.right + done) % TERMS);
            let length = (TERMS - at).min(run.length - done);
            pieces.push(Piece {
                tile,
                at,
                left: run.left + done,
                length,
            });
            done += length;
        }
    }
    pieces.sort_by_key(|piece| (piece.tile, piece.at));
    pieces
}

/// Sums and stores every row of a product, as [`Product::run`] does.
///
/// # Safety
/// What [`Product::run`] needs must hold of `product`, whose right operand is `right`.
pub(crate) unsafe fn product(product: &Product<'_>, right: &Tiles) {
    let pieces = pieces(product.runs);
    // Tiles that no run touches are left out of the sums.
    let tiles: Vec<&[Piece]> = pieces.chunk_by(|a, b| a.tile == b.tile).collect();
    let columns = right.columns;
    for (index, pass) in tiles.chunks(PASS_TILES).enumerate() {
        let offsets: Vec<usize> = pass.iter().map(|tile| tile[0].tile * TILE * 2).collect();
        let most = (LEFT_TILES / pass.len() * SIDE / BLOCK * BLOCK).max(BLOCK);
        let rows = product.rows.chunks(most).zip(product.stored.chunks(most));
        for (rows, stored) in rows {
            let length = rows.len().next_multiple_of(BLOCK) / SIDE * pass.len() * TILE;
            with_tiles(length, |left| {
                // SAFETY: the caller guarantees the operands and the outputs; the scratch space
                // holds the tiles of the rows.
                unsafe {
                    processor::pack(product.left, rows, pass, left);
                    let grid = Grid {
                        instructions: right.instructions,
                        left,
                        right: right.lines.as_ptr().cast(),
                        right_column: right.terms * TILE,
                        offsets: &offsets,
                        rows: rows.len(),
                        columns,
                        output: product.output.at(0),
                        stored: Stored::At(stored),
                        accumulate: index > 0,
                    };
                    processor::run(&grid);
                }
            });
        }
    }
    if pieces.is_empty() {
        for &stored in product.stored {
            // SAFETY: the caller guarantees the outputs. A sum of no terms is zero.
            unsafe { product.output.at(stored).write_bytes(0, columns) };
        }
    }
}

/// The product of a weight's gradient: a sum over pixels, of which both operands have a row each.
pub(crate) struct OverPixels {
    pub(crate) instructions: Instructions,
    pub(crate) pixels: usize,
    /// Outputs of the left operand.
    pub(crate) outputs: usize,
    /// Space of [`OverPixels::scratch`] values, at a cache line.
    pub(crate) scratch: *mut f32,
}

/// Where sums of some columns go: a row for each output.
#[derive(Clone, Copy)]
pub(crate) struct Sums {
    pub(crate) to: *mut f32,
    /// Values from one row to the next.
    pub(crate) row: usize,
    pub(crate) columns: usize,
    /// Whether they are added to what is there.
    pub(crate) accumulate: bool,
}

impl OverPixels {
    /// Returns the values of scratch space that a product takes.
    pub(crate) fn scratch(pixels: usize, outputs: usize) -> usize {
        (outputs.next_multiple_of(BLOCK) + BLOCK) * pixels.next_multiple_of(TERMS) / 2
    }

    fn tiles(&self) -> usize {
        self.pixels.div_ceil(TERMS)
    }

    fn left(&self) -> *mut u16 {
        self.scratch.cast()
    }

    fn right(&self) -> *mut u16 {
        let left = self.outputs.next_multiple_of(BLOCK) / SIDE * self.tiles() * TILE;
        self.left().wrapping_add(left)
    }

    /// Packs the left operand: the outputs' gradient, pixels `step` values apart.
    ///
    /// # Safety
    /// `gradient` must be valid for the outputs of every pixel, and the scratch space must be there.
    pub(crate) unsafe fn pack(&self, gradient: *const f32, step: usize) {
        // SAFETY: the caller guarantees both ends.
        unsafe {
            let sizes = [self.pixels, self.outputs];
            processor::pack_columns(gradient, step, sizes, self.left());
        }
    }

    /// Multiplies by a panel of columns, in each row a pixel, once the left operand is packed.
    ///
    /// # Safety
    /// `panel` must hold a row of [`BLOCK`] values for every pixel, and `sums` the columns of every output.
    pub(crate) unsafe fn multiply(&self, panel: *const f32, sums: Sums) {
        let offsets: Vec<usize> = (0..self.tiles()).map(|tile| tile * TILE * 2).collect();
        // SAFETY: the caller guarantees the panel, the sums and the packed operand.
        unsafe {
            processor::pairs(panel, self.pixels, self.right());
            let grid = Grid {
                instructions: self.instructions,
                left: self.left(),
                right: self.right(),
                right_column: self.tiles() * TILE,
                offsets: &offsets,
                rows: self.outputs,
                columns: sums.columns,
                output: sums.to,
                stored: Stored::Every(sums.row),
                accumulate: sums.accumulate,
            };
            processor::run(&grid);
        }
    }
}
