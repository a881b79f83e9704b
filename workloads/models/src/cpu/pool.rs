//! Bias, ReLU and 2×2 maximum in one pass, over channels-last images.

use super::memory::{Output, Target, in_parallel, shards_of_work};
use super::product::sum_of;

/// Rows and columns of a window, which is also its stride.
const SIDE: usize = 2;

/// The sizes of images that are pooled; odd last rows and columns are left out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pooled {
    pub(crate) batch: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) channels: usize,
}

impl Pooled {
    /// Shape of the outputs.
    pub(crate) fn shape(&self) -> [usize; 4] {
        [
            self.batch,
            self.height / SIDE,
            self.width / SIDE,
            self.channels,
        ]
    }

    fn image(&self) -> usize {
        self.height * self.width * self.channels
    }

    fn output(&self) -> usize {
        self.shape()[1..].iter().product()
    }

    /// Calls `window(output position, four positions)` for every window of one image, of
    /// its first channel.
    #[inline(always)]
    fn windows(&self, mut window: impl FnMut(usize, [usize; 4])) {
        let [_, height, width, channels] = self.shape();
        for y in 0..height {
            for x in 0..width {
                let row = SIDE * y * self.width + SIDE * x;
                let pixels = [row, row + 1, row + self.width, row + self.width + 1];
                window(
                    (y * width + x) * channels,
                    pixels.map(|pixel| pixel * channels),
                );
            }
        }
    }
}

/// The position of a window's maximum, the first of equals; NaN is greatest.
#[inline(always)]
fn greatest(values: [f32; 4]) -> usize {
    let mut best = 0;
    for index in 1..4 {
        if values[index] > values[best] || values[index].is_nan() && !values[best].is_nan() {
            best = index;
        }
    }
    best
}

/// The greatest of each window, plus the channel's bias, and above 0.
pub(crate) fn forward(images: &[f32], bias: &[f32], sizes: Pooled) -> Vec<f32> {
    let mut output = Output::new(sizes.shape().iter().product());
    let target = output.target();
    in_parallel(&shards_of_work(sizes.batch, sizes.image()), |shard| {
        for index in shard.start..shard.start + shard.length {
            let image = &images[index * sizes.image()..][..sizes.image()];
            sizes.windows(|at, positions| {
                let rows = positions.map(|position| &image[position..][..sizes.channels]);
                for (channel, bias) in bias.iter().enumerate() {
                    let values = rows.map(|row| row[channel]);
                    let y = values[greatest(values)] + bias;
                    let y = if y <= 0.0 { 0.0 } else { y };
                    // SAFETY: the image's outputs are this shard's own.
                    unsafe { *target.at(index * sizes.output() + at + channel) = y };
                }
            });
        }
    });
    // SAFETY: the shards cover the batch, and the windows each image's outputs.
    unsafe { output.written() }
}

/// The gradients of the images and of the bias.
pub(crate) fn backward(
    images: &[f32],
    bias: &[f32],
    output_gradient: &[f32],
    sizes: Pooled,
) -> (Vec<f32>, Vec<f32>) {
    let mut gradient = vec![0.0; images.len()];
    let target = Target::of(&mut gradient);
    let parts = in_parallel(&shards_of_work(sizes.batch, sizes.image()), |shard| {
        let mut total = vec![0.0; bias.len()];
        for index in shard.start..shard.start + shard.length {
            let first = index * sizes.image();
            let image = &images[first..][..sizes.image()];
            sizes.windows(|at, positions| {
                let rows = positions.map(|position| &image[position..][..sizes.channels]);
                let slopes = &output_gradient[index * sizes.output() + at..][..sizes.channels];
                for (channel, &slope) in slopes.iter().enumerate() {
                    let values = rows.map(|row| row[channel]);
                    let best = greatest(values);
                    if values[best] + bias[channel] <= 0.0 {
                        continue;
                    }
                    total[channel] += slope;
                    // SAFETY: the image's gradient is this shard's own.
                    unsafe { *target.at(first + positions[best] + channel) = slope };
                }
            });
        }
        total
    });
    (gradient, sum_of(parts))
}
