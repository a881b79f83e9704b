//! Residual networks (He et al. 2016): of basic blocks, and of bottlenecks.

use crate::{Layers, Model};

/// ResNet-18 for 32×32 images.
pub static RESNET18: Model = Model {
    name: "resnet18",
    title: "ResNet-18",
    about: "He et al. 2016, with a 3x3 stem and no max-pool",
    input: Model::CIFAR,
    classes: 10,
    with_classes: |classes| BASIC18.layers(Stem::Cifar, classes),
};

/// ResNet-32: a shortcut that changes the shape takes every second pixel and adds channels
/// of zeros (option A), which has no parameters.
pub static RESNET32: Model = Model {
    name: "resnet32",
    title: "ResNet-32",
    about: "He et al. 2016, §4.2, for CIFAR-10, with shortcuts of option A",
    input: Model::CIFAR,
    classes: 10,
    with_classes: |classes| BASIC32.layers(Stem::Cifar, classes),
};

/// ResNet-34 for 32×32 images.
pub static RESNET34: Model = Model {
    name: "resnet34",
    title: "ResNet-34",
    about: "He et al. 2016, with a 3x3 stem and no max-pool",
    input: Model::CIFAR,
    classes: 10,
    with_classes: |classes| BASIC34.layers(Stem::Cifar, classes),
};

/// ResNet-50 as torchvision defines it.
pub static RESNET50: Model = Model {
    name: "resnet50",
    title: "ResNet-50",
    about: "torchvision: 7x7 stem and max-pool, strides in the 3x3 convolutions",
    input: Model::CIFAR,
    classes: 10,
    with_classes: |classes| resnet50(Stem::ImageNet, classes),
};

/// First convolution of a residual network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stem {
    /// 3×3, for images of 32×32 pixels.
    Cifar,
    /// 7×7 of stride 2, for images of 224×224 pixels.
    ImageNet,
}

impl Stem {
    /// Returns height and width of its kernel.
    #[must_use]
    pub const fn kernel(self) -> usize {
        match self {
            Self::Cifar => 3,
            Self::ImageNet => 7,
        }
    }
}

/// Change of shape in a shortcut, where its block changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortcut {
    /// Channels of zeros, and every second pixel: option A of He et al.
    Padded,
    /// A 1×1 convolution and its batch norm: option B.
    Projected,
}

/// A residual network of basic blocks.
#[derive(Clone, Copy, Debug)]
pub struct Basic {
    /// Channels and blocks of each stage; the first block of each stage but the first has
    /// stride 2.
    pub stages: &'static [(usize, usize)],
    /// Shortcuts of the blocks that change the shape.
    pub shortcut: Shortcut,
}

/// Stages of ResNet-18 (Table 1).
pub const BASIC18: Basic = Basic {
    stages: &[(64, 2), (128, 2), (256, 2), (512, 2)],
    shortcut: Shortcut::Projected,
};

/// Stages of ResNet-34 (Table 1).
pub const BASIC34: Basic = Basic {
    stages: &[(64, 3), (128, 4), (256, 6), (512, 3)],
    shortcut: Shortcut::Projected,
};

/// Stages of ResNet-32 (§4.2, n = 5).
pub const BASIC32: Basic = Basic {
    stages: &[(16, 5), (32, 5), (64, 5)],
    shortcut: Shortcut::Padded,
};

impl Basic {
    /// Returns the layers: the stem, the blocks of two 3×3 convolutions, one linear layer.
    #[must_use]
    pub fn layers(self, stem: Stem, classes: usize) -> Layers {
        let mut inputs = self.stages.first().map_or(0, |(channels, _)| *channels);
        let mut layers = Layers::new().normed(3, inputs, stem.kernel());
        for &(outputs, blocks) in self.stages {
            for _ in 0..blocks {
                layers = layers
                    .normed(inputs, outputs, 3)
                    .normed(outputs, outputs, 3);
                if inputs != outputs && self.shortcut == Shortcut::Projected {
                    layers = layers.normed(inputs, outputs, 1);
                }
                inputs = outputs;
            }
        }
        layers.linear(inputs, classes)
    }
}

/// Output channels of a bottleneck for each of its inner ones.
pub const EXPANSION: usize = 4;

/// Output channels of the stem of ResNet-50.
pub const BOTTLENECK_STEM: usize = 64;

/// Inner channels and bottlenecks of each stage of ResNet-50 (Table 1); the first of each
/// stage but the first has stride 2.
pub const BOTTLENECKS: [(usize, usize); 4] = [(64, 3), (128, 4), (256, 6), (512, 3)];

/// Returns the layers of ResNet-50: the stem, bottlenecks of a 1×1, a 3×3 and a 1×1
/// convolution, one linear layer.
#[must_use]
pub fn resnet50(stem: Stem, classes: usize) -> Layers {
    let mut inputs = BOTTLENECK_STEM;
    let mut layers = Layers::new().normed(3, inputs, stem.kernel());
    for (width, blocks) in BOTTLENECKS {
        let outputs = EXPANSION * width;
        for _ in 0..blocks {
            layers = layers
                .normed(inputs, width, 1)
                .normed(width, width, 3)
                .normed(width, outputs, 1);
            if inputs != outputs {
                layers = layers.normed(inputs, outputs, 1);
            }
            inputs = outputs;
        }
    }
    layers.linear(inputs, classes)
}
