//! The convolution of images: forward, and of the output's gradient backward.

use super::super::geometry::Geometry;
use super::super::input::Input;
use super::super::lanes::Lanes;
use super::super::memory::{Output, Shard, Target, in_parallel, padded, with_scratch};
use super::super::norm::{GroupMoments, Moments, Sums, function_gradient_and_sums, group_moments};
use super::super::product::{Panels, Product};
use super::super::tile::Run;
use super::super::{Kernel, dispatch};
use super::transforms::{self, Points};
use super::weights::{Order, transformed};
use super::{Layout, POINTS, Tiles};
use crate::ops::Window;

/// Convolves the images; see [`super::super::dense::forward`].
pub(crate) fn forward(
    input: Input<'_>,
    weight: &[f32],
    geometry: &Geometry,
    moments_wanted: bool,
) -> (Vec<f32>, Moments) {
    let packed = transformed(
        weight,
        Order {
            terms: geometry.inputs,
            columns: geometry.outputs,
            term: 1,
            column: geometry.inputs,
            turned: false,
        },
    );
    let (output, moments, _) = convolved(input, &packed, geometry, moments_wanted, None);
    (output, Moments::of(&moments))
}

/// Computes the gradient of the images; see [`super::super::dense_images::gradient`].
pub(crate) fn images_gradient(
    input: Input<'_>,
    weight: &[f32],
    output_gradient: &[f32],
    geometry: &Geometry,
) -> (Vec<f32>, Option<Sums>) {
    // The convolution with the windows turned around, from outputs to inputs.
    let packed = transformed(
        weight,
        Order {
            terms: geometry.outputs,
            columns: geometry.inputs,
            term: geometry.inputs,
            column: 1,
            turned: true,
        },
    );
    let window = Window {
        padding: 2 - geometry.window.padding,
        ..geometry.window
    };
    let images = [
        geometry.batch,
        geometry.out_height,
        geometry.out_width,
        geometry.outputs,
    ];
    let backward = Geometry::new(images, geometry.inputs, window);
    let gradient = Input {
        values: output_gradient,
        norm: None,
    };
    let (gradient, _, sums) = convolved(gradient, &packed, &backward, false, Some(input));
    (gradient, input.norm.map(|_| Sums::of(&sums)))
}

/// Returns the outputs, their moments where they are wanted, one group of images after the other,
/// and, of outputs that are the gradient of `features`, the sums of the norm of these.
fn convolved(
    input: Input<'_>,
    weight: &[Panels],
    geometry: &Geometry,
    moments_wanted: bool,
    features: Option<Input<'_>>,
) -> (Vec<f32>, Vec<GroupMoments>, Vec<Sums>) {
    let mut output = Output::new(geometry.output_shape().iter().product());
    let target = output.target();
    let plan = Plan::new(geometry);
    let shards = plan.tiles.shards(geometry.batch, usize::MAX);
    let found = in_parallel(&shards, |shard| {
        with_scratch(plan.scratch(), |scratch| {
            dispatch(Convolve {
                input,
                weight,
                geometry,
                plan: &plan,
                shard,
                scratch,
                target,
                moments_wanted,
                features,
            })
        })
    });
    // SAFETY: the shards cover the batch, and the tiles all outputs of an image.
    let output = unsafe { output.written() };
    let (moments, sums): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    (output, moments.concat(), sums.concat())
}

/// The tiles, and where those of a chunk are in scratch space.
struct Plan {
    tiles: Tiles,
    chunk: usize,
    images: Layout,
    sums: Layout,
    /// Start of each tile's row in `images` and in `sums`.
    rows: Vec<usize>,
    stored: Vec<usize>,
}

