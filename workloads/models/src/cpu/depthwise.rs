//! The depthwise convolution: every channel by itself, so that vectors run along the
//! channels and a pixel's taps are a short sum.

use super::channels::transposed;
use super::geometry::Geometry;
use super::input::{Frame, Input};
use super::lanes::Lanes;
use super::memory::{Output, Shard, Target, in_parallel, padded, shards_of_work, with_scratch};
use super::method::Gradients;
use super::norm::{GroupMoments, Moments, Sums, function_gradient_and_sums, group_moments};
use super::product::sum_of;
use super::{Kernel, dispatch_whole};

/// The images convolved, and each channel's moments; of no channels where they are not
/// wanted.
pub(crate) fn forward(
    input: Input<'_>,
    weight: &[f32],
    geometry: &Geometry,
    moments_wanted: bool,
) -> (Vec<f32>, Moments) {
    let weight = channels_last(weight, geometry);
    let mut output = Output::new(geometry.output_shape().iter().product());
    let target = output.target();
    let frame = frame(geometry);
    let groups = in_parallel(&image_shards(geometry), |shard| {
        with_scratch(padded(frame.image()), |scratch| {
            let forward = Forward {
                input,
                weight: &weight,
                geometry,
                frame: &frame,
                shard,
                scratch,
                target,
                moments_wanted,
            };
            dispatch_whole(geometry.inputs, forward)
        })
    });
    // SAFETY: the shards cover the batch, and each writes all pixels of its images.
    let output = unsafe { output.written() };
    (output, Moments::of(&groups.concat()))
}

/// The gradients of the images, where they are wanted, and of the weight.
pub(crate) fn backward(
    input: Input<'_>,
    weight: &[f32],
    output_gradient: &[f32],
    geometry: &Geometry,
    images_wanted: bool,
) -> Gradients {
    let weight = channels_last(weight, geometry);
    let images = geometry.batch * geometry.pixels() * geometry.inputs;
    let mut gradient = Output::new(if images_wanted { images } else { 0 });
    let target = images_wanted.then(|| gradient.target());
    let frame = frame(geometry);
    let parts = in_parallel(&image_shards(geometry), |shard| {
        with_scratch(padded(frame.image()), |scratch| {
            let backward = Backward {
                input,
                weight: &weight,
                output_gradient,
                geometry,
                frame: &frame,
                shard,
                scratch,
                target,
            };
            dispatch_whole(geometry.inputs, backward)
        })
    });
    let (weights, sums): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    Gradients {
        // SAFETY: where it is wanted, the shards cover the batch and write all pixels.
        images: images_wanted.then(|| unsafe { gradient.written() }),
        weight: transposed(&sum_of(weights), [geometry.taps(), geometry.inputs]),
        sums: (images_wanted && input.norm.is_some()).then(|| Sums::of(&sums.concat())),
    }
}

fn image_shards(geometry: &Geometry) -> Vec<Shard> {
    shards_of_work(geometry.batch, geometry.pixels() * geometry.inputs)
}

/// Weights `[channels, 1, kernel, kernel]` with the channels innermost.
fn channels_last(weight: &[f32], geometry: &Geometry) -> Vec<f32> {
    transposed(weight, [geometry.inputs, geometry.taps()])
}

/// A sum of products over a block of taps, all channels of a pixel at once.
#[derive(Clone, Copy)]
struct Block {
    /// Taps in each direction.
    rows: usize,
    columns: usize,
    /// Values from one tap's pixel to the next.
    pixel_row: usize,
    channels: usize,
    /// Values from one tap's weights to the next: backwards in the backward pass.
    weight_row: isize,
    weight_column: isize,
}

impl Block {
    /// `to = Σ from[tap] · weight[tap]`, of `count` pixels: from one to the next, `from` goes on by
    /// `step` values, and `to` by a pixel.
    ///
    /// # Safety
    /// The CPU must support the instruction set of `L`, and `from`, `weight` and `to` must
    /// be valid for the taps of the block and for whole vectors of its channels, `from` and `to` of
    /// every pixel.
    #[inline(always)]
    unsafe fn sums<L: Lanes>(
        &self,
        from: *const f32,
        weight: *const f32,
        to: *mut f32,
        [count, step]: [usize; 2],
    ) {
        // SAFETY: the caller guarantees the instruction set and the pointers for all taps,
        // whatever their number, of every pixel.
        unsafe {
            match (self.rows, self.columns) {
                (3, 3) => self.sums_of::<L, 3>(from, weight, to, [count, step]),
                (5, 5) => self.sums_of::<L, 5>(from, weight, to, [count, step]),
                _ => {
                    for pixel in 0..count {
                        let (from, to) = (from.add(pixel * step), to.add(pixel * self.channels));
                        self.sum::<L>(from, weight, to);
                    }
                }
            }
        }
    }

