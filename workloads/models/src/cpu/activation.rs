//! Norm, shortcut and perhaps ReLU in one pass: `relu(norm(x) + shortcut)`.

use super::input::{Affine, Input};
use super::lanes::{Lanes, Single};
use super::memory::{Output, Shard, Target, in_parallel, shards_of_work};
use super::norm::{Sums, function_gradient_and_sums};
use super::{Kernel, dispatch_channels};

/// Pixels whose gradient is summed in `f32` before sums are joined in `f64`.
const SUMMED_PIXELS: usize = 1024;

/// The features normalised, with the shortcut added to them if there is one, and perhaps a
/// ReLU.
pub(crate) fn forward(
    main: Input<'_>,
    shortcut: Option<Input<'_>>,
    channels: usize,
    rectified: bool,
) -> Vec<f32> {
    let mut output = Output::new(main.values.len());
    let target = output.target();
    let pixels = main.values.len() / channels;
    in_parallel(&shards_of_work(pixels, channels), |shard| {
        let forward = Forward {
            main,
            shortcut,
            channels,
            rectified,
            shard,
            target,
        };
        dispatch_channels(channels, forward);
    });
    // SAFETY: the shards cover the pixels and write all channels.
    unsafe { output.written() }
}

struct Forward<'a> {
    main: Input<'a>,
    shortcut: Option<Input<'a>>,
    channels: usize,
    rectified: bool,
    shard: Shard,
    target: Target,
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: the shard's pixels are its own.
        unsafe {
            match self.channels % L::WIDTH {
                0 => self.pixels::<L>(),
                _ => self.pixels::<Single>(),
            }
        }
    }
}

impl Forward<'_> {
    /// # Safety
    /// The CPU must support the instruction set of `L`, the channels must be whole vectors,
    /// and the shard's pixels must exist and be used by no other thread.
    #[inline(always)]
    unsafe fn pixels<L: Lanes>(&self) {
        // SAFETY: the caller guarantees the instruction set, and that channels are whole
        // vectors, so that every position is one of the shard's pixels, in the inputs as in
        // the target.
        unsafe {
            for pixel in self.shard.start..self.shard.start + self.shard.length {
                for at in (0..self.channels).step_by(L::WIDTH) {
                    let position = pixel * self.channels + at;
                    let y = sum::<L>(self.main, self.shortcut, position, at);
                    let y = if self.rectified { L::rectify(y) } else { y };
                    L::store(self.target.at(position), y);
                }
            }
        }
    }
}

/// # Safety
/// What [`Input::value`] needs must hold of both inputs.
#[inline(always)]
unsafe fn sum<L: Lanes>(
    main: Input<'_>,
    shortcut: Option<Input<'_>>,
    position: usize,
    at: usize,
) -> L::V {
    // SAFETY: the caller guarantees the position and the channels of both inputs.
    unsafe {
        let y = main.value::<L>(position, at);
        match shortcut {
            Some(shortcut) => L::add(y, shortcut.value::<L>(position, at)),
            None => y,
        }
    }
}

/// Turns the gradient of the output, in place, into that of the sum before its ReLU.
pub(crate) fn rectify_gradient(
    main: Input<'_>,
    shortcut: Option<Input<'_>>,
    channels: usize,
    gradient: &mut [f32],
) {
    let target = Target::of(gradient);
    let pixels = main.values.len() / channels;
    in_parallel(&shards_of_work(pixels, channels), |shard| {
        let rectified = Rectified {
            main,
            shortcut,
            channels,
            shard,
            target,
        };
        dispatch_channels(channels, rectified);
    });
}

struct Rectified<'a> {
    main: Input<'a>,
    shortcut: Option<Input<'a>>,
    channels: usize,
    shard: Shard,
    target: Target,
}

impl Kernel for Rectified<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: the shard's pixels are its own.
        unsafe {
            match self.channels % L::WIDTH {
                0 => self.pixels::<L>(),
                _ => self.pixels::<Single>(),
            }
        }
    }
}

impl Rectified<'_> {
    /// # Safety
    /// The CPU must support the instruction set of `L`, the channels must be whole vectors,
    /// and the shard's pixels must exist and be used by no other thread.
    #[inline(always)]
    unsafe fn pixels<L: Lanes>(&self) {
        // SAFETY: the caller guarantees the instruction set, and that channels are whole
        // vectors, so that every position is one of the shard's pixels, in the inputs as in
        // the target.
        unsafe {
            for pixel in self.shard.start..self.shard.start + self.shard.length {
                for at in (0..self.channels).step_by(L::WIDTH) {
                    let position = pixel * self.channels + at;
                    let y = sum::<L>(self.main, self.shortcut, position, at);
                    let g = L::load(self.target.at(position));
                    L::store(self.target.at(position), L::pass(g, y));
                }
            }
        }
    }
}

/// Turns the gradient into that before the function of the input's norm, in place, and
/// sums what the norm's gradients need.
pub(crate) fn norm_sums(input: Input<'_>, norm: &Affine, gradient: &mut [f32]) -> Sums {
    let channels = norm.mean.len();
    let pixels = input.values.len() / channels;
    let target = Target::of(gradient);
    let groups = in_parallel(&shards_of_work(pixels, channels), |shard| {
        let sums = NormSums {
            input,
            norm,
            target,
            shard,
        };
        dispatch_channels(channels, sums)
    });
    Sums::of(&groups.concat())
}

struct NormSums<'a> {
    input: Input<'a>,
    norm: &'a Affine,
    target: Target,
    shard: Shard,
}

impl Kernel for NormSums<'_> {
    type Output = Vec<Sums>;

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> Self::Output {
        let end = self.shard.start + self.shard.length;
        let mut sums = vec![];
        for first in (self.shard.start..end).step_by(SUMMED_PIXELS) {
            let pixels = SUMMED_PIXELS.min(end - first);
            // SAFETY: the shard's pixels are its own.
            let group = unsafe {
                function_gradient_and_sums::<L>(self.input, self.norm, self.target, first, pixels)
            };
            sums.push(group);
        }
        sums
    }
}
