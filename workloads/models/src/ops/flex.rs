//! The convolution on burn's CPU backend: plain loops over channels-last rows,
//! whose inner loops run along the channels.

use burn::tensor::TensorData;
use burn_flex::{Flex, FlexTensor};

use super::{ConvolutionOps, Window};

impl ConvolutionOps for Flex {
    fn patches(images: FlexTensor, window: Window) -> FlexTensor {
        let plan = Plan::new(dims(&images), window);
        let images = images.to_contiguous();
        let columns = window.kernel * window.kernel * plan.channels;
        let rows = plan.batch * plan.outputs[0] * plan.outputs[1];
        let mut patches = vec![0.0; rows * columns];
        let pixels = images.storage::<f32>();
        for (row, patch) in patches.chunks_exact_mut(columns).enumerate() {
            plan.spans(row, |at, column, length| {
                patch[column..][..length].copy_from_slice(&pixels[at..][..length]);
            });
        }
        tensor(patches, [rows, columns])
    }

    fn fold(patches: FlexTensor, images: [usize; 4], window: Window) -> FlexTensor {
        let plan = Plan::new(images, window);
        let patches = patches.to_contiguous();
        let columns = window.kernel * window.kernel * plan.channels;
        let mut pixels = vec![0.0; images.iter().product()];
        for (row, patch) in patches.storage::<f32>().chunks_exact(columns).enumerate() {
            plan.spans(row, |at, column, length| {
                for (pixel, value) in pixels[at..][..length].iter_mut().zip(&patch[column..]) {
                    *pixel += value;
                }
            });
        }
        tensor(pixels, images)
    }

    fn transpose_matrices(matrices: FlexTensor) -> FlexTensor {
        let [count, rows, columns] = dims(&matrices);
        if rows == 1 || columns == 1 {
            return matrices.reshape([count, columns, rows].into());
        }
        let matrices = matrices.to_contiguous();
        let values = matrices.storage::<f32>();
        let mut swapped = Vec::with_capacity(values.len());
        for matrix in values.chunks_exact(rows * columns) {
            for column in 0..columns {
                swapped.extend(matrix[column..].iter().step_by(columns));
            }
        }
        tensor(swapped, [count, columns, rows])
    }

    fn depthwise(images: FlexTensor, weight: FlexTensor, window: Window) -> FlexTensor {
        let plan = Plan::new(dims(&images), window);
        let channels = plan.channels;
        let images = images.to_contiguous();
        let weights = channels_last(&weight, window);
        let pixels = images.storage::<f32>();
        let shape = [plan.batch, plan.outputs[0], plan.outputs[1], channels];
        let mut outputs = vec![0.0; shape.iter().product()];
        for (row, output) in outputs.chunks_exact_mut(channels).enumerate() {
            plan.spans(row, |at, column, length| {
                let pixels = pixels[at..][..length].chunks_exact(channels);
                let weights = weights[column..][..length].chunks_exact(channels);
                for (pixels, weights) in pixels.zip(weights) {
                    for ((output, pixel), weight) in output.iter_mut().zip(pixels).zip(weights) {
                        *output += pixel * weight;
                    }
                }
            });
        }
        tensor(outputs, shape)
    }

    fn depthwise_backward(
        images: FlexTensor,
        weight: FlexTensor,
        output_gradient: FlexTensor,
        window: Window,
        images_wanted: bool,
    ) -> (Option<FlexTensor>, FlexTensor) {
        let plan = Plan::new(dims(&images), window);
        let images = images.to_contiguous();
        let gradient = output_gradient.to_contiguous();
        let (pixels, gradient) = (images.storage::<f32>(), gradient.storage::<f32>());
        let weight_gradient = depthwise_weight_gradient(&plan, pixels, gradient);
        let images_gradient = images_wanted.then(|| {
            let weights = channels_last(&weight, window);
            let values = depthwise_images_gradient(&plan, &weights, gradient);
            tensor::<4>(values, dims(&images))
        });
        let channels_first = transposed(&weight_gradient, plan.channels);
        let shape = [plan.channels, 1, window.kernel, window.kernel];
        (images_gradient, tensor(channels_first, shape))
    }
}

