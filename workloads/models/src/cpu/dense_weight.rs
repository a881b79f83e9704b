//! The dense convolution, backward: the gradient of the weight, a sum over all pixels
//! of what each window saw, times its output's gradient.

use super::channels::transposed;
use super::dense::frame;
use super::geometry::Geometry;
use super::input::{Frame, Input};
use super::lanes::Lanes;
use super::memory::{Output, Shard, Target, in_parallel, padded, shards, with_scratch};
use super::product::{copy, sum_of};
use super::tile::{MAX_COLUMNS, MAX_ROWS, Operands, Rows, Run};
use super::{Kernel, dispatch};

/// Most values of the parts of a weight's gradient that shards of the batch sum apart
/// (8 MiB). Larger weights are shared out by output channels instead.
const PART_VALUES: usize = 1 << 21;

/// Least terms of an output for which its gradient is packed: it is then read often.
const PACKED_DEPTH: usize = 256;

/// Least pixels that a shard of the batch sums over: with fewer, storing its whole part of the
/// gradient and adding it to the others' takes as long as the sums themselves.
const SUMMED_PIXELS: usize = 256;

/// Least shards that a large batch is cut into.
const LEAST_SHARDS: usize = 12;

/// The gradient of a weight `[out, in, kernel, kernel]`.
pub(crate) fn gradient(input: Input<'_>, output_gradient: &[f32], geometry: &Geometry) -> Vec<f32> {
    let (batches, ranges) = units(geometry);
    let units: Vec<(Shard, Shard)> = batches
        .iter()
        .flat_map(|&batch| ranges.iter().map(move |&outputs| (batch, outputs)))
        .collect();
    let frame = frame(geometry);
    // Each unit sums its own range of outputs over its own images.
    let parts = in_parallel(&units, |(batch, outputs)| {
        let mut part = Output::new(outputs.length * geometry.depth());
        let target = part.target();
        let space = scratch(geometry, &frame, batch, outputs);
        with_scratch(space, |scratch| {
            dispatch(Gradient {
                input,
                output_gradient,
                geometry,
                frame: &frame,
                batch,
                outputs,
                scratch,
                target,
            });
        });
        // SAFETY: the first group of images writes all outputs of the range, all columns.
        unsafe { part.written() }
    });
    // Ranges of one shard of the batch stand together: joined, they are one whole gradient.
    let mut parts = parts.into_iter();
    let by_batch = batches
        .iter()
        .map(|_| parts.by_ref().take(ranges.len()).collect::<Vec<_>>());
    let by_batch = by_batch.map(|ranges| match <[Vec<f32>; 1]>::try_from(ranges) {
        Ok([range]) => range,
        Err(ranges) => ranges.concat(),
    });
    let gradient = sum_of(by_batch.collect());
    // `[out, taps, in]` to `[out, in, taps]`.
    match geometry.taps() {
        1 => gradient,
        taps => transposed(&gradient, [taps, geometry.inputs]),
    }
}

/// The shards of the batch, and the ranges of outputs that each of them is shared out by.
pub(super) fn units(geometry: &Geometry) -> (Vec<Shard>, Vec<Shard>) {
    let length = geometry.depth() * geometry.outputs;
    let most = geometry.shards().len();
    let summed = geometry.batch * geometry.out_pixels() / SUMMED_PIXELS;
    let batches = shards(geometry.batch, most.min(PART_VALUES / length).min(summed));
    let least = LEAST_SHARDS.min(most).div_ceil(batches.len());
    let ranges = shards(geometry.outputs, least.min(geometry.outputs / 32));
    (batches, ranges)
}

/// Values of scratch space that a unit takes.
pub(super) fn scratch(geometry: &Geometry, frame: &Frame, batch: Shard, outputs: Shard) -> usize {
    let group = geometry.group().min(batch.length);
    let pixels = group * geometry.out_pixels();
    let framed = padded(group * frame.image());
    let panel = padded(pixels * MAX_COLUMNS);
    let packed = padded(pixels * (outputs.length + MAX_ROWS));
    framed + panel + packed
}

/// One unit's gradient of the weight.
pub(super) struct Gradient<'a> {
    pub(super) input: Input<'a>,
    pub(super) output_gradient: &'a [f32],
    pub(super) geometry: &'a Geometry,
    pub(super) frame: &'a Frame,
    pub(super) batch: Shard,
    pub(super) outputs: Shard,
    pub(super) scratch: *mut f32,
    /// `[out, taps, in]`.
    pub(super) target: Target,
}

impl Kernel for Gradient<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let group = self.geometry.group().min(self.batch.length);
        for start in (0..self.batch.length).step_by(group) {
            let count = group.min(self.batch.length - start);
            // SAFETY: the group's images exist, and the scratch space holds them.
            unsafe { self.group::<L>(self.batch.start + start, count, start > 0) };
        }
    }
}

