//! The gradient of the weight: at each point a product over all tiles, and the transform
//! of their sums.

use super::super::geometry::Geometry;
use super::super::input::Input;
use super::super::lanes::Lanes;
use super::super::memory::{Output, Shard, Target, in_parallel, padded, shards, with_scratch};
use super::super::product::{Panels, sum_of};
use super::super::tile::{MAX_ROWS, Operands, Rows, Run};
use super::super::{Kernel, dispatch};
use super::transforms::{self, Points, window_gradients};
use super::{Layout, POINTS, ROW, Tiles};

/// Most values of the sums that shards of the batch make apart (16 MiB): larger ones are
/// shared out by rows of points, which repeats less of the transforms than ranges of
/// channels would.
const PART_VALUES: usize = 1 << 22;

/// Least units of work that a large batch is cut into.
const LEAST_UNITS: usize = 8;

/// Computes the gradient of the weight; see [`super::super::dense_weight::gradient`].
pub(crate) fn gradient(input: Input<'_>, output_gradient: &[f32], geometry: &Geometry) -> Vec<f32> {
    let windows = geometry.inputs * geometry.outputs;
    let tiles = Tiles::new(geometry);
    // Units of work: ranges of points by shards of the batch.
    let batches = tiles.shards(geometry.batch, PART_VALUES / (POINTS * windows));
    let ranges = LEAST_UNITS.div_ceil(batches.len()).next_power_of_two();
    let ranges = shards(ROW, ranges.min(ROW));
    let units: Vec<(Shard, Shard)> = ranges
        .iter()
        .flat_map(|&points| batches.iter().map(move |&batch| (points, batch)))
        .collect();
    // Each unit sums the products of its points over its images.
    let parts = in_parallel(&units, |(points, batch)| {
        let points = Points {
            start: points.start,
            end: points.start + points.length,
        };
        let plan = Plan::new(geometry, &tiles, points);
        let mut part = Output::new(plan.points.count() * windows);
        let target = part.target();
        with_scratch(plan.scratch(), |scratch| {
            dispatch(Gradient {
                input,
                output_gradient,
                geometry,
                plan: &plan,
                batch,
                scratch,
                target,
            });
        });
        // SAFETY: the first chunk of tiles writes all points of the range, all windows.
        unsafe { part.written() }
    });
    // The shards of each range are added up; points become windows.
    let mut parts = parts.into_iter();
    let points: Vec<Vec<f32>> = ranges
        .iter()
        .map(|_| sum_of(parts.by_ref().take(batches.len()).collect()))
        .collect();
    windows_of(&points, geometry)
}

/// The tiles, and where those of a chunk are in scratch space.
struct Plan<'a> {
    tiles: &'a Tiles,
    points: Points,
    chunk: usize,
    images: Layout,
    gradients: Layout,
}

impl<'a> Plan<'a> {
    fn new(geometry: &Geometry, tiles: &'a Tiles, points: Points) -> Self {
        let chunk = tiles.chunk(points.count() * (geometry.inputs + geometry.outputs));
        let width = Panels::width_of(geometry.inputs);
        Self {
            tiles,
            points,
            chunk,
            images: Layout::panels(chunk, geometry.inputs, width),
            gradients: Layout::rows(chunk, geometry.outputs),
        }
    }

    fn scratch(&self) -> usize {
        let points = self.points.count();
        self.tiles.frames()
            + padded(self.images.values(points))
            + padded(self.gradients.values(points))
    }
}

struct Gradient<'a> {
    input: Input<'a>,
    output_gradient: &'a [f32],
    geometry: &'a Geometry,
    plan: &'a Plan<'a>,
    batch: Shard,
    scratch: *mut f32,
    /// `[points, out, in]`.
    target: Target,
}

