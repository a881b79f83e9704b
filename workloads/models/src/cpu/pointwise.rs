//! Both gradients of a 1×1 convolution at once: a group of images at a time, so that the
//! output's gradient and the input are read from memory once for the two.

use super::dense::frame;
use super::geometry::Geometry;
use super::input::Input;
use super::lanes::Lanes;
use super::memory::{Output, in_parallel, with_scratch};
use super::method::Gradients;
use super::norm::Sums;
use super::product::sum_of;
use super::tile::MAX_COLUMNS;
use super::{Kernel, dense_images, dense_weight, dispatch};

/// Returns whether the two gradients are shared out alike: that of the weight is not too
/// large for shards of the batch.
pub(crate) fn serves(geometry: &Geometry) -> bool {
    geometry.is_pointwise()
        && geometry.inputs.is_multiple_of(MAX_COLUMNS)
        && dense_weight::units(geometry).1.len() == 1
}

/// The gradients of the images and of the weight.
pub(crate) fn gradients(
    input: Input<'_>,
    weight: &[f32],
    output_gradient: &[f32],
    geometry: &Geometry,
) -> Gradients {
    let packed = dense_images::packed(weight, geometry);
    let plan = dense_images::Plan::new(geometry);
    let mut images = Output::new(geometry.batch * geometry.pixels() * geometry.inputs);
    let target = images.target();
    let frame = frame(geometry);
    let (batches, ranges) = dense_weight::units(geometry);
    let outputs = ranges[0];
    // Each shard of the batch writes its images' gradient, and a part of the weight's.
    let found = in_parallel(&batches, |batch| {
        let mut part = Output::new(geometry.depth() * geometry.outputs);
        let part_target = part.target();
        let of_weight = dense_weight::scratch(geometry, &frame, batch, outputs);
        let sums = with_scratch(of_weight + plan.scratch(), |scratch| {
            let weight = dense_weight::Gradient {
                input,
                output_gradient,
                geometry,
                frame: &frame,
                batch,
                outputs,
                scratch,
                target: part_target,
            };
            let images = dense_images::Gradient {
                input,
                weight: &packed,
                output_gradient,
                plan: &plan,
                shard: batch,
                // SAFETY: the scratch space is as large as both take together.
                scratch: unsafe { scratch.add(of_weight) },
                target,
            };
            dispatch(Both { weight, images })
        });
        // SAFETY: the first group of images writes the whole part.
        (unsafe { part.written() }, sums)
    });
    // The parts and the sums of the shards are joined in their order.
    let (parts, sums): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    Gradients {
        // SAFETY: the shards cover the batch, and each writes all pixels of its images.
        images: Some(unsafe { images.written() }),
        weight: sum_of(parts),
        sums: input.norm.map(|_| Sums::of(&sums.concat())),
    }
}

struct Both<'a> {
    weight: dense_weight::Gradient<'a>,
    images: dense_images::Gradient<'a>,
}

impl Kernel for Both<'_> {
    type Output = Vec<Sums>;

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> Self::Output {
        let shard = self.images.shard;
        let group = self.images.plan.group.min(shard.length);
        let mut sums = vec![];
        for start in (0..shard.length).step_by(group) {
            let (first, count) = (shard.start + start, group.min(shard.length - start));
            // SAFETY: the group's images exist and are this shard's own, and each has its
            // scratch space.
            unsafe {
                self.weight.group::<L>(first, count, start > 0);
                sums.extend(self.images.group::<L>(first, count));
            }
        }
        sums
    }
}