    /// A vector of channels of all pixels after the other, so that its weights are read once.
    ///
    /// # Safety
    /// What [`Block::sums`] needs must hold of `K` by `K` taps.
    #[inline(always)]
    unsafe fn sums_of<L: Lanes, const K: usize>(
        &self,
        from: *const f32,
        weight: *const f32,
        to: *mut f32,
        [count, step]: [usize; 2],
    ) {
        // SAFETY: the caller guarantees the instruction set, and that every tap of every pixel has
        // its pixel and its weights, of channels that are whole vectors.
        unsafe {
            for at in (0..self.channels).step_by(L::WIDTH) {
                let mut weights = [[L::splat(0.0); K]; K];
                for (row, weights) in weights.iter_mut().enumerate() {
                    for (column, value) in weights.iter_mut().enumerate() {
                        *value = L::load(weight.offset(self.tap(row, column)).add(at));
                    }
                }
                let (mut from, mut to) = (from.add(at), to.add(at));
                for _ in 0..count {
                    let mut sum = L::splat(0.0);
                    for (row, weights) in weights.iter().enumerate() {
                        for (column, weight) in weights.iter().enumerate() {
                            let value = from.add(row * self.pixel_row + column * self.channels);
                            sum = L::fma(L::load(value), *weight, sum);
                        }
                    }
                    L::store(to, sum);
                    from = from.wrapping_add(step);
                    to = to.wrapping_add(self.channels);
                }
            }
        }
    }

    /// One pixel's sum, of any number of taps.
    ///
    /// # Safety
    /// What [`Block::sums`] needs must hold.
    #[inline(always)]
    unsafe fn sum<L: Lanes>(&self, from: *const f32, weight: *const f32, to: *mut f32) {
        // SAFETY: the caller guarantees the instruction set, and that every tap has its
        // pixel and its weights, of channels that are whole vectors.
        unsafe {
            for at in (0..self.channels).step_by(L::WIDTH) {
                let mut sum = L::splat(0.0);
                for row in 0..self.rows {
                    for column in 0..self.columns {
                        let from = from.add(row * self.pixel_row + column * self.channels + at);
                        let weight = weight.offset(self.tap(row, column)).add(at);
                        sum = L::fma(L::load(from), L::load(weight), sum);
                    }
                }
                L::store(to.add(at), sum);
            }
        }
    }

    /// Values from the first tap's weights to those of another.
    #[inline(always)]
    fn tap(&self, row: usize, column: usize) -> isize {
        row as isize * self.weight_row + column as isize * self.weight_column
    }
}

/// Returns an image framed by the zeros that the window is padded with, its pixels
/// together.
fn frame(geometry: &Geometry) -> Frame {
    let padding = geometry.window.padding;
    Frame {
        pitch: geometry.inputs,
        ..Frame::new(
            [geometry.height, geometry.width, geometry.inputs],
            padding,
            padding,
        )
    }
}

struct Forward<'a> {
    input: Input<'a>,
    weight: &'a [f32],
    geometry: &'a Geometry,
    frame: &'a Frame,
    shard: Shard,
    scratch: *mut f32,
    target: Target,
    moments_wanted: bool,
}

impl Kernel for Forward<'_> {
    type Output = Vec<GroupMoments>;

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> Self::Output {
        let (pixels, channels) = (self.geometry.out_pixels(), self.geometry.inputs);
        let mut moments = vec![];
        for image in self.shard.start..self.shard.start + self.shard.length {
            // SAFETY: the image exists, the scratch space holds its frame, and its outputs
            // are this shard's own.
            unsafe {
                let output = self.target.at(image * pixels * channels);
                self.frame.fill::<L>(self.input, image, 1, self.scratch);
                self.image::<L>(output);
                if self.moments_wanted {
                    moments.push(group_moments::<L>(output, pixels, channels));
                }
            }
        }
        moments
    }
}

