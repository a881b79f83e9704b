//! Residual networks (He et al. 2016): of basic blocks, and of bottlenecks.

use crate::{Layers, Model};

/// ResNet-18 for 32×32 images.
pub static RESNET18: Model = Model {
    name: "resnet18",
    title: "ResNet-18",
    about: "He et al. 2016, with a 3x3 stem and no max-pool",
    input: Model::CIFAR,
    classes: 10,
    with_classes: |classes| LAYOUT18.layers(classes),
};

/// ResNet-32: a shortcut that changes the shape takes every second pixel and adds channels
/// of zeros (option A), which has no parameters.
pub static RESNET32: Model = Model {
    name: "resnet32",
    title: "ResNet-32",
    about: "He et al. 2016, §4.2, for CIFAR-10, with shortcuts of option A",
    with_classes: |classes| LAYOUT32.layers(classes),
    ..RESNET18
};

/// ResNet-34 for 32×32 images.
pub static RESNET34: Model = Model {
    name: "resnet34",
    title: "ResNet-34",
    with_classes: |classes| LAYOUT34.layers(classes),
    ..RESNET18
};

/// ResNet-50 as torchvision defines it.
pub static RESNET50: Model = Model {
    name: "resnet50",
    title: "ResNet-50",
    about: "torchvision: 7x7 stem and max-pool, strides in the 3x3 convolutions",
    with_classes: |classes| LAYOUT50.layers(classes),
    ..RESNET18
};

/// First convolution of a residual network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stem {
    /// 3×3, for images of 32×32 pixels.
    Cifar,
    /// 7×7 of stride 2 and a max-pool, for images of 224×224 pixels.
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

/// A residual network.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// First convolution.
    pub stem: Stem,
    /// Inner channels and blocks of each stage; the first block of each stage but the first has
    /// stride 2. The stem has as many output channels as the first stage has inner ones.
    pub stages: &'static [(usize, usize)],
    /// Output channels of a block for each of its inner ones: 1 in basic blocks of two 3×3
    /// convolutions, 4 in bottlenecks of a 1×1, a 3×3 and a 1×1 one.
    pub expansion: usize,
    /// Shortcuts of the blocks that change the shape.
    pub shortcut: Shortcut,
}

/// ResNet-18 (Table 1).
pub const LAYOUT18: Layout = Layout {
    stem: Stem::Cifar,
    stages: &[(64, 2), (128, 2), (256, 2), (512, 2)],
    expansion: 1,
    shortcut: Shortcut::Projected,
};

/// ResNet-34 (Table 1).
pub const LAYOUT34: Layout = Layout {
    stages: &[(64, 3), (128, 4), (256, 6), (512, 3)],
    ..LAYOUT18
};

/// ResNet-32 (§4.2, n = 5).
pub const LAYOUT32: Layout = Layout {
    stages: &[(16, 5), (32, 5), (64, 5)],
    shortcut: Shortcut::Padded,
    ..LAYOUT18
};

/// ResNet-50 (Table 1).
pub const LAYOUT50: Layout = Layout {
    stem: Stem::ImageNet,
    expansion: 4,
    ..LAYOUT34
};

impl Layout {
    /// Returns the output channels of the stem.
    #[must_use]
    pub const fn width(self) -> usize {
        self.stages[0].0
    }

    /// Returns the kernel, the input and the output channels of each convolution of a block.
    #[must_use]
    pub fn block(self, inputs: usize, width: usize) -> Vec<(usize, [usize; 2])> {
        match self.expansion {
            1 => vec![(3, [inputs, width]), (3, [width, width])],
            expansion => vec![
                (1, [inputs, width]),
                (3, [width, width]),
                (1, [width, expansion * width]),
            ],
        }
    }

    /// Returns the layers: the stem, the blocks, one linear layer.
    #[must_use]
    pub fn layers(self, classes: usize) -> Layers {
        let mut inputs = self.width();
        let mut layers = Layers::new().normed(3, inputs, self.stem.kernel());
        for &(width, blocks) in self.stages {
            for _ in 0..blocks {
                for (kernel, [inputs, outputs]) in self.block(inputs, width) {
                    layers = layers.normed(inputs, outputs, kernel);
                }
                let outputs = self.expansion * width;
                if inputs != outputs && self.shortcut == Shortcut::Projected {
                    layers = layers.normed(inputs, outputs, 1);
                }
                inputs = outputs;
            }
        }
        layers.linear(inputs, classes)
    }
}
