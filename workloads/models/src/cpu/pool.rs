//! Bias, ReLU and 2×2 maximum in one pass, over channels-last images.

use super::lanes::Lanes;
use super::memory::{Output, Shard, Target, in_parallel, padded, shards_of_work, with_scratch};
use super::product::{copy, sum_of};
use super::{Kernel, dispatch_columns};

/// Rows and columns of a window, which is also its stride.
const SIDE: usize = 2;

/// Values of the widest vector.
const MAX_WIDTH: usize = 16;

/// The sizes of images that are pooled; odd last rows and columns are left out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pooled {
    pub(crate) batch: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) channels: usize,
}

impl Pooled {
    /// Returns the shape of the outputs.
    pub(crate) fn shape(&self) -> [usize; 4] {
        [
            self.batch,
            self.height / SIDE,
            self.width / SIDE,
            self.channels,
        ]
    }

    fn image(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// Outputs along a row.
    fn columns(&self) -> usize {
        self.width / SIDE
    }

    /// Values of a row of outputs.
    fn outputs(&self) -> usize {
        self.columns() * self.channels
    }

    /// Values of a row of an image that windows see.
    fn seen(&self) -> usize {
        SIDE * self.outputs()
    }

    /// Position of the first value that row `row` of image `index`'s outputs sees.
    fn first_seen(&self, index: usize, row: usize) -> usize {
        index * self.image() + SIDE * row * self.width * self.channels
    }

    /// Position of row `row` of image `index`'s outputs.
    fn first_output(&self, index: usize, row: usize) -> usize {
        (index * (self.height / SIDE) + row) * self.outputs()
    }
}

/// Returns the greatest of a window's four values and its position, the first of equals; NaN is
/// greatest.
///
/// # Safety
/// The CPU must support the instruction set of `L`, and a vector must be readable at each of the four
/// pixels of the window, whose first is at `upper` in one row and at `lower` in the next.
#[inline(always)]
unsafe fn greatest<L: Lanes>(
    upper: *const f32,
    lower: *const f32,
    channels: usize,
) -> (L::V, L::V) {
    // SAFETY: the caller guarantees the instruction set and the pixels.
    unsafe {
        let (mut best, mut place) = (L::load(upper), L::splat(0.0));
        let pixels = [upper.add(channels), lower, lower.add(channels)];
        for (at, pixel) in [1.0, 2.0, 3.0].into_iter().zip(pixels) {
            let value = L::load(pixel);
            place = L::select_greater(best, value, L::splat(at), place);
            best = L::select_greater(best, value, value, best);
        }
        (best, place)
    }
}

/// Computes the greatest of each window, plus the channel's bias, and above 0.
pub(crate) fn forward(images: &[f32], bias: &[f32], sizes: Pooled) -> Vec<f32> {
    let mut output = Output::new(sizes.shape().iter().product());
    let target = output.target();
    let scratch = 2 * padded(sizes.seen()) + padded(sizes.outputs()) + padded(sizes.channels);
    in_parallel(&shards_of_work(sizes.batch, sizes.image()), |shard| {
        with_scratch(scratch, |scratch| {
            let forward = Forward {
                images,
                bias,
                sizes,
                shard,
                scratch,
                target,
            };
            dispatch_columns(sizes.channels, forward);
        });
    });
    // SAFETY: the shards cover the batch, and the windows each image's outputs.
    unsafe { output.written() }
}

struct Forward<'a> {
    images: &'a [f32],
    bias: &'a [f32],
    sizes: Pooled,
    shard: Shard,
    scratch: *mut f32,
    target: Target,
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let sizes = self.sizes;
        let (channels, seen) = (sizes.channels, sizes.seen());
        // SAFETY: rows of images and of outputs are within them, these the shard's own. The scratch space
        // holds two rows of an image, one of outputs and the bias, each with a vector more: what lies
        // beyond a pixel's channels belongs to the next one, which is written after it.
        unsafe {
            let upper = self.scratch;
            let lower = upper.add(padded(seen));
            let outputs = lower.add(padded(seen));
            let bias = outputs.add(padded(sizes.outputs()));
            copy::<L>(self.bias.as_ptr(), bias, channels);
            for index in self.shard.start..self.shard.start + self.shard.length {
                for row in 0..sizes.height / SIDE {
                    let from = self.images.as_ptr().add(sizes.first_seen(index, row));
                    copy::<L>(from, upper, seen);
                    copy::<L>(from.add(sizes.width * channels), lower, seen);
                    for column in 0..sizes.columns() {
                        let pixel = SIDE * column * channels;
                        for at in (0..channels).step_by(L::WIDTH) {
                            let (upper, lower) = (upper.add(pixel + at), lower.add(pixel + at));
                            let (greatest, _) = greatest::<L>(upper, lower, channels);
                            let y = L::add(greatest, L::load(bias.add(at)));
                            L::store(outputs.add(column * channels + at), L::rectify(y));
                        }
                    }
                    let to = self.target.at(sizes.first_output(index, row));
                    copy::<L>(outputs, to, sizes.outputs());
                }
            }
        }
    }
}

