//! What an operation reads: values as they are, or a normalisation yet to be applied.

use super::lanes::{Lanes, Single};
use crate::ops::Function;

/// A norm's arithmetic, one value per channel each: `(x - mean) · scale + bias`, and
/// then a function.
#[derive(Debug, Clone)]
pub(crate) struct Affine {
    pub(crate) mean: Vec<f32>,
    /// `weight / √(variance + ε)`.
    pub(crate) scale: Vec<f32>,
    pub(crate) bias: Vec<f32>,
    /// `1 / √(variance + ε)`.
    pub(crate) deviation: Vec<f32>,
    pub(crate) then: Function,
}

impl Affine {
    pub(crate) fn new(
        [weight, bias, mean, variance]: [&[f32]; 4],
        epsilon: f64,
        then: Function,
    ) -> Self {
        let deviation: Vec<f32> = variance
            .iter()
            .map(|&variance| (1.0 / (f64::from(variance) + epsilon).sqrt()) as f32)
            .collect();
        let scale = deviation.iter().zip(weight).map(|(d, w)| d * w).collect();
        Self {
            mean: mean.to_vec(),
            scale,
            bias: bias.to_vec(),
            deviation,
            then,
        }
    }

    /// Returns the results of a vector of channels from `at` on.
    ///
    /// # Safety
    /// The CPU must support the instruction set of `L`, and `at..at + L::WIDTH` must be
    /// channels of the norm.
    #[inline(always)]
    pub(crate) unsafe fn apply<L: Lanes>(&self, x: L::V, at: usize) -> L::V {
        // SAFETY: the caller guarantees the instruction set and the channels, which are all
        // that `linear` reads.
        unsafe {
            let (_, y) = self.linear::<L>(x, at);
            match self.then {
                Function::Identity => y,
                Function::Relu => L::rectify(y),
                Function::HardSwish => L::mul(y, sixth::<L>(y)),
            }
        }
    }

    /// Returns the centred values, and the values before the function, of channels from
    /// `at` on.
    ///
    /// # Safety
    /// The CPU must support the instruction set of `L`, and `at..at + L::WIDTH` must be
    /// channels of the norm.
    #[inline(always)]
    pub(crate) unsafe fn linear<L: Lanes>(&self, x: L::V, at: usize) -> (L::V, L::V) {
        // SAFETY: the caller guarantees the instruction set, and that every vector of
        // channels from `at` on lies within the norm's.
        unsafe {
            let centred = L::sub(x, L::load(self.mean.as_ptr().add(at)));
            let scale = L::load(self.scale.as_ptr().add(at));
            let bias = L::load(self.bias.as_ptr().add(at));
            (centred, L::fma(centred, scale, bias))
        }
    }

    /// Returns the gradient of a value before the function, `y`, from that of the result.
    ///
    /// # Safety
    /// The CPU must support the instruction set of `L`.
    #[inline(always)]
    pub(crate) unsafe fn function_gradient<L: Lanes>(&self, g: L::V, y: L::V) -> L::V {
        // SAFETY: the caller guarantees the instruction set; no pointer is read.
        unsafe {
            match self.then {
                Function::Identity => g,
                Function::Relu => L::pass(g, y),
                Function::HardSwish => L::mul(g, hard_swish_slope::<L>(y)),
            }
        }
    }
}

/// `min(max(y / 6 + 1/2, 0), 1)`.
///
/// # Safety
/// The CPU must support the instruction set of `L`.
#[inline(always)]
unsafe fn sixth<L: Lanes>(y: L::V) -> L::V {
    // SAFETY: the caller guarantees the instruction set; no pointer is read.
    unsafe {
        let one = L::splat(1.0);
        let line = L::fma(y, L::splat(1.0 / 6.0), L::splat(0.5));
        L::sub(one, L::rectify(L::sub(one, L::rectify(line))))
    }
}

/// 0 up to -3, then `y / 3 + 1/2`, and 1 from 3 on.
///
/// # Safety
/// The CPU must support the instruction set of `L`.
#[inline(always)]
unsafe fn hard_swish_slope<L: Lanes>(y: L::V) -> L::V {
    // SAFETY: the caller guarantees the instruction set; no pointer is read.
    unsafe {
        let three = L::splat(3.0);
        let line = L::fma(y, L::splat(1.0 / 3.0), L::splat(-0.5));
        let below_one = L::pass(line, L::sub(three, y));
        L::pass(L::add(below_one, L::splat(1.0)), L::add(y, three))
    }
}

