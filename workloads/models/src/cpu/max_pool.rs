//! The maximum of any square window, over channels-last images.

use super::input::Input;
use super::lanes::{Lanes, Single};
use super::memory::{Output, Shard, Target, in_parallel, shards_of_work};
use super::{Kernel, dispatch_channels};
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

    /// Calls `work` with every output's first value and the first values of the pixels that
    /// it sees, both in their image.
    #[inline(always)]
    fn each(&self, mut work: impl FnMut(usize, &[usize])) {
        let [_, rows, columns, _] = self.shape();
        let mut seen = Vec::with_capacity(self.window.side * self.window.side);
        for row in 0..rows {
            for column in 0..columns {
                seen.clear();
                for y in self.window.range(row, self.height) {
                    for x in self.window.range(column, self.width) {
                        seen.push((y * self.width + x) * self.channels);
                    }
                }
                work((row * columns + column) * self.channels, &seen);
            }
        }
    }
}

/// The greatest of each window; NaN is greatest.
pub(crate) fn forward(input: Input<'_>, sizes: Sizes) -> Vec<f32> {
    let mut output = Output::new(sizes.shape().iter().product());
    let target = output.target();
    in_parallel(&sizes.shards(), |shard| {
        let forward = Forward {
            input,
            sizes,
            shard,
            target,
        };
        dispatch_channels(sizes.channels, forward);
    });
    // SAFETY: the shards cover the batch, and the windows each image's outputs.
    unsafe { output.written() }
}

struct Forward<'a> {
    input: Input<'a>,
    sizes: Sizes,
    shard: Shard,
    target: Target,
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: the shard's images are its own.
        unsafe {
            match self.sizes.channels % L::WIDTH {
                0 => self.images::<L>(),
                _ => self.images::<Single>(),
            }
        }
    }
}

impl Forward<'_> {
    /// # Safety
    /// The CPU must support the instruction set of `L`, the channels must be whole vectors,
    /// and the shard's images must exist and be used by no other thread.
    #[inline(always)]
    unsafe fn images<L: Lanes>(&self) {
        for index in self.shard.start..self.shard.start + self.shard.length {
            let (image, output) = (index * self.sizes.image(), index * self.sizes.output());
            self.sizes.each(|to, seen| {
                for at in (0..self.sizes.channels).step_by(L::WIDTH) {
                    // SAFETY: the pixels are the image's, the output this shard's own.
                    unsafe {
                        let value = |pixel: usize| self.input.value::<L>(image + pixel + at, at);
                        let mut greatest = value(seen[0]);
                        for &pixel in &seen[1..] {
                            let value = value(pixel);
                            greatest = L::select_greater(greatest, value, value, greatest);
                        }
                        L::store(self.target.at(output + to + at), greatest);
                    }
                }
            });
        }
    }
}

/// The gradient of what the windows saw: all of an output's goes to its first maximum.
pub(crate) fn backward(input: Input<'_>, output_gradient: &[f32], sizes: Sizes) -> Vec<f32> {
    let mut gradient = vec![0.0; sizes.batch * sizes.image()];
    let target = Target::of(&mut gradient);
    in_parallel(&sizes.shards(), |shard| {
        let backward = Backward {
            input,
            output_gradient,
            sizes,
            shard,
            target,
        };
        dispatch_channels(sizes.channels, backward);
    });
    gradient
}

struct Backward<'a> {
    input: Input<'a>,
    output_gradient: &'a [f32],
    sizes: Sizes,
    shard: Shard,
    target: Target,
}

impl Kernel for Backward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: the shard's images are its own.
        unsafe {
            match self.sizes.channels % L::WIDTH {
                0 => self.images::<L>(),
                _ => self.images::<Single>(),
            }
        }
    }
}

impl Backward<'_> {
    /// # Safety
    /// The CPU must support the instruction set of `L`, the channels must be whole vectors,
    /// and the shard's images must exist and be used by no other thread.
    #[inline(always)]
    unsafe fn images<L: Lanes>(&self) {
        for index in self.shard.start..self.shard.start + self.shard.length {
            let (image, output) = (index * self.sizes.image(), index * self.sizes.output());
            self.sizes.each(|from, seen| {
                for at in (0..self.sizes.channels).step_by(L::WIDTH) {
                    // SAFETY: the pixels and their gradient are this shard's own.
                    unsafe {
                        let value = |pixel: usize| self.input.value::<L>(image + pixel + at, at);
                        let (mut greatest, mut place) = (value(seen[0]), L::splat(0.0));
                        for (next, &pixel) in (1u16..).zip(&seen[1..]) {
                            let value = value(pixel);
                            let next = L::splat(f32::from(next));
                            place = L::select_greater(greatest, value, next, place);
                            greatest = L::select_greater(greatest, value, value, greatest);
                        }
                        let g = L::load(self.output_gradient.as_ptr().add(output + from + at));
                        for (here, &pixel) in (0u16..).zip(seen) {
                            let apart = L::sub(place, L::splat(f32::from(here)));
                            // Above 0 at the place itself, and only there.
                            let gate = L::sub(L::splat(0.5), L::mul(apart, apart));
                            let to = self.target.at(image + pixel + at);
                            L::store(to, L::add(L::load(to), L::pass(g, gate)));
                        }
                    }
                }
            });
        }
    }
}
