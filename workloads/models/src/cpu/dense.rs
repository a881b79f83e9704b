//! The dense convolution, forward: each output pixel sums over what its window sees.

use super::geometry::Geometry;
use super::input::{Frame, Input};
use super::lanes::Lanes;
use super::memory::{Output, Shard, Target, in_parallel, padded, with_scratch};
use super::norm::{GroupMoments, Moments, group_moments};
use super::product::{Panels, Product, Weights};
use super::tile::Run;
use super::{Kernel, dispatch_columns};

/// The images convolved, and each output channel's moments; of no channels where they
/// are not wanted.
pub(crate) fn forward(
    input: Input<'_>,
    weight: &[f32],
    geometry: &Geometry,
    moments_wanted: bool,
) -> (Vec<f32>, Moments) {
    let packed = packed(weight, geometry);
    let mut output = Output::new(geometry.output_shape().iter().product());
    let target = output.target();
    let frame = frame(geometry);
    let groups = in_parallel(&geometry.shards(), |shard| {
        with_scratch(padded(geometry.group() * frame.image()), |scratch| {
            let forward = Forward {
                input,
                weight: &packed,
                geometry,
                frame: &frame,
                shard,
                scratch,
                target,
                moments_wanted,
            };
            dispatch_columns(geometry.outputs, forward)
        })
    });
    // SAFETY: the shards cover the batch, and each writes all pixels of its images.
    let output = unsafe { output.written() };
    (output, Moments::of(&groups.concat()))
}

/// The products of [`forward`] so many times over, on one thread and without the packing
/// of the weight: what the machine's peak is measured by.
pub(crate) fn products_alone(
    input: Input<'_>,
    weight: &[f32],
    geometry: &Geometry,
    times: usize,
) -> Vec<f32> {
    let packed = packed(weight, geometry);
    let mut output = vec![0.0; geometry.output_shape().iter().product()];
    let frame = frame(geometry);
    let target = Target::of(&mut output);
    with_scratch(padded(geometry.group() * frame.image()), |scratch| {
        for _ in 0..times {
            let forward = Forward {
                input,
                weight: &packed,
                geometry,
                frame: &frame,
                shard: Shard {
                    start: 0,
                    length: geometry.batch,
                },
                scratch,
                target,
                moments_wanted: false,
            };
            dispatch_columns(geometry.outputs, forward);
        }
    });
    output
}

fn packed(weight: &[f32], geometry: &Geometry) -> Panels {
    let (inputs, taps) = (geometry.inputs, geometry.taps());
    let weights = Weights {
        values: weight,
        terms: geometry.depth(),
        columns: geometry.outputs,
        first: &|term| term % inputs * taps + term / inputs,
        step: inputs * taps,
    };
    Panels::new(&weights)
}

struct Forward<'a> {
    input: Input<'a>,
    weight: &'a Panels,
    geometry: &'a Geometry,
    frame: &'a Frame,
    shard: Shard,
    scratch: *mut f32,
    target: Target,
    moments_wanted: bool,
}

impl Kernel for Forward<'_> {
    type Output = Vec<GroupMoments>;

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> Self::Output {
        let Self {
            geometry,
            frame,
            scratch,
            ..
        } = self;
        let runs = runs(geometry, frame, self.weight.width);
        let group = geometry.group().min(self.shard.length);
        let rows = rows(geometry, frame, group);
        let stored: Vec<usize> = (0..rows.len()).map(|row| row * geometry.outputs).collect();
        let mut moments = vec![];
        for start in (0..self.shard.length).step_by(group) {
            let count = group.min(self.shard.length - start);
            let first = self.shard.start + start;
            let pixels = count * geometry.out_pixels();
            // SAFETY: the group's images exist, the scratch space holds them, and its
            // outputs are this shard's own.
            unsafe {
                // The group's images, framed unless they can be read where they are.
                let left = frame.read::<L>(self.input, first, count, scratch);
                let outputs = self
                    .target
                    .at(first * geometry.out_pixels() * geometry.outputs);
                // Their outputs, and the moments of these while they are in the cache.
                Product {
                    rows: &rows[..pixels],
                    left,
                    runs: &runs,
                    right: self.weight,
                    output: Target::at_pointer(outputs),
                    stored: &stored[..pixels],
                }
                .run::<L>();
                if self.moments_wanted {
                    moments.push(group_moments::<L>(outputs, pixels, geometry.outputs));
                }
            }
        }
        moments
    }
}

/// The images with the zeros that the window is padded with.
pub(crate) fn frame(geometry: &Geometry) -> Frame {
    let padding = geometry.window.padding;
    let image = [geometry.height, geometry.width, geometry.inputs];
    Frame::new(image, padding, padding)
}

/// Returns the inputs of a window: one run per row of it, or one per tap where pixels are
/// apart. Weights are in panels of that width.
fn runs(geometry: &Geometry, frame: &Frame, width: usize) -> Vec<Run> {
    let kernel = geometry.window.kernel;
    let joined = if frame.pitch == frame.channels {
        kernel
    } else {
        1
    };
    (0..geometry.taps())
        .step_by(joined)
        .map(|tap| Run {
            left: (tap / kernel * frame.columns() + tap % kernel) * frame.pitch,
            right: tap * geometry.inputs * width,
            length: joined * geometry.inputs,
        })
        .collect()
}

/// Returns the starts of the windows of so many images in their frames.
pub(crate) fn rows(geometry: &Geometry, frame: &Frame, images: usize) -> Vec<usize> {
    let stride = geometry.window.stride;
    let mut rows = Vec::with_capacity(images * geometry.out_pixels());
    for image in 0..images {
        for y in 0..geometry.out_height {
            for x in 0..geometry.out_width {
                let pixel = y * stride * frame.columns() + x * stride;
                rows.push(image * frame.image() + pixel * frame.pitch);
            }
        }
    }
    rows
}
