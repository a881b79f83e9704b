//! The transforms of tiles, a vector of channels at a time.

use super::super::lanes::Lanes;
use super::{Layout, OUTPUTS, POINTS, ROW, Tile};

/// The rows of `Bᵀ`: one row of a tile plus or minus another.
const COMBINED: [(usize, usize, f32); ROW] =
    [(0, 2, -1.0), (1, 2, 1.0), (2, 1, -1.0), (1, 3, -1.0)];

/// Rows `start..end` of `Bᵀ d B`, of every tile and channel.
pub(super) struct Points {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Points {
    pub(super) const ALL: Self = Self { start: 0, end: ROW };

    pub(super) const fn count(&self) -> usize {
        (self.end - self.start) * ROW
    }
}

/// Transforms tiles of the images into `to`.
///
/// # Safety
/// The CPU must support the instruction set of `L`. The frames must hold the tiles, of
/// channels that are whole vectors, and `to` the points of them all.
#[inline(always)]
pub(super) unsafe fn images<L: Lanes>(
    tiles: &[Tile],
    frames: *const f32,
    [line, pixel, channels]: [usize; 3],
    points: &Points,
    to: *mut f32,
    layout: Layout,
) {
    // SAFETY: the caller guarantees the instruction set and both ends; a tile is four rows
    // of four pixels, and `layout` keeps its points apart.
    unsafe {
        for (index, tile) in tiles.iter().enumerate() {
            for channel in (0..channels).step_by(L::WIDTH) {
                let from = frames.add(tile.frame + channel);
                let mut to = to.add(index * layout.tile + layout.column(channel));
                for &(first, second, sign) in &COMBINED[points.start..points.end] {
                    let (first, second) = (from.add(first * line), from.add(second * line));
                    let sign = L::splat(sign);
                    let mut d = [sign; ROW];
                    for (column, d) in d.iter_mut().enumerate() {
                        let at = column * pixel;
                        *d = L::fma(L::load(second.add(at)), sign, L::load(first.add(at)));
                    }
                    L::store(to, L::sub(d[0], d[2]));
                    L::store(to.add(layout.point), L::add(d[1], d[2]));
                    L::store(to.add(2 * layout.point), L::sub(d[2], d[1]));
                    L::store(to.add(3 * layout.point), L::sub(d[1], d[3]));
                    to = to.wrapping_add(ROW * layout.point);
                }
            }
        }
    }
}

/// Turns sums of all points into outputs, `Aᵀ M A`.
///
/// # Safety
/// The CPU must support the instruction set of `L`. `from` must hold the points of the
/// tiles, of channels that are whole vectors, and `to` their outputs.
#[inline(always)]
pub(super) unsafe fn outputs<L: Lanes>(
    tiles: &[Tile],
    from: *const f32,
    layout: Layout,
    to: *mut f32,
    [line, channels]: [usize; 2],
) {
    // SAFETY: the caller guarantees the instruction set and both ends; outputs of a tile
    // that do not exist are not stored.
    unsafe {
        for (index, tile) in tiles.iter().enumerate() {
            for channel in (0..channels).step_by(L::WIDTH) {
                let from = from.add(index * layout.tile + layout.column(channel));
                let to = to.add(tile.output + channel);
                let zero = L::splat(0.0);
                let mut upper = [zero; ROW];
                let mut lower = [zero; ROW];
                for column in 0..ROW {
                    let point = from.add(column * layout.point);
                    let row = ROW * layout.point;
                    let (m0, m1) = (L::load(point), L::load(point.add(row)));
                    let (m2, m3) = (L::load(point.add(2 * row)), L::load(point.add(3 * row)));
                    upper[column] = L::add(L::add(m0, m1), m2);
                    lower[column] = L::sub(L::sub(m1, m2), m3);
                }
                store::<L>(upper, tile.columns, to, channels);
                if tile.rows == OUTPUTS {
                    store::<L>(lower, tile.columns, to.add(line), channels);
                }
            }
        }
    }
}

/// One row of outputs.
///
/// # Safety
/// The CPU must support the instruction set of `L`, and `to` must be valid for writes of a
/// vector, and of another `channels` behind it where there are two columns.
#[inline(always)]
unsafe fn store<L: Lanes>(m: [L::V; ROW], columns: usize, to: *mut f32, channels: usize) {
    // SAFETY: the caller guarantees the instruction set and the one or two vectors of
    // outputs.
    unsafe {
        L::store(to, L::add(L::add(m[0], m[1]), m[2]));
        if columns == OUTPUTS {
            L::store(to.add(channels), L::sub(L::sub(m[1], m[2]), m[3]));
        }
    }
}

/// The rows of `A`: what they take of a tile's upper and lower outputs.
const SPREAD: [[f32; OUTPUTS]; ROW] = [[1.0, 0.0], [1.0, 1.0], [1.0, -1.0], [0.0, -1.0]];

/// Transforms tiles of the output's gradient into `to`, `A dY Aᵀ`; outputs that do not
/// exist have none.
///
/// # Safety
/// The CPU must support the instruction set of `L`. `from` must hold the outputs of the
/// tiles, of channels that are whole vectors, and `to` the points of them all.
#[inline(always)]
pub(super) unsafe fn gradients<L: Lanes>(
    tiles: &[Tile],
    from: *const f32,
    [line, channels]: [usize; 2],
    points: &Points,
    to: *mut f32,
    layout: Layout,
) {
    // SAFETY: the caller guarantees the instruction set and both ends; outputs of a tile
    // that do not exist are not read.
    unsafe {
        for (index, tile) in tiles.iter().enumerate() {
            for channel in (0..channels).step_by(L::WIDTH) {
                let from = from.add(tile.output + channel);
                let zero = L::splat(0.0);
                let mut y = [[zero; OUTPUTS]; OUTPUTS];
                for (row, y) in y.iter_mut().enumerate().take(tile.rows) {
                    for (column, y) in y.iter_mut().enumerate().take(tile.columns) {
                        *y = L::load(from.add(row * line + column * channels));
                    }
                }
                let mut to = to.add(index * layout.tile + layout.column(channel));
                for &[upper, lower] in &SPREAD[points.start..points.end] {
                    let (upper, lower) = (L::splat(upper), L::splat(lower));
                    let left = L::fma(y[1][0], lower, L::mul(y[0][0], upper));
                    let right = L::fma(y[1][1], lower, L::mul(y[0][1], upper));
                    L::store(to, left);
                    L::store(to.add(layout.point), L::add(left, right));
                    L::store(to.add(2 * layout.point), L::sub(left, right));
                    L::store(to.add(3 * layout.point), L::sub(zero, right));
                    to = to.wrapping_add(ROW * layout.point);
                }
            }
        }
    }
}

/// `G g Gᵀ` of a vector of windows, taps row by row.
///
/// # Safety
/// The CPU must support the instruction set of `L`.
#[inline(always)]
pub(super) unsafe fn windows<L: Lanes>(g: [L::V; 9]) -> [L::V; POINTS] {
    // SAFETY: the caller guarantees the instruction set; no pointer is read.
    unsafe {
        let mut rows = [g[0]; ROW * 3];
        for column in 0..3 {
            let column_of = spread::<L>([g[column], g[3 + column], g[6 + column]]);
            for (row, value) in column_of.into_iter().enumerate() {
                rows[row * 3 + column] = value;
            }
        }
        let mut points = [g[0]; POINTS];
        for row in 0..ROW {
            let row_of = spread::<L>([rows[row * 3], rows[row * 3 + 1], rows[row * 3 + 2]]);
            for (column, value) in row_of.into_iter().enumerate() {
                points[row * ROW + column] = value;
            }
        }
        points
    }
}

/// `G g` of three values.
///
/// # Safety
/// The CPU must support the instruction set of `L`.
#[inline(always)]
unsafe fn spread<L: Lanes>(g: [L::V; 3]) -> [L::V; ROW] {
    // SAFETY: the caller guarantees the instruction set; no pointer is read.
    unsafe {
        let half = L::splat(0.5);
        let outer = L::mul(L::add(g[0], g[2]), half);
        let inner = L::mul(g[1], half);
        [g[0], L::add(outer, inner), L::sub(outer, inner), g[2]]
    }
}

/// `Gᵀ u G`: the adjoint of [`windows`].
///
/// # Safety
/// The CPU must support the instruction set of `L`.
#[inline(always)]
pub(super) unsafe fn window_gradients<L: Lanes>(u: [L::V; POINTS]) -> [L::V; 9] {
    // SAFETY: the caller guarantees the instruction set; no pointer is read.
    unsafe {
        let mut rows = [u[0]; 3 * ROW];
        for column in 0..ROW {
            let column_of =
                gathered::<L>([u[column], u[4 + column], u[8 + column], u[12 + column]]);
            for (row, value) in column_of.into_iter().enumerate() {
                rows[row * ROW + column] = value;
            }
        }
        let mut taps = [u[0]; 9];
        for row in 0..3 {
            let at = row * ROW;
            let row_of = gathered::<L>([rows[at], rows[at + 1], rows[at + 2], rows[at + 3]]);
            for (column, value) in row_of.into_iter().enumerate() {
                taps[row * 3 + column] = value;
            }
        }
        taps
    }
}

/// `Gᵀ u` of four values.
///
/// # Safety
/// The CPU must support the instruction set of `L`.
#[inline(always)]
unsafe fn gathered<L: Lanes>(u: [L::V; ROW]) -> [L::V; 3] {
    // SAFETY: the caller guarantees the instruction set; no pointer is read.
    unsafe {
        let half = L::splat(0.5);
        let sum = L::mul(L::add(u[1], u[2]), half);
        let difference = L::mul(L::sub(u[1], u[2]), half);
        [L::add(u[0], sum), difference, L::add(sum, u[3])]
    }
}
