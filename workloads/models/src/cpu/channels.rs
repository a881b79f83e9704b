//! A value for each channel of an image, at all of its pixels, and channels of two images side by
//! side.

use super::lanes::Lanes;
use super::memory::{Output, Shard, Target, in_parallel, shards_of_work};
use super::{Kernel, dispatch};

/// The sizes of images whose channels are worked on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) batch: usize,
    /// Pixels of an image.
    pub(crate) pixels: usize,
    pub(crate) channels: usize,
}

impl Sizes {
    /// Returns the sizes of images `[batch, height, width, channels]`.
    pub(crate) const fn new([batch, height, width, channels]: [usize; 4]) -> Self {
        Self {
            batch,
            pixels: height * width,
            channels,
        }
    }

    const fn image(&self) -> usize {
        self.pixels * self.channels
    }

    fn shards(&self) -> Vec<Shard> {
        shards_of_work(self.batch, self.image())
    }
}

/// The gradient of images from that of their channels' means: each image's row, times both factors one
/// after the other, at each of its pixels.
pub(crate) fn mean_gradient(rows: &[f32], [first, second]: [f32; 2], sizes: Sizes) -> Vec<f32> {
    let mut output = Output::new(sizes.batch * sizes.image());
    let target = output.target();
    let rows: Vec<f32> = rows.iter().map(|row| second * (first * row)).collect();
    in_parallel(&sizes.shards(), |shard| {
        for image in shard.start..shard.start + shard.length {
            let row = &rows[image * sizes.channels..][..sizes.channels];
            // SAFETY: the image is this shard's own.
            let values = unsafe { target.slice(image * sizes.image(), sizes.image()) };
            for pixel in values.chunks_exact_mut(sizes.channels) {
                pixel.copy_from_slice(row);
            }
        }
    });
    // SAFETY: the shards cover the batch, and each writes all values of its images.
    unsafe { output.written() }
}

/// Each image times its row of shares.
pub(crate) fn excited(values: &[f32], shares: &[f32], sizes: Sizes) -> Vec<f32> {
    let mut output = Output::new(values.len());
    let target = output.target();
    in_parallel(&sizes.shards(), |shard| {
        dispatch(Excited {
            values,
            shares,
            sizes,
            shard,
            target,
        });
    });
    // SAFETY: the shards cover the batch, and each writes all values of its images.
    unsafe { output.written() }
}

struct Excited<'a> {
    values: &'a [f32],
    shares: &'a [f32],
    sizes: Sizes,
    shard: Shard,
    target: Target,
}

impl Kernel for Excited<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let sizes = self.sizes;
        for image in self.shard.start..self.shard.start + self.shard.length {
            let shares = &self.shares[image * sizes.channels..][..sizes.channels];
            let values = &self.values[image * sizes.image()..][..sizes.image()];
            // SAFETY: the image is this shard's own.
            let output = unsafe { self.target.slice(image * sizes.image(), sizes.image()) };
            let pixels = values.chunks_exact(sizes.channels);
            for (to, from) in output.chunks_exact_mut(sizes.channels).zip(pixels) {
                for ((to, value), share) in to.iter_mut().zip(from).zip(shares) {
                    *to = value * share;
                }
            }
        }
    }
}

/// The gradients of the images and of the shares of [`excited`].
pub(crate) fn excited_gradients(
    [values, shares, gradient]: [&[f32]; 3],
    sizes: Sizes,
) -> [Vec<f32>; 2] {
    let images = excited(gradient, shares, sizes);
    let mut sums = vec![0.0; sizes.batch * sizes.channels];
    let target = Target::of(&mut sums);
    in_parallel(&sizes.shards(), |shard| {
        dispatch(ShareSums {
            values,
            gradient,
            sizes,
            shard,
            target,
        });
    });
    [images, sums]
}

struct ShareSums<'a> {
    values: &'a [f32],
    gradient: &'a [f32],
    sizes: Sizes,
    shard: Shard,
    target: Target,
}

impl Kernel for ShareSums<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let sizes = self.sizes;
        for image in self.shard.start..self.shard.start + self.shard.length {
            let values = &self.values[image * sizes.image()..][..sizes.image()];
            let gradient = &self.gradient[image * sizes.image()..][..sizes.image()];
            // SAFETY: the row is this shard's own.
            let sums = unsafe { self.target.slice(image * sizes.channels, sizes.channels) };
            let pixels = values.chunks_exact(sizes.channels);
            for (value, gradient) in pixels.zip(gradient.chunks_exact(sizes.channels)) {
                for ((sum, value), gradient) in sums.iter_mut().zip(value).zip(gradient) {
                    *sum += value * gradient;
                }
            }
        }
    }
}

/// The transposes of matrices of so many rows and columns, which follow each other.
pub(crate) fn transposed(values: &[f32], [rows, columns]: [usize; 2]) -> Vec<f32> {
    let size = rows * columns;
    let mut output = Output::new(values.len());
    let target = output.target();
    in_parallel(&shards_of_work(values.len() / size, size), |shard| {
        for matrix in shard.start..shard.start + shard.length {
            let from = &values[matrix * size..][..size];
            // SAFETY: the matrix is this shard's own.
            let to = unsafe { target.slice(matrix * size, size) };
            for (column, to) in to.chunks_exact_mut(rows).enumerate() {
                let from = from[column..].iter().step_by(columns);
                for (to, from) in to.iter_mut().zip(from) {
                    *to = *from;
                }
            }
        }
    });
    // SAFETY: the shards cover the matrices, and each writes all values of its own.
    unsafe { output.written() }
}

/// The pixels of two images of so many channels, those of the second after those of the first.
pub(crate) fn side_by_side(parts: [&[f32]; 2], channels: [usize; 2]) -> Vec<f32> {
    let mut joined = Vec::with_capacity(parts[0].len() + parts[1].len());
    let second = parts[1].chunks_exact(channels[1]);
    for (first, second) in parts[0].chunks_exact(channels[0]).zip(second) {
        joined.extend_from_slice(first);
        joined.extend_from_slice(second);
    }
    joined
}

/// The parts that [`side_by_side`] joined.
pub(crate) fn apart(joined: &[f32], channels: [usize; 2]) -> [Vec<f32>; 2] {
    let [first, second] = channels;
    let pixels = joined.len() / (first + second);
    let mut parts = channels.map(|channels| Vec::with_capacity(pixels * channels));
    for pixel in joined.chunks_exact(first + second) {
        let (before, after) = pixel.split_at(first);
        parts[0].extend_from_slice(before);
        parts[1].extend_from_slice(after);
    }
    parts
}