/// Computes the gradients of the images and of the bias.
pub(crate) fn backward(
    images: &[f32],
    bias: &[f32],
    output_gradient: &[f32],
    sizes: Pooled,
) -> (Vec<f32>, Vec<f32>) {
    let mut gradient = vec![0.0; images.len()];
    let target = Target::of(&mut gradient);
    let scratch = 4 * padded(sizes.seen()) + padded(sizes.outputs()) + 2 * padded(sizes.channels);
    let parts = in_parallel(&shards_of_work(sizes.batch, sizes.image()), |shard| {
        let mut bias_gradient = vec![0.0; bias.len()];
        with_scratch(scratch, |scratch| {
            let backward = Backward {
                images,
                bias,
                output_gradient,
                sizes,
                shard,
                scratch,
                target,
                bias_gradient: &mut bias_gradient,
            };
            dispatch_columns(sizes.channels, backward);
        });
        bias_gradient
    });
    (gradient, sum_of(parts))
}

struct Backward<'a> {
    images: &'a [f32],
    bias: &'a [f32],
    output_gradient: &'a [f32],
    sizes: Pooled,
    shard: Shard,
    scratch: *mut f32,
    target: Target,
    bias_gradient: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let sizes = self.sizes;
        let (channels, seen) = (sizes.channels, sizes.seen());
        // A vector reaches into the next pixel, which is written after it, where a pixel is less than one.
        let overlaps = channels < L::WIDTH || channels.is_multiple_of(L::WIDTH);
        // SAFETY: rows of images, of their gradient and of the outputs' are within them, the gradient's the
        // shard's own. The scratch space holds four rows of an image, one of outputs, the bias and its
        // gradient, each with a vector more.
        unsafe {
            let upper = self.scratch;
            let lower = upper.add(padded(seen));
            let rows = [2, 3].map(|row| upper.add(row * padded(seen)));
            let slopes = upper.add(4 * padded(seen));
            let bias = slopes.add(padded(sizes.outputs()));
            let sums = bias.add(padded(channels));
            copy::<L>(self.bias.as_ptr(), bias, channels);
            sums.write_bytes(0, padded(channels));
            for index in self.shard.start..self.shard.start + self.shard.length {
                for row in 0..sizes.height / SIDE {
                    let first = sizes.first_seen(index, row);
                    let from = self.images.as_ptr().add(first);
                    copy::<L>(from, upper, seen);
                    copy::<L>(from.add(sizes.width * channels), lower, seen);
                    let from = self.output_gradient.as_ptr();
                    let from = from.add(sizes.first_output(index, row));
                    copy::<L>(from, slopes, sizes.outputs());
                    for column in 0..sizes.columns() {
                        let pixel = SIDE * column * channels;
                        for at in (0..channels).step_by(L::WIDTH) {
                            let (upper, lower) = (upper.add(pixel + at), lower.add(pixel + at));
                            let (greatest, place) = greatest::<L>(upper, lower, channels);
                            let y = L::add(greatest, L::load(bias.add(at)));
                            let slope = L::load(slopes.add(column * channels + at));
                            let slope = L::pass(slope, y);
                            let sum = sums.add(at);
                            L::store(sum, L::add(L::load(sum), slope));
                            for (here, to) in [0.0, 1.0, 2.0, 3.0].into_iter().zip([
                                rows[0].add(pixel + at),
                                rows[0].add(pixel + channels + at),
                                rows[1].add(pixel + at),
                                rows[1].add(pixel + channels + at),
                            ]) {
                                let apart = L::sub(place, L::splat(here));
                                // Above 0 at the place itself, and only there.
                                let gate = L::sub(L::splat(0.5), L::mul(apart, apart));
                                let passed = L::pass(slope, gate);
                                if overlaps || at + L::WIDTH <= channels {
                                    L::store(to, passed);
                                } else {
                                    let mut values = [0.0f32; MAX_WIDTH];
                                    L::store(values.as_mut_ptr(), passed);
                                    to.copy_from_nonoverlapping(values.as_ptr(), channels - at);
                                }
                            }
                        }
                    }
                    for (below, row) in rows.into_iter().enumerate() {
                        let to = self.target.at(first + below * sizes.width * channels);
                        copy::<L>(row, to, seen);
                    }
                }
            }
            copy::<L>(sums, self.bias_gradient.as_mut_ptr(), channels);
        }
    }
}
