//! Images of a dataset as the images that a network's first layer reads.
//!
//! Smaller images are enlarged by bilinear interpolation between pixels' centres (as
//! PyTorch's `interpolate` without `align_corners`), and a single channel is repeated.

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::flat::sent;

/// Two neighbours along an axis, and the share of the second.
#[derive(Debug, Clone, Copy)]
struct Between {
    first: usize,
    second: usize,
    share: f32,
}

/// Returns whether images of a shape (channels, height, width) can be made into the
/// other's.
pub(crate) fn fits(images: [usize; 3], input: [usize; 3]) -> bool {
    let channels = images[0] == input[0] || images[0] == 1;
    channels && images[1] <= input[1] && images[2] <= input[2] && !images.contains(&0)
}

/// Images `[batch, channels, height, width]` of that shape as channels-last ones of the
/// input's.
pub(crate) fn image_tensor<B: Backend>(
    images: &[f32],
    shape: [usize; 3],
    input: [usize; 3],
    device: &B::Device,
) -> Tensor<B, 4> {
    let [channels, height, width] = input;
    let length = shape.iter().product::<usize>();
    let batch = images.len() / length;
    let mut values = Vec::with_capacity(batch * channels * height * width);
    for image in images.chunks_exact(length) {
        append(image, shape, input, &mut values);
    }
    sent(values, [batch, height, width, channels], device)
}

/// Appends one image, channels last.
fn append(image: &[f32], shape: [usize; 3], input: [usize; 3], to: &mut Vec<f32>) {
    let (pixels, width) = (shape[1] * shape[2], shape[2]);
    // Where each channel's plane begins.
    let planes: Vec<usize> = (0..input[0])
        .map(|channel| channel.min(shape[0] - 1) * pixels)
        .collect();
    if shape[1..] == input[1..] {
        for pixel in 0..pixels {
            to.extend(planes.iter().map(|plane| image[plane + pixel]));
        }
        return;
    }
    let columns = between(shape[2], input[2]);
    for row in between(shape[1], input[1]) {
        for column in &columns {
            to.extend(planes.iter().map(|plane| {
                let along = |row: usize| {
                    let at = |column: usize| image[plane + row * width + column];
                    mixed(at(column.first), at(column.second), column.share)
                };
                mixed(along(row.first), along(row.second), row.share)
            }));
        }
    }
}

fn mixed(first: f32, second: f32, share: f32) -> f32 {
    (1.0 - share) * first + share * second
}

/// Returns the position of each of so many outputs among so many inputs.
fn between(inputs: usize, outputs: usize) -> Vec<Between> {
    let scale = inputs as f64 / outputs as f64;
    (0..outputs)
        .map(|output| {
            let place = ((output as f64 + 0.5) * scale - 0.5).max(0.0);
            let first = place as usize;
            Between {
                first,
                second: (first + 1).min(inputs - 1),
                share: (place - first as f64) as f32,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(image: &[f32], shape: [usize; 3], input: [usize; 3]) -> Vec<f32> {
        let mut values = vec![];
        append(image, shape, input, &mut values);
        values
    }

    #[test]
    fn channels_come_last_and_one_is_repeated() {
        let image: Vec<f32> = (0..12).map(|value| value as f32).collect();
        let same = fitted(&image, [3, 2, 2], [3, 2, 2]);
        let expected = [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11].map(|value| value as f32);
        assert_eq!(same, expected);
        let grey = fitted(&image[..4], [1, 2, 2], [3, 2, 2]);
        assert_eq!(
            grey,
            [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3].map(|value| value as f32)
        );
    }

    #[test]
    fn pixels_are_enlarged_between_their_centres() {
        let row = fitted(&[0.0, 8.0], [1, 1, 2], [1, 1, 4]);
        assert_eq!(row, [0.0, 2.0, 6.0, 8.0]);
        let square = fitted(&[0.0, 8.0, 16.0, 24.0], [1, 2, 2], [1, 4, 4]);
        assert_eq!(square[..4], [0.0, 2.0, 6.0, 8.0]);
        assert_eq!(square[4..8], [4.0, 6.0, 10.0, 12.0]);
        assert_eq!(square[12..], [16.0, 18.0, 22.0, 24.0]);
    }

    #[test]
    fn nothing_is_made_smaller_and_no_colours_are_mixed() {
        assert!(fits([1, 28, 28], [3, 224, 224]));
        assert!(fits([3, 32, 32], [3, 32, 32]));
        assert!(!fits([3, 32, 32], [1, 32, 32]));
        assert!(!fits([1, 32, 32], [1, 28, 28]));
        assert!(!fits([1, 0, 32], [3, 32, 32]));
    }
}
