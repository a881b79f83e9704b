//! SqueezeNet 1.1 (Iandola et al. 2016) as torchvision defines it.

use crate::{Layers, Model};

/// SqueezeNet 1.1 for 32×32 images.
pub static SQUEEZENET1_1: Model = Model {
    name: "squeezenet1_1",
    title: "SqueezeNet 1.1",
    about: "torchvision: Iandola et al. 2016, version 1.1",
    input: Model::CIFAR,
    classes: 10,
    with_classes: squeezenet,
};

/// Output channels of the 3×3 stem.
pub const STEM: usize = 64;

/// One fire module.
#[derive(Clone, Copy, Debug)]
pub struct Fire {
    /// Channels between its squeezing convolution and the two that expand.
    pub squeezed: usize,
    /// Output channels of each expansion.
    pub expanded: usize,
    /// Whether a max-pool comes before it.
    pub pooled: bool,
}

const fn fire(squeezed: usize, expanded: usize, pooled: bool) -> Fire {
    Fire {
        squeezed,
        expanded,
        pooled,
    }
}

/// The fire modules, in order.
pub const FIRES: [Fire; 8] = [
    fire(16, 64, true),
    fire(16, 64, false),
    fire(32, 128, true),
    fire(32, 128, false),
    fire(48, 192, true),
    fire(48, 192, false),
    fire(64, 256, false),
    fire(64, 256, false),
];

/// Returns the layers: a stem, fire modules of a 1×1 convolution and a 1×1 and a 3×3 one
/// side by side, and a 1×1 convolution for the scores.
fn squeezenet(classes: usize) -> Layers {
    let mut layers = Layers::new().convolution(3, STEM, 3);
    let mut inputs = STEM;
    for fire in &FIRES {
        layers = layers
            .convolution(inputs, fire.squeezed, 1)
            .convolution(fire.squeezed, fire.expanded, 1)
            .convolution(fire.squeezed, fire.expanded, 3);
        inputs = 2 * fire.expanded;
    }
    layers.convolution(inputs, classes, 1)
}
