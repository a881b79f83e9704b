//! VGG-11 (Simonyan and Zisserman 2015, configuration A): as torchvision defines it, and
//! with batch norms and one linear layer for 32×32 images.

use crate::{Layers, Model};

/// VGG-11 with torchvision's head.
pub static VGG11: Model = Model {
    name: "vgg11",
    title: "VGG-11",
    about: "torchvision: Simonyan and Zisserman 2015, head of 1,000 classes",
    input: Model::IMAGENET,
    classes: 1_000,
    with_classes: vgg11,
};

/// VGG-11 with a head of ten classes.
pub static VGG11_10_CLASSES: Model = Model {
    name: "vgg11_10_classes",
    title: "VGG-11 (10 classes)",
    about: "vgg11 with a head of ten classes",
    classes: 10,
    ..VGG11
};

/// VGG-11 on smaller images. The adaptive pool before the head makes 7×7 of any size: the
/// parameters of the 224×224 form at a 27th of its multiplications.
pub static VGG11_AT_32: Model = Model {
    name: "vgg11_at_32",
    title: "VGG-11 (32×32)",
    about: "vgg11 on images of 32x32: as many parameters, a 27th of the operations",
    input: Model::CIFAR,
    ..VGG11
};

/// VGG-11 with batch norms and a small head.
pub static VGG11_CIFAR: Model = Model {
    name: "vgg11_cifar",
    title: "VGG-11 (batch norm)",
    about: "VGG-11 with batch norm and one linear layer, for 32x32",
    input: Model::CIFAR,
    classes: 10,
    with_classes: vgg11_cifar,
};

/// Output channels of each 3×3 convolution, and whether a max-pool follows.
pub const CONVOLUTIONS: [(usize, bool); 8] = [
    (64, true),
    (128, true),
    (256, false),
    (256, true),
    (512, false),
    (512, true),
    (512, false),
    (512, true),
];

/// Rows and columns that torchvision's classifier reads.
pub const SIDE: usize = 7;

/// Values of each hidden layer of torchvision's classifier.
pub const HIDDEN: usize = 4096;

/// Returns the layers of torchvision's VGG-11, whatever the size of its images.
#[must_use]
pub fn vgg11(classes: usize) -> Layers {
    let (layers, channels) = convolutions(Layers::convolution);
    layers
        .linear(channels * SIDE * SIDE, HIDDEN)
        .linear(HIDDEN, HIDDEN)
        .linear(HIDDEN, classes)
}

fn vgg11_cifar(classes: usize) -> Layers {
    let (layers, channels) = convolutions(|layers, inputs, outputs, kernel| {
        layers.convolution(inputs, outputs, kernel).norm(outputs)
    });
    layers.linear(channels, classes)
}

/// Returns the convolutions, each added by `add`, and their output channels.
fn convolutions(add: fn(Layers, usize, usize, usize) -> Layers) -> (Layers, usize) {
    let mut inputs = 3;
    let mut layers = Layers::new();
    for (outputs, _) in CONVOLUTIONS {
        layers = add(layers, inputs, outputs, 3);
        inputs = outputs;
    }
    (layers, inputs)
}
