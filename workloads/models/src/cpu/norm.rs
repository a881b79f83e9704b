//! Batch norm: moments of a batch, and its backward pass.

use super::input::{Affine, Input};
use super::lanes::{Lanes, Single};
use super::memory::{Shard, Target, in_parallel, shards_of_work};
use super::{Kernel, dispatch_whole};
use crate::ops::Function;

/// Mean and biased variance of each channel.
#[derive(Debug, Clone)]
pub(crate) struct Moments {
    pub(crate) mean: Vec<f32>,
    pub(crate) variance: Vec<f32>,
}

/// The moments of a group of pixels, in two passes while they are in the cache.
#[derive(Debug, Clone)]
pub(crate) struct GroupMoments {
    pixels: usize,
    mean: Vec<f32>,
    /// Sums of squared distances from the group's mean.
    squares: Vec<f32>,
}

impl Moments {
    /// Joins all groups in their order by Chan, Golub and LeVeque's update (1983).
    pub(crate) fn of(groups: &[GroupMoments]) -> Self {
        let channels = groups.first().map_or(0, |group| group.mean.len());
        let mut pixels = 0.0;
        let mut mean = vec![0.0f64; channels];
        let mut squares = vec![0.0f64; channels];
        for group in groups {
            let more = group.pixels as f64;
            let all = pixels + more;
            for channel in 0..channels {
                let apart = f64::from(group.mean[channel]) - mean[channel];
                mean[channel] += apart * more / all;
                squares[channel] +=
                    f64::from(group.squares[channel]) + apart * apart * pixels * more / all;
            }
            pixels = all;
        }
        Self {
            mean: mean.into_iter().map(|mean| mean as f32).collect(),
            variance: squares
                .into_iter()
                .map(|sum| (sum / pixels) as f32)
                .collect(),
        }
    }
}

/// Returns the moments of `pixels` of so many channels.
///
/// # Safety
/// The CPU must support the instruction set of `L`, and `values` must be valid for reads of
/// `pixels` pixels of `channels` values.
#[inline(always)]
pub(crate) unsafe fn group_moments<L: Lanes>(
    values: *const f32,
    pixels: usize,
    channels: usize,
) -> GroupMoments {
    let mut mean = vec![0.0; channels];
    let mut squares = vec![0.0; channels];
    let mut at = 0;
    // SAFETY: every column of vectors lies within the channels.
    unsafe {
        let columns = Columns {
            values,
            pixels,
            channels,
        };
        while at + 4 * L::WIDTH <= channels {
            columns.moments::<L, 4>(at, &mut mean, &mut squares);
            at += 4 * L::WIDTH;
        }
        while at + L::WIDTH <= channels {
            columns.moments::<L, 1>(at, &mut mean, &mut squares);
            at += L::WIDTH;
        }
        while at < channels {
            columns.moments::<Single, 1>(at, &mut mean, &mut squares);
            at += 1;
        }
    }
    GroupMoments {
        pixels,
        mean,
        squares,
    }
}

struct Columns {
    values: *const f32,
    pixels: usize,
    channels: usize,
}

impl Columns {
    /// Computes the moments of `N` vectors of channels from `at` on.
    ///
    /// # Safety
    /// The CPU must support the instruction set of `L`, and the `N` vectors from `at` on
    /// must lie within the channels, of which `mean` and `squares` have a value each.
    #[inline(always)]
    unsafe fn moments<L: Lanes, const N: usize>(
        &self,
        at: usize,
        mean: &mut [f32],
        squares: &mut [f32],
    ) {
        // SAFETY: the caller guarantees the instruction set, and that the `N` vectors lie
        // within the channels.
        unsafe {
            let share = L::splat(1.0 / self.pixels as f32);
            let sums = self.sums::<L, N>(at, |sum, x, _| L::add(sum, x));
            let means = sums.map(|sum| L::mul(sum, share));
            let squared = self.sums::<L, N>(at, |sum, x, vector| {
                let centred = L::sub(x, means[vector]);
                L::fma(centred, centred, sum)
            });
            for vector in 0..N {
                L::store(mean.as_mut_ptr().add(at + vector * L::WIDTH), means[vector]);
                L::store(
                    squares.as_mut_ptr().add(at + vector * L::WIDTH),
                    squared[vector],
                );
            }
        }
    }

    /// # Safety
    /// The CPU must support the instruction set of `L`, and the `N` vectors from `at` on
    /// must lie within the channels.
    #[inline(always)]
    unsafe fn sums<L: Lanes, const N: usize>(
        &self,
        at: usize,
        add: impl Fn(L::V, L::V, usize) -> L::V,
    ) -> [L::V; N] {
        // SAFETY: the caller guarantees the instruction set, that `values` holds all
        // pixels, and that the `N` vectors lie within the channels of each.
        unsafe {
            let mut sums = [L::splat(0.0); N];
            let mut pixel = self.values.add(at);
            for _ in 0..self.pixels {
                for (vector, sum) in sums.iter_mut().enumerate() {
                    *sum = add(*sum, L::load(pixel.add(vector * L::WIDTH)), vector);
                }
                pixel = pixel.wrapping_add(self.channels);
            }
            sums
        }
    }
}

/// Sums over all pixels for the gradients of a batch norm, two values per channel.
#[derive(Debug, Clone)]
pub(crate) struct Sums {
    /// Sum of the output's gradient.
    pub(crate) gradient: Vec<f32>,
    /// Sum of its product with the centred input.
    pub(crate) product: Vec<f32>,
}

