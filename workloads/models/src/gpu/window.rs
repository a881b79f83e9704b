//! Positions of windows over images: the input that a tap of an output reads, and the output
//! that reads an input through a tap.

use cubecl::prelude::*;

/// Position of a value in features `[batch, height, width, channels]`.
#[derive(CubeType)]
pub(super) struct Position {
    image: usize,
    y: usize,
    x: usize,
    pub(super) channel: usize,
}

/// A pixel by its row in `[batch · height · width, channels]`, which means nothing out of
/// bounds.
#[derive(CubeType)]
pub(super) struct Pixel {
    pub(super) row: usize,
    pub(super) in_bounds: bool,
}

/// Returns the position of the value at a flat index of features whose pixels are `height` ×
/// `width`.
#[cube]
pub(super) fn position(index: usize, height: usize, width: usize, channels: usize) -> Position {
    let row = index / channels;
    Position {
        image: row / (height * width),
        y: (row / width) % height,
        x: row % width,
        channel: index % channels,
    }
}

/// Returns the pixel of the images that an output reads through a tap; out of bounds in the
/// padding.
#[cube]
pub(super) fn input_position(
    images: &Tensor<f32>,
    output: &Position,
    tap_y: usize,
    tap_x: usize,
    #[comptime] stride: usize,
    #[comptime] padding: usize,
) -> Pixel {
    let (height, width) = (images.shape(1), images.shape(2));
    let y = output.y * stride + tap_y;
    let x = output.x * stride + tap_x;
    Pixel {
        row: (output.image * height + y - padding) * width + x - padding,
        in_bounds: y >= padding && y < height + padding && x >= padding && x < width + padding,
    }
}

/// Returns the output, of `height` × `width` per image, that reads a pixel of the images
/// through a tap; out of bounds where none does.
#[cube]
pub(super) fn output_position(
    pixel: &Position,
    height: usize,
    width: usize,
    tap_y: usize,
    tap_x: usize,
    #[comptime] stride: usize,
    #[comptime] padding: usize,
) -> Pixel {
    // Below 0 these wrap, and the pixel is out of bounds.
    let y = pixel.y + padding - tap_y;
    let x = pixel.x + padding - tap_x;
    let (output_y, output_x) = (y / stride, x / stride);
    Pixel {
        row: (pixel.image * height + output_y) * width + output_x,
        in_bounds: pixel.y + padding >= tap_y
            && pixel.x + padding >= tap_x
            && output_y * stride == y
            && output_x * stride == x
            && output_y < height
            && output_x < width,
    }
}