/// Channels-last values with a normalisation that their reader applies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) norm: Option<&'a Affine>,
}

impl Input<'_> {
    /// Returns the values of channels from `channel` on, at a position of the values.
    ///
    /// # Safety
    /// The CPU must support the instruction set of `L`, `values` must hold `L::WIDTH`
    /// values from `position` on, and these must be channels of the norm.
    #[inline(always)]
    pub(crate) unsafe fn value<L: Lanes>(&self, position: usize, channel: usize) -> L::V {
        // SAFETY: the caller guarantees the instruction set, the values and the channels.
        unsafe {
            let x = L::load(self.values.as_ptr().add(position));
            match self.norm {
                Some(norm) => norm.apply::<L>(x, channel),
                None => x,
            }
        }
    }
}

/// Images in scratch space: normalised, with a border of zeros.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) channels: usize,
    /// Rows and columns of zeros before and after the image, in both directions.
    pub(crate) before: usize,
    pub(crate) after: usize,
    /// Values from one pixel to the next.
    pub(crate) pitch: usize,
}

impl Frame {
    pub(crate) fn new([height, width, channels]: [usize; 3], before: usize, after: usize) -> Self {
        Self {
            height,
            width,
            channels,
            before,
            after,
            // Pixels a multiple of a KiB apart would share few sets of a first-level cache.
            pitch: match channels % 256 {
                0 => channels + 16,
                _ => channels,
            },
        }
    }

    pub(crate) fn columns(&self) -> usize {
        self.before + self.width + self.after
    }

    /// Values of one image.
    pub(crate) fn image(&self) -> usize {
        (self.before + self.height + self.after) * self.columns() * self.pitch
    }

    /// Frames images from `first` on in `scratch`.
    ///
    /// # Safety
    /// The CPU must support the instruction set of `L`, images `first..first + count` must
    /// exist, and `scratch` must hold the frames of `count` images.
    #[inline(always)]
    pub(crate) unsafe fn fill<L: Lanes>(
        &self,
        input: Input<'_>,
        first: usize,
        count: usize,
        scratch: *mut f32,
    ) {
        // SAFETY: rows, pixels and borders of `count` images are as many values as `count`
        // frames, which `scratch` holds; `source` stays within the images, which exist, and
        // the channels of a vector within the pixel's. All are the caller's guarantees.
        unsafe {
            let mut source = first * self.height * self.width * self.channels;
            let mut target = scratch;
            let side = |pixels: usize| pixels * self.pitch;
            for _ in 0..count {
                target = zeros(target, side(self.before * self.columns()));
                for _ in 0..self.height {
                    target = zeros(target, side(self.before));
                    for _ in 0..self.width {
                        let mut at = 0;
                        while at + L::WIDTH <= self.channels {
                            L::store(target.add(at), input.value::<L>(source + at, at));
                            at += L::WIDTH;
                        }
                        while at < self.channels {
                            let value = input.value::<Single>(source + at, at);
                            Single::store(target.add(at), value);
                            at += 1;
                        }
                        source += self.channels;
                        target = target.wrapping_add(self.pitch);
                    }
                    target = zeros(target, side(self.after));
                }
                target = zeros(target, side(self.after * self.columns()));
            }
        }
    }

    /// Returns images where they are, if nothing must be done to them, or else framed in
    /// `scratch`.
    ///
    /// # Safety
    /// What [`Frame::fill`] needs must hold.
    #[inline(always)]
    pub(crate) unsafe fn read<L: Lanes>(
        &self,
        input: Input<'_>,
        first: usize,
        count: usize,
        scratch: *mut f32,
    ) -> *const f32 {
        let is_plain = self.before == 0 && self.after == 0 && self.pitch == self.channels;
        if is_plain && input.norm.is_none() {
            let image = self.height * self.width * self.channels;
            return input.values[first * image..].as_ptr();
        }
        // SAFETY: the caller guarantees the images and the scratch space.
        unsafe { self.fill::<L>(input, first, count, scratch) };
        scratch
    }
}

/// # Safety
/// `target` must be valid for writes of `count` values.
#[inline(always)]
unsafe fn zeros(target: *mut f32, count: usize) -> *mut f32 {
    // SAFETY: the caller guarantees the values; the end of them may be pointed at.
    unsafe {
        target.write_bytes(0, count);
        target.add(count)
    }
}