impl Sums {
    /// Adds up all groups, in their order.
    pub(crate) fn of(groups: &[Self]) -> Self {
        let join = |part: fn(&Self) -> &Vec<f32>| {
            let channels = groups.first().map_or(0, |group| part(group).len());
            let mut total = vec![0.0f64; channels];
            for group in groups {
                for (total, value) in total.iter_mut().zip(part(group)) {
                    *total += f64::from(*value);
                }
            }
            total.into_iter().map(|total| total as f32).collect()
        };
        Self {
            gradient: join(|sums| &sums.gradient),
            product: join(|sums| &sums.product),
        }
    }
}

/// Turns the gradient of `pixels` into that before their norm's function, in place, and
/// sums.
///
/// # Safety
/// The CPU must support the instruction set of `L`. `input` and `gradient` must hold the
/// pixels `first..first + pixels`, and no other thread may use those of `gradient`.
#[inline(always)]
pub(crate) unsafe fn function_gradient_and_sums<L: Lanes>(
    input: Input<'_>,
    norm: &Affine,
    gradient: Target,
    first: usize,
    pixels: usize,
) -> Sums {
    let channels = norm.mean.len();
    let mut sums = Sums {
        gradient: vec![0.0; channels],
        product: vec![0.0; channels],
    };
    let mut at = 0;
    // SAFETY: every column of vectors lies within the channels.
    unsafe {
        while at + 2 * L::WIDTH <= channels {
            masked::<L, 2>(input, norm, gradient, [first, pixels, at], &mut sums);
            at += 2 * L::WIDTH;
        }
        while at + L::WIDTH <= channels {
            masked::<L, 1>(input, norm, gradient, [first, pixels, at], &mut sums);
            at += L::WIDTH;
        }
        while at < channels {
            masked::<Single, 1>(input, norm, gradient, [first, pixels, at], &mut sums);
            at += 1;
        }
    }
    sums
}

/// # Safety
/// What [`function_gradient_and_sums`] needs must hold; the `N` vectors from `at` on must lie
/// within the channels, of which `norm` and `sums` have a value each.
#[inline(always)]
unsafe fn masked<L: Lanes, const N: usize>(
    input: Input<'_>,
    norm: &Affine,
    gradient: Target,
    [first, pixels, at]: [usize; 3],
    sums: &mut Sums,
) {
    // SAFETY: the caller guarantees the instruction set and the pixels, and that the `N`
    // vectors lie within the channels.
    unsafe {
        let channels = norm.mean.len();
        let mut gradients = [L::splat(0.0); N];
        let mut products = [L::splat(0.0); N];
        for pixel in first..first + pixels {
            for vector in 0..N {
                let channel = at + vector * L::WIDTH;
                let position = pixel * channels + channel;
                let x = L::load(input.values.as_ptr().add(position));
                let (centred, y) = norm.linear::<L>(x, channel);
                let mut g = L::load(gradient.at(position));
                if norm.then != Function::Identity {
                    g = norm.function_gradient::<L>(g, y);
                    L::store(gradient.at(position), g);
                }
                gradients[vector] = L::add(gradients[vector], g);
                products[vector] = L::fma(g, centred, products[vector]);
            }
        }
        for vector in 0..N {
            let channel = at + vector * L::WIDTH;
            L::store(sums.gradient.as_mut_ptr().add(channel), gradients[vector]);
            L::store(sums.product.as_mut_ptr().add(channel), products[vector]);
        }
    }
}

/// Turns the gradient of a batch norm's output, in place, into that of its input:
/// `scale · (g - mean(g) - (x - mean) · mean(g · (x - mean)) / variance)`.
pub(crate) fn input_gradient(values: &[f32], norm: &Affine, sums: &Sums, gradient: &mut [f32]) {
    let channels = norm.mean.len();
    let pixels = values.len() / channels;
    let share = 1.0 / pixels as f64;
    let offset: Vec<f32> = sums
        .gradient
        .iter()
        .map(|&sum| (f64::from(sum) * share) as f32)
        .collect();
    let slope: Vec<f32> = sums
        .product
        .iter()
        .zip(&norm.deviation)
        .map(|(&sum, &d)| (f64::from(sum) * share * f64::from(d) * f64::from(d)) as f32)
        .collect();
    let target = Target::of(gradient);
    in_parallel(&shards_of_work(pixels, channels), |shard| {
        let gradient = InputGradient {
            values,
            norm,
            offset: &offset,
            slope: &slope,
            target,
            shard,
        };
        dispatch_whole(channels, gradient);
    });
}

struct InputGradient<'a> {
    values: &'a [f32],
    norm: &'a Affine,
    offset: &'a [f32],
    slope: &'a [f32],
    target: Target,
    shard: Shard,
}

impl Kernel for InputGradient<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: the shard's pixels are its own, and channels are whole vectors, so that every
        // position is one of the shard's pixels, in the values as in the target.
        unsafe {
            let channels = self.norm.mean.len();
            for pixel in self.shard.start..self.shard.start + self.shard.length {
                for at in (0..channels).step_by(L::WIDTH) {
                    let position = pixel * channels + at;
                    let x = L::load(self.values.as_ptr().add(position));
                    let centred = L::sub(x, L::load(self.norm.mean.as_ptr().add(at)));
                    let g = L::sub(
                        L::load(self.target.at(position)),
                        L::load(self.offset.as_ptr().add(at)),
                    );
                    let slope = L::mul(centred, L::load(self.slope.as_ptr().add(at)));
                    let scale = L::load(self.norm.scale.as_ptr().add(at));
                    L::store(self.target.at(position), L::mul(scale, L::sub(g, slope)));
                }
            }
        }
    }
}
