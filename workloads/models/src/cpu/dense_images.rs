//! The dense convolution, backward: the gradient of the images.
//!
//! Each pixel sums over the outputs whose windows saw it. With a stride, pixels of
//! different remainders are seen through different taps, so each remainder is a
//! product of its own: no zeros are multiplied and nothing is scattered.

use super::geometry::Geometry;
use super::input::{Frame, Input};
use super::lanes::Lanes;
use super::memory::{Output, Shard, Target, in_parallel, padded, with_scratch};
use super::norm::{Sums, function_gradient_and_sums};
use super::product::{Panels, Product, Weights};
use super::tile::Run;
use super::{Kernel, dispatch_columns};

/// The gradient of the images, before their norm if it has no ReLU, and what the
/// norm's own gradients sum.
pub(crate) fn gradient(
    input: Input<'_>,
    weight: &[f32],
    output_gradient: &[f32],
    geometry: &Geometry,
) -> (Vec<f32>, Option<Sums>) {
    let packed = packed(weight, geometry);
    let images = geometry.batch * geometry.pixels() * geometry.inputs;
    let mut gradient = Output::new(images);
    let target = gradient.target();
    let plan = Plan::new(geometry);
    let shards = geometry.shards();
    let sums = in_parallel(&shards, |shard| {
        with_scratch(plan.scratch(), |scratch| {
            let gradient = Gradient {
                input,
                weight: &packed,
                output_gradient,
                plan: &plan,
                shard,
                scratch,
                target,
            };
            dispatch_columns(geometry.inputs, gradient)
        })
    });
    // SAFETY: the shards cover the batch, and the classes all pixels of an image.
    let gradient = unsafe { gradient.written() };
    (gradient, input.norm.map(|_| Sums::of(&sums.concat())))
}

/// The weights as the gradient reads them: a row an output and tap.
pub(super) fn packed(weight: &[f32], geometry: &Geometry) -> Panels {
    let (inputs, outputs, taps) = (geometry.inputs, geometry.outputs, geometry.taps());
    let weights = Weights {
        values: weight,
        terms: taps * outputs,
        columns: inputs,
        first: &|term| term % outputs * inputs * taps + term / outputs,
        step: taps,
    };
    Panels::new(&weights)
}

/// Outputs that each pixel of a group of images gathers from.
pub(super) struct Plan<'a> {
    geometry: &'a Geometry,
    /// Frame of the output's gradient.
    frame: Frame,
    pub(super) group: usize,
    classes: Vec<Class>,
}

/// Pixels that are seen through the same taps.
struct Class {
    runs: Vec<Run>,
    /// Position of each pixel's first output in the frames of a group.
    rows: Vec<usize>,
    /// Position of each pixel in a group of images.
    stored: Vec<usize>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(geometry: &'a Geometry) -> Self {
        let window = geometry.window;
        let before = (window.kernel - 1)
            .saturating_sub(window.padding)
            .div_ceil(window.stride);
        let last = |length: usize| (length - 1 + window.padding) / window.stride + 1;
        let after = |length, out| last(length).saturating_sub(out);
        let frame = Frame::new(
            [geometry.out_height, geometry.out_width, geometry.outputs],
            before,
            after(geometry.height, geometry.out_height)
                .max(after(geometry.width, geometry.out_width)),
        );
        let group = geometry.group().min(geometry.batch);
        let mut plan = Self {
            geometry,
            frame,
            group,
            classes: vec![],
        };
        for y in 0..window.stride.min(geometry.height) {
            for x in 0..window.stride.min(geometry.width) {
                let class = plan.class(y, x);
                plan.classes.push(class);
            }
        }
        plan
    }

    /// Values of scratch space that a group takes.
    pub(super) fn scratch(&self) -> usize {
        padded(self.group * self.frame.image())
    }