impl Plan {
    fn new(geometry: &Geometry) -> Self {
        let tiles = Tiles::new(geometry);
        let chunk = tiles.chunk(POINTS * (geometry.inputs + geometry.outputs));
        let images = Layout::rows(chunk, geometry.inputs);
        let sums = Layout::rows(chunk, geometry.outputs);
        Self {
            tiles,
            chunk,
            images,
            sums,
            rows: (0..chunk).map(|tile| tile * images.tile).collect(),
            stored: (0..chunk).map(|tile| tile * sums.tile).collect(),
        }
    }

    fn scratch(&self) -> usize {
        self.tiles.frames() + padded(self.images.values(POINTS)) + padded(self.sums.values(POINTS))
    }
}

struct Convolve<'a> {
    input: Input<'a>,
    weight: &'a [Panels],
    geometry: &'a Geometry,
    plan: &'a Plan,
    shard: Shard,
    scratch: *mut f32,
    target: Target,
    moments_wanted: bool,
    features: Option<Input<'a>>,
}

impl Kernel for Convolve<'_> {
    type Output = (Vec<GroupMoments>, Vec<Sums>);

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> Self::Output {
        let (geometry, tiles) = (self.geometry, &self.plan.tiles);
        let (mut moments, mut sums) = (vec![], vec![]);
        for start in (0..self.shard.length).step_by(tiles.group) {
            let count = tiles.group.min(self.shard.length - start);
            let first = self.shard.start + start;
            let pixel = first * geometry.out_pixels();
            // SAFETY: the group's images exist, the scratch space holds them, and their
            // outputs are this shard's own.
            unsafe {
                let outputs = self.target.at(pixel * geometry.outputs);
                tiles
                    .frame
                    .fill::<L>(self.input, first, count, self.scratch);
                self.tiles::<L>(count, outputs);
                let pixels = count * geometry.out_pixels();
                if self.moments_wanted {
                    moments.push(group_moments::<L>(outputs, pixels, geometry.outputs));
                }
                // The gradient passes the features' norm while it is in the cache.
                if let Some(features) = self.features
                    && let Some(norm) = features.norm
                {
                    let target = self.target;
                    sums.push(function_gradient_and_sums::<L>(
                        features, norm, target, pixel, pixels,
                    ));
                }
            }
        }
        (moments, sums)
    }
}

impl Convolve<'_> {
    /// Computes the outputs of so many framed images.
    ///
    /// # Safety
    /// The CPU must support the instruction set of `L`. The scratch space must hold the
    /// frames of so many images, and `outputs` must be valid for writes of their output
    /// pixels.
    #[inline(always)]
    unsafe fn tiles<L: Lanes>(&self, count: usize, outputs: *mut f32) {
        // SAFETY: the caller guarantees the instruction set, the frames and the outputs;
        // behind the frames, the scratch space holds the points of a chunk before and after
        // the products.
        unsafe {
            let (geometry, plan) = (self.geometry, self.plan);
            let frame = &plan.tiles.frame;
            let pixels = [frame.columns() * frame.pitch, frame.pitch, frame.channels];
            let images = self.scratch.add(plan.tiles.frames());
            let sums = images.add(padded(plan.images.values(POINTS)));
            for tiles in plan.tiles.of(count).chunks(plan.chunk) {
                let frames = self.scratch.cast_const();
                transforms::images::<L>(tiles, frames, pixels, &Points::ALL, images, plan.images);
                // At every point, a product of the tiles and the weights.
                let runs = [Run {
                    left: 0,
                    right: 0,
                    length: geometry.inputs,
                }];
                for (point, weight) in self.weight.iter().enumerate() {
                    Product {
                        rows: &plan.rows[..tiles.len()],
                        left: images.add(point * plan.images.point),
                        runs: &runs,
                        right: weight,
                        output: Target::at_pointer(sums.add(point * plan.sums.point)),
                        stored: &plan.stored[..tiles.len()],
                    }
                    .run::<L>();
                }
                let line = [geometry.out_width * geometry.outputs, geometry.outputs];
                transforms::outputs::<L>(tiles, sums, plan.sums, outputs, line);
            }
        }
    }
}
