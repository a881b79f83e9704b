//! Trainable scalars of the networks in the papers, counted layer by layer from
//! their reference definitions.

/// A layer with trainable scalars.
#[derive(Clone, Copy, Debug)]
enum Layer {
    /// A square convolution; `groups` divides its input channels.
    Convolution {
        from: u64,
        to: u64,
        side: u64,
        groups: u64,
        bias: bool,
    },
    /// Scale and shift of each channel.
    BatchNorm { channels: u64 },
    /// A matrix and a bias.
    Linear { from: u64, to: u64 },
}

impl Layer {
    fn parameters(self) -> u64 {
        match self {
            Self::Convolution {
                from,
                to,
                side,
                groups,
                bias,
            } => from / groups * to * side * side + if bias { to } else { 0 },
            Self::BatchNorm { channels } => 2 * channels,
            Self::Linear { from, to } => (from + 1) * to,
        }
    }
}

fn count(layers: &[Layer]) -> u64 {
    layers.iter().map(|layer| layer.parameters()).sum()
}

/// Returns a convolution without bias and its batch norm.
fn normalised(from: u64, to: u64, side: u64, groups: u64) -> [Layer; 2] {
    let convolution = Layer::Convolution {
        from,
        to,
        side,
        groups,
        bias: false,
    };
    [convolution, Layer::BatchNorm { channels: to }]
}

/// The first convolution of a residual network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stem {
    /// 3 × 3, for images of 32 × 32 pixels.
    Cifar,
    /// 7 × 7, for images of 224 × 224 pixels.
    ImageNet,
}

impl Stem {
    fn side(self) -> u64 {
        match self {
            Self::Cifar => 3,
            Self::ImageNet => 7,
        }
    }
}

/// Counts MobileNet (Howard et al. 2017, Table 1) with a head of that many
/// classes. Sizes of images and strides change no count.
pub(super) fn mobilenet(classes: u64) -> u64 {
    const WIDTHS: [u64; 14] = [
        32, 64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024,
    ];
    let mut layers = normalised(3, 32, 3, 1).to_vec();
    for pair in WIDTHS.windows(2) {
        layers.extend(normalised(pair[0], pair[0], 3, pair[0]));
        layers.extend(normalised(pair[0], pair[1], 1, 1));
    }
    layers.push(Layer::Linear {
        from: 1024,
        to: classes,
    });
    count(&layers)
}

/// Counts ResNet-18 (He et al. 2016, Table 1): two basic blocks at each width.
pub(super) fn resnet18(stem: Stem, classes: u64) -> u64 {
    let mut layers = normalised(3, 64, stem.side(), 1).to_vec();
    let mut from = 64;
    for width in [64, 128, 256, 512] {
        for _ in 0..2 {
            layers.extend(normalised(from, width, 3, 1));
            layers.extend(normalised(width, width, 3, 1));
            if from != width {
                layers.extend(normalised(from, width, 1, 1));
            }
            from = width;
        }
    }
    layers.push(Layer::Linear {
        from: 512,
        to: classes,
    });
    count(&layers)
}

/// Counts ResNet-50 (He et al. 2016, Table 1): bottlenecks of four times their
/// width.
pub(super) fn resnet50(stem: Stem, classes: u64) -> u64 {
    let mut layers = normalised(3, 64, stem.side(), 1).to_vec();
    let mut from = 64;
    for (width, blocks) in [(64, 3), (128, 4), (256, 6), (512, 3)] {
        for block in 0..blocks {
            layers.extend(normalised(from, width, 1, 1));
            layers.extend(normalised(width, width, 3, 1));
            layers.extend(normalised(width, 4 * width, 1, 1));
            if block == 0 {
                layers.extend(normalised(from, 4 * width, 1, 1));
            }
            from = 4 * width;
        }
    }
    layers.push(Layer::Linear {
        from: 2048,
        to: classes,
    });
    count(&layers)
}

/// Counts VGG-11 without batch norm (Simonyan and Zisserman 2015, column A),
/// for images of 224 × 224 pixels.
pub(super) fn vgg11(classes: u64) -> u64 {
    const WIDTHS: [u64; 9] = [3, 64, 128, 256, 256, 512, 512, 512, 512];
    let convolutions = WIDTHS.windows(2).map(|pair| Layer::Convolution {
        from: pair[0],
        to: pair[1],
        side: 3,
        groups: 1,
        bias: true,
    });
    let head = [(512 * 7 * 7, 4096), (4096, 4096), (4096, classes)];
    let layers: Vec<Layer> = convolutions
        .chain(head.map(|(from, to)| Layer::Linear { from, to }))
        .collect();
    count(&layers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use epochcost_systems::find_model;

    /// The models of this program are compared with the networks themselves by
    /// the worker's tests.
    #[test]
    fn ten_classes_are_the_models_that_are_trained_here() {
        let known = |name: &str| find_model(name).unwrap().sizes.parameters as u64;
        assert_eq!(mobilenet(10), known("mobilenet"));
        assert_eq!(resnet18(Stem::Cifar, 10), known("resnet18"));
    }

    /// torchvision 0.19, `sum(p.numel() for p in model.parameters())`.
    #[test]
    fn a_thousand_classes_are_the_reference_definitions() {
        assert_eq!(mobilenet(1000), 4_231_976);
        assert_eq!(resnet18(Stem::ImageNet, 1000), 11_689_512);
        assert_eq!(resnet50(Stem::ImageNet, 1000), 25_557_032);
        assert_eq!(vgg11(1000), 132_863_336);
    }
}
