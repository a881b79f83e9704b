//! Where windows lie over images: what a tap of an output sees, and who sees a pixel.

use cubecl::prelude::*;

/// A value of features `[batch, height, width, channels]`.
#[derive(CubeType)]
pub(super) struct Place {
    image: usize,
    y: usize,
    x: usize,
    pub(super) channel: usize,
}

/// A pixel by its row in `[batch · height · width, channels]`, where there is one.
#[derive(CubeType)]
pub(super) struct Pixel {
    pub(super) row: usize,
    pub(super) is_there: bool,
}

/// Of a value by its position in features whose pixels are `height` × `width`.
#[cube]
pub(super) fn place(position: usize, height: usize, width: usize, channels: usize) -> Place {
    let row = position / channels;
    Place {
        image: row / (height * width),
        y: (row / width) % height,
        x: row % width,
        channel: position % channels,
    }
}

/// The pixel of the images that an output sees through a tap; none in the padding.
#[cube]
pub(super) fn seen(
    images: &Tensor<f32>,
    output: &Place,
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
        is_there: y >= padding && y < height + padding && x >= padding && x < width + padding,
    }
}

/// The output, of `height` × `width` an image, that sees a pixel of the images through a tap.
#[cube]
pub(super) fn seer(
    pixel: &Place,
    height: usize,
    width: usize,
    tap_y: usize,
    tap_x: usize,
    #[comptime] stride: usize,
    #[comptime] padding: usize,
) -> Pixel {
    // Below 0 these wrap, and are not looked at.
    let y = pixel.y + padding - tap_y;
    let x = pixel.x + padding - tap_x;
    let (output_y, output_x) = (y / stride, x / stride);
    Pixel {
        row: (pixel.image * height + output_y) * width + output_x,
        is_there: pixel.y + padding >= tap_y
            && pixel.x + padding >= tap_x
            && output_y * stride == y
            && output_x * stride == x
            && output_y < height
            && output_x < width,
    }
}
