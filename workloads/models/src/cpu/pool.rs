//! Bias, ReLU and 2×2 maximum in one pass, over channels-last images.

use super::lanes::Lanes;
use super::memory::{Output, Shard, Target, in_parallel, shards_of_work};
use super::product::sum_of;
use super::{Kernel, dispatch};

/// Rows and columns of a window, which is also its stride.
const SIDE: usize = 2;

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

    fn windows(&self) -> usize {
        (self.height / SIDE) * (self.width / SIDE)
    }

    /// Returns the starts of the four pixels of a window in their image.
    #[inline(always)]
    fn positions(&self, window: usize) -> [usize; 4] {
        let columns = self.width / SIDE;
        let row = SIDE * (window / columns) * self.width + SIDE * (window % columns);
        [row, row + 1, row + self.width, row + self.width + 1].map(|pixel| pixel * self.channels)
    }

    /// Returns the four pixels of a window of one image, all channels of each.
    #[inline(always)]
    fn rows<'a>(&self, images: &'a [f32], index: usize, window: usize) -> [&'a [f32]; 4] {
        let image = &images[index * self.image()..][..self.image()];
        self.positions(window)
            .map(|position| &image[position..][..self.channels])
    }
}

/// Returns the maximum of four values and its position, the first of equals; NaN is
/// greatest.
#[inline(always)]
fn greatest(values: [f32; 4]) -> (f32, u32) {
    let (mut best, mut at) = (values[0], 0);
    for (index, value) in (1..).zip(&values[1..]) {
        let better = (*value > best) | (value.is_nan() & !best.is_nan());
        best = if better { *value } else { best };
        at = if better { index } else { at };
    }
    (best, at)
}

/// Computes the greatest of each window, plus the channel's bias, and above 0.
pub(crate) fn forward(images: &[f32], bias: &[f32], sizes: Pooled) -> Vec<f32> {
    let mut output = Output::new(sizes.shape().iter().product());
    let target = output.target();
    in_parallel(&shards_of_work(sizes.batch, sizes.image()), |shard| {
        dispatch(Forward {
            images,
            bias,
            sizes,
            shard,
            target,
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
    target: Target,
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let sizes = self.sizes;
        for index in self.shard.start..self.shard.start + self.shard.length {
            for window in 0..sizes.windows() {
                let rows = sizes.rows(self.images, index, window);
                let at = (index * sizes.windows() + window) * sizes.channels;
                for channel in 0..sizes.channels {
                    let (value, _) = greatest(rows.map(|row| row[channel]));
                    let y = value + self.bias[channel];
                    // SAFETY: the image's outputs are this shard's own.
                    unsafe { *self.target.at(at + channel) = if y <= 0.0 { 0.0 } else { y } };
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
    let parts = in_parallel(&shards_of_work(sizes.batch, sizes.image()), |shard| {
        let mut bias_gradient = vec![0.0; bias.len()];
        dispatch(Backward {
            images,
            bias,
            output_gradient,
            sizes,
            shard,
            target,
            bias_gradient: &mut bias_gradient,
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
    target: Target,
    bias_gradient: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let sizes = self.sizes;
        let channels = sizes.channels;
        for index in self.shard.start..self.shard.start + self.shard.length {
            for window in 0..sizes.windows() {
                let rows = sizes.rows(self.images, index, window);
                let at = (index * sizes.windows() + window) * channels;
                let slopes = &self.output_gradient[at..][..channels];
                let positions = sizes.positions(window);
                for channel in 0..channels {
                    let (value, best) = greatest(rows.map(|row| row[channel]));
                    let stopped = value + self.bias[channel] <= 0.0;
                    let slope = if stopped { 0.0 } else { slopes[channel] };
                    self.bias_gradient[channel] += slope;
                    for (position, pixel) in (0..).zip(positions) {
                        let passed = if position == best { slope } else { 0.0 };
                        // SAFETY: the image's gradient is this shard's own.
                        unsafe {
                            *self.target.at(index * sizes.image() + pixel + channel) = passed
                        };
                    }
                }
            }
        }
    }
}
