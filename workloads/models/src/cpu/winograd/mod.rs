//! The 3×3 convolution of stride 1 by Winograd's minimal filtering, F(2×2, 3×3).
//!
//! Two by two outputs are a sum over input channels of products of four by four points
//! each, 16 multiplications where the window has 36 (Lavin and Gray 2016, "Fast
//! Algorithms for Convolutional Neural Networks"): with the weights `g` and the 4×4 tile
//! `d` of the images, `Y = Aᵀ [(G g Gᵀ) ⊙ (Bᵀ d B)] A`. Summed over the channels, each of
//! the 16 points is a matrix product of its own. The gradient of the images is the same
//! convolution of the output's gradient with the windows turned around; that of the
//! weight is the adjoint, `Gᵀ [(A dY Aᵀ) ⊙ (Bᵀ d B)] G`.
//!
//! The transforms add and subtract and multiply by nothing but ½, yet their sums are of
//! greater values than the results: rounding errors of the weight's gradient are 1.3 to 1.7
//! times those of plain sums (`docs/performance.md`). An infinite value comes out as an infinite one or as NaN,
//! in all outputs of the tiles that it lies in.

mod convolve;
mod transforms;
mod weight;
mod weights;

pub(crate) use convolve::{forward, images_gradient};
pub(crate) use weight::gradient as weight_gradient;

use super::geometry::Geometry;
use super::input::Frame;
use super::memory::{Shard, padded, shards};

/// Points of a tile of the images: 4 by 4.
const POINTS: usize = 16;

/// Points of a row of them.
const ROW: usize = 4;

/// Outputs of a tile in each direction.
const OUTPUTS: usize = 2;

/// Least channels, of images and outputs alike, for which fewer multiplications outweigh
/// the transforms. They must also fill whole panels.
const LEAST_CHANNELS: usize = 32;

/// Least tiles of a shard: the weights of all points are read once for so many.
const SHARD_TILES: usize = 64;

/// Values of the transformed tiles of a chunk, of images and outputs, which are those before and
/// after the products forward: enough tiles to be worth the weights' reading, few enough to stay
/// in a second-level cache.
const CHUNK_VALUES: usize = 1 << 17;

/// Least and most tiles of a chunk.
const CHUNK_TILES: (usize, usize) = (64, 128);

/// Returns whether the convolution can be, and is worth to be, computed this way.
pub(crate) fn serves(geometry: &Geometry) -> bool {
    let window = geometry.window;
    let channels = |count: usize| count.is_multiple_of(LEAST_CHANNELS) && count > 0;
    window.kernel == 3
        && window.stride == 1
        && window.padding <= 2
        && window.groups == 1
        && channels(geometry.inputs)
        && channels(geometry.outputs)
}

/// The tiles that a convolution's outputs are cut into.
struct Tiles {
    /// Frame of the images, with zeros around them: whole tiles.
    frame: Frame,
    /// Images that are framed together.
    group: usize,
    /// Tiles of each image.
    count: usize,
    /// Tiles of the images of a group.
    all: Vec<Tile>,
}

/// Two by two outputs, or fewer at the lower and the right edge.
#[derive(Debug, Clone, Copy)]
struct Tile {
    /// Start of its 4×4 pixels in the frames of a group.
    frame: usize,
    /// Start of its outputs in those of a group.
    output: usize,
    /// Rows and columns of outputs that exist.
    rows: usize,
    columns: usize,
}

impl Tiles {
    fn new(geometry: &Geometry) -> Self {
        let rows = geometry.out_height.div_ceil(OUTPUTS);
        let columns = geometry.out_width.div_ceil(OUTPUTS);
        let before = geometry.window.padding;
        let after =
            |tiles: usize, length: usize| (OUTPUTS * tiles + 2).saturating_sub(before + length);
        // Zeros before the images are the padding; after them, they also fill the last tiles.
        let frame = Frame::new(
            [geometry.height, geometry.width, geometry.inputs],
            before,
            after(rows, geometry.height).max(after(columns, geometry.width)),
        );
        let group = geometry.group().min(geometry.batch);
        let mut tiles = Self {
            frame,
            group,
            count: rows * columns,
            all: Vec::with_capacity(group * rows * columns),
        };
        // Every image of a group has the same tiles, one frame further on.
        for image in 0..group {
            for y in (0..geometry.out_height).step_by(OUTPUTS) {
                for x in (0..geometry.out_width).step_by(OUTPUTS) {
                    let pixel = y * frame.columns() + x;
                    let output = (image * geometry.out_height + y) * geometry.out_width + x;
                    tiles.all.push(Tile {
                        frame: image * frame.image() + pixel * frame.pitch,
                        output: output * geometry.outputs,
                        rows: OUTPUTS.min(geometry.out_height - y),
                        columns: OUTPUTS.min(geometry.out_width - x),
                    });
                }
            }
        }
        tiles
    }

    /// Returns the tiles of so many images of a group.
    fn of(&self, images: usize) -> &[Tile] {
        &self.all[..images * self.count]
    }

    /// Values of the frames of a group.
    fn frames(&self) -> usize {
        padded(self.group * self.frame.image())
    }

    /// Returns the number of tiles that are transformed together, to so many values each.
    fn chunk(&self, values: usize) -> usize {
        let (least, most) = CHUNK_TILES;
        (CHUNK_VALUES / values)
            .clamp(least, most)
            .min(self.all.len())
    }

    /// Returns the batch in shards of enough tiles, at most so many of them.
    fn shards(&self, batch: usize, most: usize) -> Vec<Shard> {
        let enough = batch * self.count / SHARD_TILES;
        shards(batch, enough.min(most))
    }
}

/// Layout of the transformed tiles of a chunk in scratch space: one matrix per point, with
/// one row per tile, in panels of columns.
#[derive(Debug, Clone, Copy)]
struct Layout {
    /// Values from one tile to the next.
    tile: usize,
    /// Columns of a panel.
    width: usize,
    /// Values from one panel to the next.
    panel: usize,
    /// Values from one point to the next.
    point: usize,
}

/// Values between what would otherwise share few sets of a first-level cache.
const GAP: usize = 16;

impl Layout {
    /// Returns the layout of whole rows.
    fn rows(tiles: usize, channels: usize) -> Self {
        let tile = match channels % 256 {
            0 => channels + GAP,
            _ => channels,
        };
        Self {
            tile,
            width: channels,
            panel: 0,
            point: tiles * tile + GAP,
        }
    }

    /// Returns the layout of panels of so many columns, one after the other.
    fn panels(tiles: usize, channels: usize, width: usize) -> Self {
        Self {
            tile: width,
            width,
            panel: tiles * width,
            point: tiles * channels + GAP,
        }
    }

    /// Values of so many points.
    fn values(&self, points: usize) -> usize {
        self.point * points
    }

    /// Returns the offset of a channel from a tile's first.
    fn column(&self, channel: usize) -> usize {
        channel / self.width * self.panel + channel % self.width
    }
}

#[cfg(test)]
mod tests;