impl Gradient<'_> {
    /// Adds the part of images from `first` on to the gradient, or stores it where
    /// nothing was accumulated before; at most a group of images.
    ///
    /// # Safety
    /// The CPU must support the instruction set of `L`. The images must exist, and the
    /// scratch space must hold their frames, a panel and the packed gradient.
    #[inline(always)]
    pub(super) unsafe fn group<L: Lanes>(&self, first: usize, count: usize, accumulate: bool) {
        let Self {
            geometry,
            frame,
            scratch,
            ..
        } = *self;
        let group = geometry.group().min(self.batch.length);
        // Of a 1×1 window without stride, panels are made from the input itself.
        let direct = geometry.is_pointwise() && geometry.inputs % L::COLUMNS == 0;
        // SAFETY: the caller guarantees the instruction set, the images and the scratch
        // space, whose parts follow each other as in `scratch`.
        unsafe {
            // The scratch space: frames, the panel, the packed gradient.
            let panel = scratch.add(padded(group * frame.image()));
            let packed = panel.add(padded(group * geometry.out_pixels() * MAX_COLUMNS));
            let packed = (geometry.depth() >= PACKED_DEPTH).then_some(packed);
            if let Some(packed) = packed {
                self.pack_gradient::<L>(first, count, packed);
            }
            if !direct {
                frame.fill::<L>(self.input, first, count, scratch);
            }
            // Panel by panel: what the windows read, times the gradient.
            for column in (0..geometry.depth()).step_by(L::COLUMNS) {
                let columns = L::COLUMNS.min(geometry.depth() - column);
                if direct {
                    self.pack_input::<L>(first, count, column, panel);
                } else {
                    let mut held = 0;
                    while held < columns {
                        let piece = Piece::new(geometry, frame, column, held, columns);
                        self.pack_frame::<L>(scratch, count, piece, panel);
                        held += piece.length;
                    }
                }
                let right = Panel {
                    values: panel,
                    column,
                    columns,
                };
                self.products::<L>([first, count], packed, right, accumulate);
            }
        }
    }
}

/// Columns of a panel that lie together in a frame.
#[derive(Clone, Copy)]
struct Piece {
    /// Column in the panel.
    column: usize,
    /// Offset in the frame, from the start of a window.
    offset: usize,
    length: usize,
}

impl Piece {
    /// Returns the longest piece from `column` of the panel that begins with column `first`
    /// of all.
    fn new(geometry: &Geometry, frame: &Frame, first: usize, column: usize, end: usize) -> Self {
        let (inputs, kernel) = (geometry.inputs, geometry.window.kernel);
        let (tap, channel) = ((first + column) / inputs, (first + column) % inputs);
        let pixel = tap / kernel * frame.columns() + tap % kernel;
        // Pixels without a gap between them lie together along a row of the window.
        let row = if frame.pitch == inputs {
            (kernel - tap % kernel) * inputs - channel
        } else {
            inputs - channel
        };
        Self {
            column,
            offset: pixel * frame.pitch + channel,
            length: row.min(end - column),
        }
    }
}