impl Forward<'_> {
    /// # Safety
    /// The CPU must support the instruction set of `L`, the channels must be whole vectors,
    /// the scratch space must hold the framed image, and `output` all its pixels.
    #[inline(always)]
    unsafe fn image<L: Lanes>(&self, output: *mut f32) {
        // SAFETY: the caller guarantees the instruction set; each window lies within the
        // frame, which has the padding around the image, and there is an output pixel for
        // each.
        unsafe {
            let (frame, image) = (self.frame, self.scratch);
            let window = self.geometry.window;
            let block = Block {
                rows: window.kernel,
                columns: window.kernel,
                pixel_row: frame.columns() * frame.channels,
                channels: frame.channels,
                weight_row: (window.kernel * frame.channels) as isize,
                weight_column: frame.channels as isize,
            };
            let mut to = output;
            for y in 0..self.geometry.out_height {
                let from = image.add(y * window.stride * block.pixel_row);
                let pixels = [self.geometry.out_width, window.stride * frame.channels];
                block.sums::<L>(from, self.weight.as_ptr(), to, pixels);
                to = to.wrapping_add(self.geometry.out_width * frame.channels);
            }
        }
    }
}

struct Backward<'a> {
    input: Input<'a>,
    weight: &'a [f32],
    output_gradient: &'a [f32],
    geometry: &'a Geometry,
    frame: &'a Frame,
    shard: Shard,
    scratch: *mut f32,
    /// Gradient of the images.
    target: Option<Target>,
}

impl Kernel for Backward<'_> {
    type Output = (Vec<f32>, Vec<Sums>);

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> Self::Output {
        let geometry = self.geometry;
        let channels = geometry.inputs;
        let length = geometry.taps() * channels;
        let mut total = vec![0.0; length];
        let mut part = vec![0.0; length];
        let mut sums = vec![];
        for image in self.shard.start..self.shard.start + self.shard.length {
            // SAFETY: the image exists, the scratch space holds its frame, and its gradient
            // is this shard's own.
            unsafe {
                let gradient = geometry.out_pixels() * channels * image;
                let gradient = self.output_gradient.as_ptr().add(gradient);
                self.frame.fill::<L>(self.input, image, 1, self.scratch);
                self.weight_part::<L>(gradient, &mut part);
                // Sums within an image first: short sums keep the digits of `f32`.
                for (total, part) in total.iter_mut().zip(&part) {
                    *total += part;
                }
                // The gradient of the image, and of its norm, where they are wanted.
                let Some(target) = self.target else { continue };
                let first = image * geometry.pixels();
                self.image::<L>(gradient, target.at(first * channels));
                if let Some(norm) = self.input.norm {
                    let pixels = geometry.pixels();
                    sums.push(function_gradient_and_sums::<L>(
                        self.input, norm, target, first, pixels,
                    ));
                }
            }
        }
        (total, sums)
    }
}

/// The outputs along an axis whose windows see one position, from the first on, and the
/// tap through which the first sees it; the next use the tap `stride` before.
#[derive(Clone, Copy)]
struct Seeing {
    first: usize,
    tap: usize,
    count: usize,
}

impl Seeing {
    fn new(geometry: &Geometry, at: usize, outputs: usize) -> Self {
        let window = geometry.window;
        let offset = at + window.padding;
        let last = (offset / window.stride).min(outputs - 1);
        let first = (offset + 1)
            .saturating_sub(window.kernel)
            .div_ceil(window.stride);
        match last.checked_sub(first) {
            Some(more) => Self {
                first,
                tap: offset - first * window.stride,
                count: more + 1,
            },
            None => Self {
                first: 0,
                tap: 0,
                count: 0,
            },
        }
    }

    /// Returns whether `other` sees through the same taps, from `more` outputs further on.
    #[inline(always)]
    fn goes_on(&self, other: &Self, more: usize) -> bool {
        (other.tap, other.count, other.first) == (self.tap, self.count, self.first + more)
    }
}

