//! MobileNet V3 Small (Howard et al. 2019, Table 2) as torchvision defines it.

use crate::{Function, Layers, Model};

/// MobileNet V3 Small for 32×32 images.
pub static MOBILENET_V3_SMALL: Model = Model {
    name: "mobilenet_v3_small",
    title: "MobileNetV3-Small",
    about: "torchvision: Howard et al. 2019",
    input: Model::CIFAR,
    classes: 10,
    with_classes: mobilenet_v3_small,
};

/// Output channels of the 3×3 stem.
pub const STEM: usize = 16;

/// Output channels of the last convolution for each of its input channels.
pub const LAST_EXPANSION: usize = 6;

/// Values of the classifier's hidden layer.
pub const HIDDEN: usize = 1024;

/// One inverted residual block.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Height and width of the depthwise kernel.
    pub kernel: usize,
    /// Channels of the depthwise convolution.
    pub expanded: usize,
    /// Output channels.
    pub outputs: usize,
    /// Channels of squeeze-and-excite, 0 without.
    pub squeezed: usize,
    /// The function between its convolutions.
    pub then: Function,
    /// Stride of the depthwise convolution.
    pub stride: usize,
}

const fn block(
    kernel: usize,
    [expanded, outputs, squeezed]: [usize; 3],
    then: Function,
    stride: usize,
) -> Block {
    Block {
        kernel,
        expanded,
        outputs,
        squeezed,
        then,
        stride,
    }
}

/// The blocks in order. Squeezed channels are a quarter of the expanded ones, rounded to a
/// multiple of 8.
pub const BLOCKS: [Block; 11] = {
    use Function::{HardSwish, Relu};
    [
        block(3, [16, 16, 8], Relu, 2),
        block(3, [72, 24, 0], Relu, 2),
        block(3, [88, 24, 0], Relu, 1),
        block(5, [96, 40, 24], HardSwish, 2),
        block(5, [240, 40, 64], HardSwish, 1),
        block(5, [240, 40, 64], HardSwish, 1),
        block(5, [120, 48, 32], HardSwish, 1),
        block(5, [144, 48, 40], HardSwish, 1),
        block(5, [288, 96, 72], HardSwish, 2),
        block(5, [576, 96, 144], HardSwish, 1),
        block(5, [576, 96, 144], HardSwish, 1),
    ]
};

/// Returns the layers of a head with so many classes.
fn mobilenet_v3_small(classes: usize) -> Layers {
    let mut layers = Layers::new().normed(3, STEM, 3);
    let mut inputs = STEM;
    for block in &BLOCKS {
        if block.expanded != inputs {
            layers = layers.normed(inputs, block.expanded, 1);
        }
        layers = layers.normed_depthwise(block.expanded, block.kernel);
        if block.squeezed > 0 {
            layers = excite(layers, block.expanded, block.squeezed);
        }
        layers = layers.normed(block.expanded, block.outputs, 1);
        inputs = block.outputs;
    }
    let features = LAST_EXPANSION * inputs;
    layers
        .normed(inputs, features, 1)
        .linear(features, HIDDEN)
        .linear(HIDDEN, classes)
}

/// Adds squeeze-and-excite: two 1×1 convolutions of the channels' means.
fn excite(layers: Layers, channels: usize, squeezed: usize) -> Layers {
    layers
        .convolution(channels, squeezed, 1)
        .convolution(squeezed, channels, 1)
}