impl Gradient<'_> {
    /// Packs the panel's columns of all pixels, normalised on the way.
    ///
    /// # Safety
    /// The CPU must support the instruction set of `L`. The images must exist, the panel's
    /// columns must be channels of theirs, and `panel` must hold a row for every pixel.
    #[inline(always)]
    unsafe fn pack_input<L: Lanes>(
        &self,
        first: usize,
        count: usize,
        column: usize,
        panel: *mut f32,
    ) {
        // SAFETY: the caller guarantees the instruction set, the pixels and the panel; a
        // panel is two vectors, both of channels that exist.
        unsafe {
            let inputs = self.geometry.inputs;
            let pixels = self.geometry.out_pixels();
            let mut position = first * pixels * inputs + column;
            let mut row = panel;
            for _ in 0..count * pixels {
                for vector in 0..2 {
                    let at = vector * L::WIDTH;
                    L::store(
                        row.add(at),
                        self.input.value::<L>(position + at, column + at),
                    );
                }
                position += inputs;
                row = row.wrapping_add(L::COLUMNS);
            }
        }
    }

    /// Packs a piece of the panel, of all pixels.
    ///
    /// # Safety
    /// The CPU must support the instruction set of `L`. `frames` must hold so many framed
    /// images and a vector more, and `panel` a row for every output pixel.
    #[inline(always)]
    unsafe fn pack_frame<L: Lanes>(
        &self,
        frames: *const f32,
        count: usize,
        piece: Piece,
        panel: *mut f32,
    ) {
        // SAFETY: the caller guarantees the instruction set, the frames and the panel;
        // whole vectors are stored only where they end within the panel's row, and what
        // they read too much of is within the padding of the scratch space.
        unsafe {
            let (frame, stride) = (self.frame, self.geometry.window.stride);
            // Whole vectors where they stay in the panel's row: the pieces that follow
            // write over what is too much.
            let end = piece.column + piece.length.next_multiple_of(L::WIDTH);
            let whole = end <= L::COLUMNS;
            let mut row = panel.add(piece.column);
            for image in 0..count {
                for y in 0..self.geometry.out_height {
                    let line = y * stride * frame.columns() * frame.pitch;
                    let mut from = frames.add(image * frame.image() + line + piece.offset);
                    for _ in 0..self.geometry.out_width {
                        if whole {
                            let mut at = 0;
                            while at < piece.length {
                                L::store(row.add(at), L::load(from.add(at)));
                                at += L::WIDTH;
                            }
                        } else {
                            copy::<L>(from, row, piece.length);
                        }
                        from = from.wrapping_add(stride * frame.pitch);
                        row = row.wrapping_add(L::COLUMNS);
                    }
                }
            }
        }
    }

    /// Returns the gradient of the unit's first output of an image.
    ///
    /// # Safety
    /// The image must exist.
    #[inline(always)]
    unsafe fn gradient_of(&self, image: usize) -> *const f32 {
        let pixels = image * self.geometry.out_pixels();
        let position = pixels * self.geometry.outputs + self.outputs.start;
        // SAFETY: the caller guarantees the image.
        unsafe { self.output_gradient.as_ptr().add(position) }
    }

    /// Packs the output's gradient of all pixels, a tile's rows of them after the other.
    ///
    /// # Safety
    /// The CPU must support the instruction set of `L`. The images must exist, and `packed`
    /// must hold the shard's outputs of all their pixels, in whole tiles' rows.
    #[inline(always)]
    unsafe fn pack_gradient<L: Lanes>(&self, first: usize, count: usize, packed: *mut f32) {
        // SAFETY: the caller guarantees the outputs' gradient and the packed space; `held`
        // outputs exist from each row on, and the two do not overlap.
        unsafe {
            let pixels = count * self.geometry.out_pixels();
            let outputs = self.geometry.outputs;
            let from = self.gradient_of(first);
            for row in (0..self.outputs.length).step_by(L::ROWS) {
                let held = L::ROWS.min(self.outputs.length - row);
                let to = packed.add(row * pixels);
                for pixel in 0..pixels {
                    let (from, to) = (from.add(pixel * outputs + row), to.add(pixel * L::ROWS));
                    // A constant length is a vector or two.
                    if held == L::ROWS {
                        to.copy_from_nonoverlapping(from, L::ROWS)
                    } else {
                        to.copy_from_nonoverlapping(from, held)
                    }
                }
            }
        }
    }

    /// Adds the panel's columns of the gradient.
    ///
    /// # Safety
    /// The CPU must support the instruction set of `L`. The images must exist, `packed`
    /// must be what [`Gradient::pack_gradient`] filled, and `right` a filled panel.
    #[inline(always)]
    unsafe fn products<L: Lanes>(
        &self,
        [first, count]: [usize; 2],
        packed: Option<*mut f32>,
        right: Panel,
        accumulate: bool,
    ) {
        // SAFETY: the caller guarantees the instruction set and the operands; rows beyond
        // `held` repeat the first, and the outputs and columns are the unit's own.
        unsafe {
            let depth = self.geometry.depth();
            let pixels = count * self.geometry.out_pixels();
            let outputs = self.geometry.outputs;
            let gradient = self.gradient_of(first);
            // A sum over all pixels, of which the left operand has a row each.
            let operands = Operands {
                runs: &[Run {
                    left: 0,
                    right: 0,
                    length: pixels,
                }],
                left_step: if packed.is_some() { L::ROWS } else { outputs },
                right: right.values,
                columns: right.columns,
                accumulate,
            };
            for row in (0..self.outputs.length).step_by(L::ROWS) {
                let held = L::ROWS.min(self.outputs.length - row);
                let output = |row: usize| self.target.at(row * depth + right.column);
                let left = match packed {
                    Some(packed) => packed.cast_const().add(row * pixels),
                    None => gradient.add(row),
                };
                // Rows that a tile has too many repeat the first.
                let mut rows = Rows {
                    left: [left; MAX_ROWS],
                    output: [output(row); MAX_ROWS],
                    count: held,
                };
                for index in 1..held {
                    rows.left[index] = left.add(index);
                    rows.output[index] = output(row + index);
                }
                L::product(&operands, &rows, right.columns <= L::WIDTH);
            }
        }
    }
}

/// Columns of what the windows saw, of all pixels of a group.
#[derive(Clone, Copy)]
struct Panel {
    values: *const f32,
    column: usize,
    columns: usize,
}
