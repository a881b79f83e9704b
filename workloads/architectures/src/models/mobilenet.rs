//! MobileNet (Howard et al. 2017, Table 1), with the strides of its CIFAR variant.

use crate::{Layers, Model};

/// MobileNet for 32×32 images.
pub static MOBILENET: Model = Model {
    name: "mobilenet",
    title: "MobileNet",
    about: "Howard et al. 2017, with the strides of its CIFAR variant",
    input: Model::CIFAR,
    classes: 10,
    with_classes: mobilenet,
};

/// Output channels of the 3×3 stem.
pub const STEM: usize = 32;

/// Output channels and stride of each block.
pub const BLOCKS: [(usize, usize); 13] = [
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (1024, 2),
    (1024, 1),
];

/// Returns a 3×3 stem, pairs of a depthwise and a 1×1 convolution, and one linear layer.
///
/// Sizes of images and strides change no count.
#[must_use]
pub fn mobilenet(classes: usize) -> Layers {
    let mut layers = Layers::new().normed(3, STEM, 3);
    let mut inputs = STEM;
    for (outputs, _) in BLOCKS {
        layers = layers
            .normed_depthwise(inputs, 3)
            .normed(inputs, outputs, 1);
        inputs = outputs;
    }
    layers.linear(inputs, classes)
}
