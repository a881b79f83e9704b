//! The dense convolution, backward: the gradient of the images.
//!
//! Each pixel sums over the outputs whose windows saw it. With a stride, pixels of
//! different remainders are seen through different taps, so each remainder is a
//! product of its own: no zeros are multiplied and nothing is scattered.

use super::geometry::Geometry;
use super::input::{Frame, Input};
use super::lanes::Lanes;
use super::memory::{Output, Shard, Target, in_parallel, padded, with_scratch};
use super::norm::{Sums, rectify_and_sum};
use super::product::{Packed, Product};
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
    let (outputs, taps) = (geometry.outputs, geometry.taps());
    let sizes = [taps * outputs, geometry.inputs];
    let first = |term| term % outputs * geometry.inputs * taps + term / outputs;
    let packed = Packed::new(weight, sizes, first, taps);
    let images = geometry.batch * geometry.pixels() * geometry.inputs;
    let mut gradient = Output::new(images);
    let target = gradient.target();
    let plan = Plan::new(geometry);
    let shards = geometry.shards();
    let sums = in_parallel(&shards, |shard| {
        with_scratch(padded(plan.group * plan.frame.image()), |scratch| {
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

/// Which outputs each pixel of a group of images gathers from.
struct Plan<'a> {
    geometry: &'a Geometry,
    /// Of the output's gradient.
    frame: Frame,
    group: usize,
    classes: Vec<Class>,
}

/// Pixels that are seen through the same taps.
struct Class {
    runs: Vec<Run>,
    /// Where each pixel's first output is, in the frames of a group.
    rows: Vec<usize>,
    /// Where each pixel is, in a group of images.
    stored: Vec<usize>,
}

impl<'a> Plan<'a> {
    fn new(geometry: &'a Geometry) -> Self {
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

    /// The pixels of remainders `y` and `x`.
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
        let mut runs = vec![];
        for tap_y in (0..window.kernel).rev() {
            for tap_x in (0..window.kernel).rev() {
                let (Some(row), Some(column)) = (reach(y, tap_y), reach(x, tap_x)) else {
                    continue;
                };
                runs.push(Run {
                    left: (row * frame.columns() + column) * frame.pitch,
                    right: (tap_y * window.kernel + tap_x) * self.geometry.outputs,
                    length: self.geometry.outputs,
                });
            }
        }
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

struct Gradient<'a> {
    input: Input<'a>,
    weight: &'a Packed,
    output_gradient: &'a [f32],
    plan: &'a Plan<'a>,
    shard: Shard,
    scratch: *mut f32,
    target: Target,
}

impl Kernel for Gradient<'_> {
    type Output = Vec<Sums>;

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> Self::Output {
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
        let scratch = self.scratch;
        let mut sums = vec![];
        for start in (0..self.shard.length).step_by(*group) {
            let count = (*group).min(self.shard.length - start);
            let first = self.shard.start + start;
            // SAFETY: the group's images exist, the scratch space holds their frames, and
            // their gradient is this shard's own.
            unsafe {
                let left = match frame.in_place(values, first) {
                    Some(left) => left,
                    None => {
                        frame.fill::<L>(values, first, count, scratch);
                        scratch.cast_const()
                    }
                };
                let pixels = first * geometry.pixels();
                let images = self.target.at(pixels * geometry.inputs);
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
                if let Some(norm) = self.input.norm {
                    let (input, target) = (self.input, self.target);
                    let count = count * geometry.pixels();
                    sums.push(rectify_and_sum::<L>(input, norm, target, pixels, count));
                }
            }
        }
        sums
    }
}