impl Backward<'_> {
    /// Computes the gradient of one image.
    ///
    /// # Safety
    /// The CPU must support the instruction set of `L`, the channels must be whole vectors,
    /// `gradient` must hold the image's output pixels, and `image` its own.
    #[inline(always)]
    unsafe fn image<L: Lanes>(&self, gradient: *const f32, image: *mut f32) {
        // SAFETY: the caller guarantees the instruction set; `Seeing` leaves only outputs
        // that exist and taps of the window, and `to` is advanced by as many pixels as the
        // image has.
        unsafe {
            let geometry = self.geometry;
            let (channels, kernel) = (geometry.inputs, geometry.window.kernel);
            let back = (geometry.window.stride * channels) as isize;
            let columns: Vec<Seeing> = (0..geometry.width)
                .map(|x| Seeing::new(geometry, x, geometry.out_width))
                .collect();
            let mut to = image;
            for y in 0..geometry.height {
                let row = Seeing::new(geometry, y, geometry.out_height);
                let mut x = 0;
                while x < columns.len() {
                    // Neighbours that are seen through the same taps, each from the next output on.
                    let column = columns[x];
                    let run = columns[x..].iter().enumerate();
                    let count = run
                        .take_while(|(more, next)| column.goes_on(next, *more))
                        .count();
                    let block = Block {
                        rows: row.count,
                        columns: column.count,
                        pixel_row: geometry.out_width * channels,
                        channels,
                        weight_row: -back * kernel as isize,
                        weight_column: -back,
                    };
                    let pixel = row.first * geometry.out_width + column.first;
                    let tap = row.tap * kernel + column.tap;
                    let weight = self.weight.as_ptr().add(tap * channels);
                    let from = gradient.add(pixel * channels);
                    block.sums::<L>(from, weight, to, [count, channels]);
                    to = to.wrapping_add(count * channels);
                    x += count;
                }
            }
        }
    }

    /// Computes one image's part of the weight's gradient, `[taps, channels]`.
    ///
    /// # Safety
    /// The CPU must support the instruction set of `L`, the channels must be whole vectors, the
    /// scratch space must hold the framed image, `gradient` its output pixels, and `part` a value
    /// for each weight.
    #[inline(always)]
    unsafe fn weight_part<L: Lanes>(&self, gradient: *const f32, part: &mut [f32]) {
        // SAFETY: the caller guarantees the instruction set and the operands; the rows of
        // taps are those of the window, and the channels are whole vectors.
        unsafe {
            let (frame, image) = (self.frame, self.scratch.cast_const());
            let (kernel, channels) = (self.geometry.window.kernel, self.geometry.inputs);
            for row in 0..kernel {
                let image = image.add(row * frame.columns() * channels);
                let part = part.as_mut_ptr().add(row * kernel * channels);
                match kernel {
                    3 => self.weight_row::<L, 3>(image, gradient, part),
                    5 => self.weight_row::<L, 5>(image, gradient, part),
                    _ => {
                        for at in (0..kernel).map(|column| column * channels) {
                            self.weight_row::<L, 1>(image.add(at), gradient, part.add(at));
                        }
                    }
                }
            }
        }
    }

    /// Computes `N` neighbouring taps of the weight's gradient, their sums in registers.
    ///
    /// # Safety
    /// The CPU must support the instruction set of `L`, the channels must be whole vectors,
    /// `image` must be valid for `N` taps of every window, `gradient` for all output
    /// pixels, and `part` for `N` taps.
    #[inline(always)]
    unsafe fn weight_row<L: Lanes, const N: usize>(
        &self,
        image: *const f32,
        gradient: *const f32,
        part: *mut f32,
    ) {
        // SAFETY: the caller guarantees the instruction set and the operands; of the frame,
        // no more is read than the windows see.
        unsafe {
            let Geometry {
                window,
                inputs: channels,
                out_height,
                out_width,
                ..
            } = *self.geometry;
            for at in (0..channels).step_by(L::WIDTH) {
                let mut sums = [L::splat(0.0); N];
                let mut gradient = gradient.add(at);
                for y in 0..out_height {
                    let mut image =
                        image.add(y * window.stride * self.frame.columns() * channels + at);
                    for _ in 0..out_width {
                        let g = L::load(gradient);
                        for (column, sum) in sums.iter_mut().enumerate() {
                            *sum = L::fma(L::load(image.add(column * channels)), g, *sum);
                        }
                        gradient = gradient.wrapping_add(channels);
                        image = image.wrapping_add(window.stride * channels);
                    }
                }
                for (column, sum) in sums.into_iter().enumerate() {
                    L::store(part.add(column * channels + at), sum);
                }
            }
        }
    }
}