    /// Returns the pixels of remainders `y` and `x`.
    fn class(&self, y: usize, x: usize) -> Class {
        let window = self.geometry.window;
        let frame = &self.frame;
        // Of a tap that reaches the remainder: how far before the pixel's own output,
        // counted from the frame's edge, it is used.
        let reach = |remainder: usize, tap: usize| {
            let offset = remainder + window.padding + frame.before * window.stride;
            let distance = offset.checked_sub(tap)?;
            (distance % window.stride == 0).then_some(distance / window.stride)
        };
        // The taps through which outputs read pixels of this class.
        let mut runs = vec![];
        let width = Panels::width_of(self.geometry.inputs);
        for tap_y in (0..window.kernel).rev() {
            for tap_x in (0..window.kernel).rev() {
                let (Some(row), Some(column)) = (reach(y, tap_y), reach(x, tap_x)) else {
                    continue;
                };
                runs.push(Run {
                    left: (row * frame.columns() + column) * frame.pitch,
                    right: (tap_y * window.kernel + tap_x) * self.geometry.outputs * width,
                    length: self.geometry.outputs,
                });
            }
        }
        // The pixels of this class, and where their gathering begins.
        let (mut rows, mut stored) = (vec![], vec![]);
        for image in 0..self.group {
            for (row, pixel_y) in (y..self.geometry.height).step_by(window.stride).enumerate() {
                for (column, pixel_x) in (x..self.geometry.width).step_by(window.stride).enumerate()
                {
                    let at = row * frame.columns() + column;
                    rows.push(image * frame.image() + at * frame.pitch);
                    let pixel = (image * self.geometry.height + pixel_y) * self.geometry.width;
                    stored.push((pixel + pixel_x) * self.geometry.inputs);
                }
            }
        }
        Class { runs, rows, stored }
    }
}

/// One shard's gradient of the images.
pub(super) struct Gradient<'a> {
    pub(super) input: Input<'a>,
    pub(super) weight: &'a Panels,
    pub(super) output_gradient: &'a [f32],
    pub(super) plan: &'a Plan<'a>,
    pub(super) shard: Shard,
    pub(super) scratch: *mut f32,
    pub(super) target: Target,
}

impl Kernel for Gradient<'_> {
    type Output = Vec<Sums>;

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> Self::Output {
        let group = self.plan.group;
        let mut sums = vec![];
        for start in (0..self.shard.length).step_by(group) {
            let count = group.min(self.shard.length - start);
            // SAFETY: the group's images exist and are this shard's own.
            sums.extend(unsafe { self.group::<L>(self.shard.start + start, count) });
        }
        sums
    }
}

impl Gradient<'_> {
    /// Computes the gradient of images from `first` on, at most a group; returns the sums
    /// if the images have a norm.
    ///
    /// # Safety
    /// The CPU must support the instruction set of `L`. The images must exist and be this
    /// shard's own, and the scratch space must hold their frames.
    #[inline(always)]
    pub(super) unsafe fn group<L: Lanes>(&self, first: usize, count: usize) -> Option<Sums> {
        let Plan {
            geometry,
            frame,
            group,
            classes,
        } = self.plan;
        let values = Input {
            values: self.output_gradient,
            norm: None,
        };
        // SAFETY: the caller guarantees the instruction set, the images and the scratch
        // space; the plan's rows and runs lie within the frames, and its stored rows within
        // the images.
        unsafe {
            // The gradient of the group's outputs, framed unless it can be read where it is.
            let left = frame.read::<L>(values, first, count, self.scratch);
            let pixels = first * geometry.pixels();
            let images = self.target.at(pixels * geometry.inputs);
            // Pixels of one class gather from outputs at equal distances: a product each.
            for class in classes {
                let rows = class.rows.len() / group * count;
                Product {
                    rows: &class.rows[..rows],
                    left,
                    runs: &class.runs,
                    right: self.weight,
                    output: Target::at_pointer(images),
                    stored: &class.stored[..rows],
                }
                .run::<L>();
            }
            // The gradient passes the images' norm while it is in the cache.
            let norm = self.input.norm?;
            let count = count * geometry.pixels();
            Some(function_gradient_and_sums::<L>(
                self.input,
                norm,
                self.target,
                pixels,
                count,
            ))
        }
    }
}