impl Kernel for Gradient<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let (geometry, plan) = (self.geometry, self.plan);
        let (frame, points) = (&plan.tiles.frame, &plan.points);
        let pixels = [frame.columns() * frame.pitch, frame.pitch, frame.channels];
        let line = [geometry.out_width * geometry.outputs, geometry.outputs];
        let group = plan.tiles.group;
        for start in (0..self.batch.length).step_by(group) {
            let count = group.min(self.batch.length - start);
            let first = self.batch.start + start;
            let output = first * geometry.out_pixels() * geometry.outputs;
            // SAFETY: the group's images and outputs exist, and the scratch space holds
            // the frames and the points of a chunk.
            unsafe {
                let images = self.scratch.add(plan.tiles.frames());
                let gradients = images.add(padded(plan.images.values(points.count())));
                frame.fill::<L>(self.input, first, count, self.scratch);
                let output = self.output_gradient.as_ptr().add(output);
                for (chunk, tiles) in plan.tiles.of(count).chunks(plan.chunk).enumerate() {
                    let frames = self.scratch.cast_const();
                    transforms::images::<L>(tiles, frames, pixels, points, images, plan.images);
                    let layout = plan.gradients;
                    transforms::gradients::<L>(tiles, output, line, points, gradients, layout);
                    let accumulate = start + chunk > 0;
                    self.products::<L>(images, gradients, tiles.len(), accumulate);
                }
            }
        }
    }
}

impl Gradient<'_> {
    /// Adds the products of a chunk's tiles, at every point.
    ///
    /// # Safety
    /// The CPU must support the instruction set of `L`. `images` and `gradients` must hold
    /// all points of so many tiles.
    #[inline(always)]
    unsafe fn products<L: Lanes>(
        &self,
        images: *const f32,
        gradients: *const f32,
        tiles: usize,
        accumulate: bool,
    ) {
        // SAFETY: the caller guarantees the instruction set and the points; inputs and
        // outputs are whole panels, and each point's sums are this unit's own.
        unsafe {
            let plan = self.plan;
            let Geometry {
                inputs, outputs, ..
            } = *self.geometry;
            let runs = [Run {
                left: 0,
                right: 0,
                length: tiles,
            }];
            for point in 0..plan.points.count() {
                let gradients = gradients.add(point * plan.gradients.point);
                let images = images.add(point * plan.images.point);
                for column in (0..inputs).step_by(L::COLUMNS) {
                    let operands = Operands {
                        runs: &runs,
                        left_step: plan.gradients.tile,
                        right: images.add(plan.images.column(column)),
                        columns: L::COLUMNS,
                        accumulate,
                    };
                    for row in (0..outputs).step_by(L::ROWS) {
                        let held = L::ROWS.min(outputs - row);
                        let output = self.target.at((point * outputs + row) * inputs + column);
                        let left = gradients.add(row);
                        let mut rows = Rows {
                            left: [left; MAX_ROWS],
                            output: [output; MAX_ROWS],
                            count: held,
                        };
                        // Rows that a tile has too many repeat the first.
                        for index in 1..held {
                            rows.left[index] = left.add(index);
                            rows.output[index] = output.add(index * inputs);
                        }
                        L::product(&operands, &rows, false);
                    }
                }
            }
        }
    }
}

/// Returns the gradient `[out, in, 3, 3]` from that of the points, in equal ranges of them.
fn windows_of(points: &[Vec<f32>], geometry: &Geometry) -> Vec<f32> {
    const TAPS: usize = 9;
    let mut gradient = Output::new(geometry.inputs * geometry.outputs * TAPS);
    let target = gradient.target();
    let outputs: Vec<usize> = (0..geometry.outputs).collect();
    in_parallel(&outputs, |output| {
        dispatch(Windows {
            points,
            geometry,
            output,
            target,
        });
    });
    // SAFETY: every output's windows were written.
    unsafe { gradient.written() }
}

struct Windows<'a> {
    points: &'a [Vec<f32>],
    geometry: &'a Geometry,
    output: usize,
    target: Target,
}

impl Kernel for Windows<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Geometry {
            inputs, outputs, ..
        } = *self.geometry;
        let points = POINTS / self.points.len();
        let mut taps = [[0.0f32; 16]; 9];
        for channel in (0..inputs).step_by(L::WIDTH) {
            // SAFETY: the windows of one output are its own.
            unsafe {
                let mut u = [L::splat(0.0); POINTS];
                for (point, u) in u.iter_mut().enumerate() {
                    let at = (point % points * outputs + self.output) * inputs + channel;
                    *u = L::load(self.points[point / points].as_ptr().add(at));
                }
                for (taps, value) in taps.iter_mut().zip(window_gradients::<L>(u)) {
                    L::store(taps.as_mut_ptr(), value);
                }
                let mut to = self.target.at((self.output * inputs + channel) * 9);
                for lane in 0..L::WIDTH {
                    for taps in &taps {
                        *to = taps[lane];
                        to = to.wrapping_add(1);
                    }
                }
            }
        }
    }
}
