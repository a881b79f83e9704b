//! The sizes of a convolution and what follows from them.

use super::memory::{Shard, shards, shards_of_work};
use crate::ops::Window;

/// The sizes of one convolution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    pub(crate) batch: usize,
    /// Height of the images.
    pub(crate) height: usize,
    /// Width of the images.
    pub(crate) width: usize,
    /// Channels of the images.
    pub(crate) inputs: usize,
    /// Channels of the outputs.
    pub(crate) outputs: usize,
    pub(crate) window: Window,
    /// Height of the outputs.
    pub(crate) out_height: usize,
    /// Width of the outputs.
    pub(crate) out_width: usize,
}

/// Pixels of the images that are worked on together: enough to read the weights
/// seldom, few enough to stay in a second-level cache.
const GROUP_PIXELS: usize = 512;

/// Least output pixels of a shard of a dense convolution.
const SHARD_PIXELS: usize = 64;

impl Geometry {
    /// Returns the geometry for images `[batch, height, width, channels]`.
    pub(crate) fn new(
        [batch, height, width, inputs]: [usize; 4],
        outputs: usize,
        window: Window,
    ) -> Self {
        Self {
            batch,
            height,
            width,
            inputs,
            outputs,
            window,
            out_height: window.outputs(height),
            out_width: window.outputs(width),
        }
    }

    /// Pixels of one output.
    pub(crate) const fn out_pixels(&self) -> usize {
        self.out_height * self.out_width
    }

    /// Pixels of one image.
    pub(crate) const fn pixels(&self) -> usize {
        self.height * self.width
    }

    /// Taps of the window.
    pub(crate) const fn taps(&self) -> usize {
        self.window.kernel * self.window.kernel
    }

    /// Returns whether every output reads one pixel of its own, and no other does.
    pub(crate) const fn is_pointwise(&self) -> bool {
        self.window.kernel == 1 && self.window.stride == 1 && self.window.padding == 0
    }

    /// Terms of each output's sum.
    pub(crate) const fn depth(&self) -> usize {
        self.taps() * self.inputs
    }

    /// Shape of the outputs.
    pub(crate) const fn output_shape(&self) -> [usize; 4] {
        [self.batch, self.out_height, self.out_width, self.outputs]
    }

    /// Multiply-adds of one image.
    pub(crate) const fn work(&self) -> usize {
        self.out_pixels() * self.depth() * self.outputs
    }

    /// The batch in shards of enough pixels to be worth their weights' reading.
    pub(crate) fn shards(&self) -> Vec<Shard> {
        let most = self.batch * self.out_pixels() / SHARD_PIXELS;
        shards(
            self.batch,
            most.min(shards_of_work(self.batch, self.work()).len()),
        )
    }

    /// Images that are worked on together.
    pub(crate) fn group(&self) -> usize {
        (GROUP_PIXELS / self.pixels()).max(1)
    }
}
