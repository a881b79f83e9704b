//! The max-pool in burn's tensor operations: the window's taps, one after the other.

use burn::tensor::backend::Backend;
use burn::tensor::{Slice, Tensor};

use super::PoolWindow;

/// See [`super::LayerOps::max_pool`].
pub(crate) fn forward<B: Backend>(images: Tensor<B, 4>, window: PoolWindow) -> Tensor<B, 4> {
    let plan = Plan::new(images.dims(), window);
    let padded = plan.pad(images, f32::NEG_INFINITY);
    let [first, rest @ ..] = &plan.taps[..] else {
        return padded;
    };
    rest.iter()
        .fold(padded.clone().slice(*first), |greatest, tap| {
            greatest.max_pair(padded.clone().slice(*tap))
        })
}

/// See [`super::LayerGradients::max_pool_backward`].
pub(crate) fn backward<B: Backend>(
    images: Tensor<B, 4>,
    window: PoolWindow,
    output_gradient: Tensor<B, 4>,
) -> Tensor<B, 4> {
    let plan = Plan::new(images.dims(), window);
    let greatest = forward(images.clone(), window);
    let padded = plan.pad(images, f32::NEG_INFINITY);
    let mut sum = Tensor::zeros(padded.dims(), &padded.device());
    // What no tap before was the maximum of.
    let mut left = output_gradient;
    for tap in &plan.taps {
        let other = padded.clone().slice(*tap).not_equal(greatest.clone());
        let taken = left.clone().mask_fill(other, 0.0);
        left = left - taken.clone();
        let added = sum.clone().slice(*tap) + taken;
        sum = sum.slice_assign(*tap, added);
    }
    plan.within(sum)
}

/// Positions of the windows in padded images.
struct Plan {
    images: [usize; 4],
    padded: [usize; 4],
    padding: usize,
    /// Pixels that the outputs read through each position in the window, row by
    /// row.
    taps: Vec<[Slice; 4]>,
}

impl Plan {
    fn new(images: [usize; 4], window: PoolWindow) -> Self {
        let [batch, height, width, channels] = images;
        let padded = |inputs: usize| {
            let seen = (window.outputs(inputs) - 1) * window.stride + window.side;
            seen.max(inputs + window.padding)
        };
        let along = |tap: usize, inputs: usize| {
            let end = tap + window.stride * (window.outputs(inputs) - 1) + 1;
            Slice::new(tap as isize, Some(end as isize), window.stride as isize)
        };
        let taps = (0..window.side * window.side).map(|tap| {
            [
                Slice::full(),
                along(tap / window.side, height),
                along(tap % window.side, width),
                Slice::full(),
            ]
        });
        Self {
            images,
            padded: [batch, padded(height), padded(width), channels],
            padding: window.padding,
            taps: taps.collect(),
        }
    }

    /// Returns the part of the padded images that is theirs.
    fn place(&self) -> [Slice; 4] {
        let along = |inputs: usize| Slice::from(self.padding..self.padding + inputs);
        let [_, height, width, _] = self.images;
        [Slice::full(), along(height), along(width), Slice::full()]
    }

    fn pad<B: Backend>(&self, images: Tensor<B, 4>, value: f32) -> Tensor<B, 4> {
        let device = images.device();
        Tensor::full(self.padded, value, &device).slice_assign(self.place(), images)
    }

    fn within<B: Backend>(&self, padded: Tensor<B, 4>) -> Tensor<B, 4> {
        padded.slice(self.place())
    }
}
