//! Norm, shortcut and perhaps ReLU in one pass: `relu(norm(x) + shortcut)`.

use super::input::{Affine, Input};
use super::lanes::Lanes;
use super::memory::{Output, Shard, Target, in_parallel, shards_of_work};
use super::norm::{Sums, function_gradient_and_sums};
use super::{Kernel, dispatch_channels, dispatch_whole};

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
    let then = if rectified {
        Then::StoreRectified
    } else {
        Then::Store
    };
    each_sum(main, shortcut, channels, then, output.target());
    // SAFETY: the shards cover the pixels and write all channels.
    unsafe { output.written() }
}

/// Turns the gradient of the output, in place, into that of the sum before its ReLU.
pub(crate) fn rectify_gradient(
    main: Input<'_>,
    shortcut: Option<Input<'_>>,
    channels: usize,
    gradient: &mut [f32],
) {
    each_sum(main, shortcut, channels, Then::Pass, Target::of(gradient));
}

/// What is done with the sum of the features and the shortcut.
#[derive(Clone, Copy)]
enum Then {
    Store,
    StoreRectified,
    /// The target's value passes where the sum is not 0 or less.
    Pass,
}

fn each_sum(
    main: Input<'_>,
    shortcut: Option<Input<'_>>,
    channels: usize,
    then: Then,
    target: Target,
) {
    let pixels = main.values.len() / channels;
    in_parallel(&shards_of_work(pixels, channels), |shard| {
        let sum = Sum {
            main,
            shortcut,
            channels,
            then,
            shard,
            target,
        };
        dispatch_whole(channels, sum);
    });
}

struct Sum<'a> {
    main: Input<'a>,
    shortcut: Option<Input<'a>>,
    channels: usize,
    then: Then,
    shard: Shard,
    target: Target,
}

impl Kernel for Sum<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: the shard's pixels are its own, and channels are whole vectors, so that every
        // position is one of the shard's pixels, in the inputs as in the target.
        unsafe {
            for pixel in self.shard.start..self.shard.start + self.shard.length {
                for at in (0..self.channels).step_by(L::WIDTH) {
                    let position = pixel * self.channels + at;
                    let mut y = self.main.value::<L>(position, at);
                    if let Some(shortcut) = self.shortcut {
                        y = L::add(y, shortcut.value::<L>(position, at));
                    }
                    let target = self.target.at(position);
                    let y = match self.then {
                        Then::Store => y,
                        Then::StoreRectified => L::rectify(y),
                        Then::Pass => L::pass(L::load(target), y),
                    };
                    L::store(target, y);
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
