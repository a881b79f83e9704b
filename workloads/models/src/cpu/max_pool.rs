//! The maximum of any square window, over channels-last images.

use super::input::Input;
use super::lanes::Lanes;
use super::memory::{Output, Shard, Target, in_parallel, shards_of_work};
use super::{Kernel, dispatch_whole};
use crate::ops::PoolWindow;

/// The sizes of images and of what is made of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    batch: usize,
    height: usize,
    width: usize,
    channels: usize,
    window: PoolWindow,
}

impl Sizes {
    /// Returns the sizes for images `[batch, height, width, channels]`.
    pub(crate) fn new([batch, height, width, channels]: [usize; 4], window: PoolWindow) -> Self {
        Self {
            batch,
            height,
            width,
            channels,
            window,
        }
    }

    /// Shape of the outputs.
    pub(crate) fn shape(&self) -> [usize; 4] {
        let [height, width] = [self.height, self.width].map(|side| self.window.outputs(side));
        [self.batch, height, width, self.channels]
    }

    fn image(&self) -> usize {
        self.height * self.width * self.channels
    }

    fn output(&self) -> usize {
        self.shape()[1..].iter().product()
    }

    fn shards(&self) -> Vec<Shard> {
        shards_of_work(self.batch, self.image())
    }

    /// Returns what each output of an image sees.
    fn windows(&self) -> Windows {
        let [_, rows, columns, _] = self.shape();
        let mut windows = Windows {
            ends: Vec::with_capacity(rows * columns),
            pixels: Vec::with_capacity(rows * columns * self.window.side * self.window.side),
        };
        for row in 0..rows {
            for column in 0..columns {
                for y in self.window.range(row, self.height) {
                    for x in self.window.range(column, self.width) {
                        windows.pixels.push((y * self.width + x) * self.channels);
                    }
                }
                windows.ends.push(windows.pixels.len());
            }
        }
        windows
    }
}

/// First values of the pixels that the outputs of an image see, output by output. A kernel
/// takes no closure over them, which would be compiled for no level.
struct Windows {
    /// Where the pixels of each output end.
    ends: Vec<usize>,
    pixels: Vec<usize>,
}

/// The greatest of each window; NaN is greatest.
pub(crate) fn forward(input: Input<'_>, sizes: Sizes) -> Vec<f32> {
    let mut output = Output::new(sizes.shape().iter().product());
    let target = output.target();
    let windows = &sizes.windows();
    in_parallel(&sizes.shards(), |shard| {
        let forward = Forward {
            input,
            sizes,
            windows,
            shard,
            target,
        };
        dispatch_whole(sizes.channels, forward);
    });
    // SAFETY: the shards cover the batch, and the windows each image's outputs.
    unsafe { output.written() }
}

struct Forward<'a> {
    input: Input<'a>,
    sizes: Sizes,
    windows: &'a Windows,
    shard: Shard,
    target: Target,
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for index in self.shard.start..self.shard.start + self.shard.length {
            let (image, output) = (index * self.sizes.image(), index * self.sizes.output());
            let mut first = 0;
            for (to, &end) in self.windows.ends.iter().enumerate() {
                let seen = &self.windows.pixels[first..end];
                first = end;
                for at in (0..self.sizes.channels).step_by(L::WIDTH) {
                    // SAFETY: the pixels are the image's, the output this shard's own.
                    unsafe {
                        let mut greatest = self.input.value::<L>(image + seen[0] + at, at);
                        for &pixel in &seen[1..] {
                            let value = self.input.value::<L>(image + pixel + at, at);
                            greatest = L::select_greater(greatest, value, value, greatest);
                        }
                        let to = output + to * self.sizes.channels + at;
                        L::store(self.target.at(to), greatest);
                    }
                }
            }
        }
    }
}

/// The gradient of what the windows saw: all of an output's goes to its first maximum.
pub(crate) fn backward(input: Input<'_>, output_gradient: &[f32], sizes: Sizes) -> Vec<f32> {
    let mut gradient = vec![0.0; sizes.batch * sizes.image()];
    let target = Target::of(&mut gradient);
    let windows = &sizes.windows();
    in_parallel(&sizes.shards(), |shard| {
        let backward = Backward {
            input,
            output_gradient,
            sizes,
            windows,
            shard,
            target,
        };
        dispatch_whole(sizes.channels, backward);
    });
    gradient
}

struct Backward<'a> {
    input: Input<'a>,
    output_gradient: &'a [f32],
    sizes: Sizes,
    windows: &'a Windows,
    shard: Shard,
    target: Target,
}

impl Kernel for Backward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for index in self.shard.start..self.shard.start + self.shard.length {
            let (image, output) = (index * self.sizes.image(), index * self.sizes.output());
            let mut first = 0;
            for (from, &end) in self.windows.ends.iter().enumerate() {
                let seen = &self.windows.pixels[first..end];
                first = end;
                for at in (0..self.sizes.channels).step_by(L::WIDTH) {
                    // SAFETY: the pixels and their gradient are this shard's own.
                    unsafe {
                        let mut greatest = self.input.value::<L>(image + seen[0] + at, at);
                        let mut place = L::splat(0.0);
                        for (next, &pixel) in (1u16..).zip(&seen[1..]) {
                            let value = self.input.value::<L>(image + pixel + at, at);
                            let next = L::splat(f32::from(next));
                            place = L::select_greater(greatest, value, next, place);
                            greatest = L::select_greater(greatest, value, value, greatest);
                        }
                        let from = output + from * self.sizes.channels + at;
                        let g = L::load(self.output_gradient.as_ptr().add(from));
                        for (here, &pixel) in (0u16..).zip(seen) {
                            let apart = L::sub(place, L::splat(f32::from(here)));
                            // Above 0 at the place itself, and only there.
                            let gate = L::sub(L::splat(0.5), L::mul(apart, apart));
                            let to = self.target.at(image + pixel + at);
                            L::store(to, L::add(L::load(to), L::pass(g, gate)));
                        }
                    }
                }
            }
        }
    }
}