/// Sums within an image first: short sums keep the digits of `f32`.
fn depthwise_weight_gradient(plan: &Plan, pixels: &[f32], gradient: &[f32]) -> Vec<f32> {
    let channels = plan.channels;
    let columns = plan.window.kernel * plan.window.kernel * channels;
    let rows_an_image = plan.outputs[0] * plan.outputs[1];
    let mut total = vec![0.0; columns];
    let mut image = vec![0.0; columns];
    for (row, gradient) in gradient.chunks_exact(channels).enumerate() {
        plan.spans(row, |at, column, length| {
            let pixels = pixels[at..][..length].chunks_exact(channels);
            let sums = image[column..][..length].chunks_exact_mut(channels);
            for (pixels, sums) in pixels.zip(sums) {
                for ((sum, pixel), gradient) in sums.iter_mut().zip(pixels).zip(gradient) {
                    *sum += pixel * gradient;
                }
            }
        });
        if (row + 1) % rows_an_image == 0 {
            for (total, sum) in total.iter_mut().zip(&mut image) {
                *total += std::mem::take(sum);
            }
        }
    }
    total
}

fn depthwise_images_gradient(plan: &Plan, weights: &[f32], gradient: &[f32]) -> Vec<f32> {
    let channels = plan.channels;
    let mut images = vec![0.0; plan.batch * plan.height * plan.width * channels];
    for (row, gradient) in gradient.chunks_exact(channels).enumerate() {
        plan.spans(row, |at, column, length| {
            let images = images[at..][..length].chunks_exact_mut(channels);
            let weights = weights[column..][..length].chunks_exact(channels);
            for (image, weights) in images.zip(weights) {
                for ((image, weight), gradient) in image.iter_mut().zip(weights).zip(gradient) {
                    *image += weight * gradient;
                }
            }
        });
    }
    images
}

/// Which pixels each output of a window sees.
struct Plan {
    batch: usize,
    height: usize,
    width: usize,
    channels: usize,
    outputs: [usize; 2],
    window: Window,
}

impl Plan {
    fn new([batch, height, width, channels]: [usize; 4], window: Window) -> Self {
        Self {
            batch,
            height,
            width,
            channels,
            outputs: [window.outputs(height), window.outputs(width)],
            window,
        }
    }

    /// Calls `span(first pixel value, first patch column, length)` for each row of
    /// the window that output `row` (counted over the batch) sees inside the image:
    /// neighbouring pixels of one row are neighbours in a patch as well.
    #[inline]
    fn spans(&self, row: usize, mut span: impl FnMut(usize, usize, usize)) {
        let Window {
            kernel,
            stride,
            padding,
            ..
        } = self.window;
        let [height, width] = self.outputs;
        let image = row / (height * width) * self.height;
        let top = row / width % height * stride;
        let left = row % width * stride;
        let first_x = left.max(padding);
        let end_x = (left + kernel).min(self.width + padding);
        let length = (end_x - first_x) * self.channels;
        let first_y = top.max(padding);
        let end_y = (top + kernel).min(self.height + padding);
        for y in first_y..end_y {
            let pixel = (image + y - padding) * self.width + first_x - padding;
            let tap = (y - top) * kernel + first_x - left;
            span(pixel * self.channels, tap * self.channels, length);
        }
    }
}

/// Depthwise weights `[channels, 1, kernel, kernel]` with the channels innermost.
fn channels_last(weight: &FlexTensor, window: Window) -> Vec<f32> {
    let weight = weight.to_contiguous();
    transposed(weight.storage(), window.kernel * window.kernel)
}

/// A matrix of so many columns, by columns.
fn transposed(matrix: &[f32], columns: usize) -> Vec<f32> {
    (0..columns)
        .flat_map(|column| matrix[column..].iter().step_by(columns).copied())
        .collect()
}

fn dims<const D: usize>(tensor: &FlexTensor) -> [usize; D] {
    tensor.layout().shape().dims()
}

fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape))
}
