//! Models as the tensors that frameworks store them in: PyTorch's state
//! dictionaries, whose entries are the trainable tensors and, of each batch
//! norm, a mean, a variance and a counter of batches.

use crate::Sizes;

/// What an entry of a state dictionary holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Trainable scalars.
    Parameters,
    /// A running mean or variance of a batch norm.
    Statistics,
    /// How many batches a batch norm has seen.
    Counter,
}

/// An entry of a state dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it holds.
    pub kind: EntryKind,
    /// How many elements it has.
    pub elements: usize,
}

/// The entries of a model's state dictionary in order; parameters and
/// statistics follow each other there as in their flat vectors.
///
/// A model that is known by its sizes only counts as one tensor of
/// parameters, and one batch norm if it has statistics.
pub fn state_dict(model: &str, sizes: Sizes) -> Vec<Entry> {
    let entries = known(model).unwrap_or_default().entries;
    match Sums::of(&entries).is(sizes) {
        true => entries,
        false => unknown(sizes),
    }
}

fn known(model: &str) -> Option<Layers> {
    let layers = Layers::default();
    Some(match model {
        "lenet5" => layers
            .biased_convolution(1, 6, 5)
            .biased_convolution(6, 16, 5)
            .linear(400, 120)
            .linear(120, 84)
            .linear(84, 10),
        "mobilenet" => mobilenet(layers),
        "resnet18" => resnet(layers, [2, 2, 2, 2]),
        "resnet34" => resnet(layers, [3, 4, 6, 3]),
        "resnet32" => small_resnet(layers),
        "resnet50" => bottlenecks(layers),
        "squeezenet1_1" => squeezenet(layers),
        "mobilenet_v3_small" => mobilenet_v3_small(layers),
        "vgg11" | "vgg11_at_32" => vgg11(layers, 1_000),
        "vgg11_10_classes" => vgg11(layers, 10),
        "vgg11_cifar" => VGG11
            .into_iter()
            .fold(layers, |layers, (inputs, outputs)| {
                layers.biased_convolution(inputs, outputs, 3).norm(outputs)
            })
            .linear(512, 10),
        crate::testing::MODEL => layers.linear(5, 5).tensor(7).unlearned_norm(3),
        _ => return None,
    })
}

fn unknown(sizes: Sizes) -> Vec<Entry> {
    let mut layers = Layers::default().tensor(sizes.parameters);
    if sizes.statistics > 0 {
        let mean = sizes.statistics / 2;
        layers = layers.statistics(mean, sizes.statistics - mean);
    }
    layers.entries
}

/// Howard et al. 2017 with the strides of its CIFAR variant: a stem, thirteen
/// pairs of a depthwise and a 1×1 convolution, one linear layer.
fn mobilenet(layers: Layers) -> Layers {
    const WIDTHS: [usize; 13] = [
        64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024,
    ];
    let mut layers = layers.normed(3, 32, 3);
    let mut inputs = 32;
    for outputs in WIDTHS {
        layers = layers.normed(1, inputs, 3).normed(inputs, outputs, 1);
        inputs = outputs;
    }
    layers.linear(inputs, 10)
}

/// He et al. 2016 with a 3×3 stem: so many blocks of two convolutions a stage.
fn resnet(layers: Layers, stages: [usize; 4]) -> Layers {
    let mut layers = layers.normed(3, 64, 3);
    let mut inputs = 64;
    for (blocks, outputs) in stages.into_iter().zip([64, 128, 256, 512]) {
        for _ in 0..blocks {
            layers = layers
                .normed(inputs, outputs, 3)
                .normed(outputs, outputs, 3);
            if inputs != outputs {
                layers = layers.normed(inputs, outputs, 1);
            }
            inputs = outputs;
        }
    }
    layers.linear(512, 10)
}

/// He et al. 2016, §4.2: three stages of five blocks, shortcuts of option A.
fn small_resnet(layers: Layers) -> Layers {
    let mut layers = layers.normed(3, 16, 3);
    let mut inputs = 16;
    for outputs in [16, 32, 64] {
        for _ in 0..5 {
            layers = layers
                .normed(inputs, outputs, 3)
                .normed(outputs, outputs, 3);
            inputs = outputs;
        }
    }
    layers.linear(64, 10)
}

/// torchvision's ResNet-50.
fn bottlenecks(layers: Layers) -> Layers {
    let mut layers = layers.normed(3, 64, 7);
    let mut inputs = 64;
    for (blocks, width) in [(3, 64), (4, 128), (6, 256), (3, 512)] {
        let outputs = 4 * width;
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
    layers.linear(2048, 10)
}

/// torchvision's SqueezeNet 1.1: a stem, eight fire modules, a 1×1 convolution.
fn squeezenet(layers: Layers) -> Layers {
    const FIRES: [(usize, usize, usize); 8] = [
        (64, 16, 64),
        (128, 16, 64),
        (128, 32, 128),
        (256, 32, 128),
        (256, 48, 192),
        (384, 48, 192),
        (384, 64, 256),
        (512, 64, 256),
    ];
    let stem = layers.biased_convolution(3, 64, 3);
    let fires = FIRES
        .into_iter()
        .fold(stem, |layers, (inputs, squeezed, expanded)| {
            layers
                .biased_convolution(inputs, squeezed, 1)
                .biased_convolution(squeezed, expanded, 1)
                .biased_convolution(squeezed, expanded, 3)
        });
    fires.biased_convolution(512, 10, 1)
}

/// torchvision's MobileNet V3 Small.
fn mobilenet_v3_small(layers: Layers) -> Layers {
    // Kernel size, expanded and output channels, channels of squeeze and excitation.
    const BLOCKS: [(usize, usize, usize, usize); 11] = [
        (3, 16, 16, 8),
        (3, 72, 24, 0),
        (3, 88, 24, 0),
        (5, 96, 40, 24),
        (5, 240, 40, 64),
        (5, 240, 40, 64),
        (5, 120, 48, 32),
        (5, 144, 48, 40),
        (5, 288, 96, 72),
        (5, 576, 96, 144),
        (5, 576, 96, 144),
    ];
    let mut layers = layers.normed(3, 16, 3);
    let mut inputs = 16;
    for (size, expanded, outputs, squeezed) in BLOCKS {
        if expanded != inputs {
            layers = layers.normed(inputs, expanded, 1);
        }
        layers = layers.normed(1, expanded, size);
        if squeezed > 0 {
            layers = layers
                .biased_convolution(expanded, squeezed, 1)
                .biased_convolution(squeezed, expanded, 1);
        }
        layers = layers.normed(expanded, outputs, 1);
        inputs = outputs;
    }
    layers
        .normed(inputs, 576, 1)
        .linear(576, 1024)
        .linear(1024, 10)
}

/// Channels of VGG-11's convolutions.
const VGG11: [(usize, usize); 8] = [
    (3, 64),
    (64, 128),
    (128, 256),
    (256, 256),
    (256, 512),
    (512, 512),
    (512, 512),
    (512, 512),
];

/// torchvision's VGG-11, whatever the size of its images.
fn vgg11(layers: Layers, classes: usize) -> Layers {
    VGG11
        .into_iter()
        .fold(layers, |layers, (inputs, outputs)| {
            layers.biased_convolution(inputs, outputs, 3)
        })
        .linear(512 * 7 * 7, 4096)
        .linear(4096, 4096)
        .linear(4096, classes)
}

/// Layers put one after another.
#[derive(Default)]
struct Layers {
    entries: Vec<Entry>,
}

impl Layers {
    fn entry(mut self, kind: EntryKind, elements: usize) -> Self {
        self.entries.push(Entry { kind, elements });
        self
    }

    fn tensor(self, elements: usize) -> Self {
        self.entry(EntryKind::Parameters, elements)
    }

    /// Without a bias; a depthwise one has one input channel.
    fn convolution(self, inputs: usize, outputs: usize, size: usize) -> Self {
        self.tensor(inputs * outputs * size * size)
    }

    fn biased_convolution(self, inputs: usize, outputs: usize, size: usize) -> Self {
        self.convolution(inputs, outputs, size).tensor(outputs)
    }

    fn linear(self, inputs: usize, outputs: usize) -> Self {
        self.tensor(inputs * outputs).tensor(outputs)
    }

    fn statistics(self, mean: usize, variance: usize) -> Self {
        self.entry(EntryKind::Statistics, mean)
            .entry(EntryKind::Statistics, variance)
            .entry(EntryKind::Counter, 1)
    }

    /// A batch norm without scale and shift.
    fn unlearned_norm(self, channels: usize) -> Self {
        self.statistics(channels, channels)
    }

    fn norm(self, channels: usize) -> Self {
        self.tensor(channels)
            .tensor(channels)
            .unlearned_norm(channels)
    }

    /// A convolution followed by a batch norm.
    fn normed(self, inputs: usize, outputs: usize, size: usize) -> Self {
        self.convolution(inputs, outputs, size).norm(outputs)
    }
}

/// Elements of the entries of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) parameters: Kind,
    pub(crate) statistics: Kind,
    pub(crate) counters: Kind,
}

/// Entries of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) entries: u64,
    pub(crate) elements: u64,
}

impl Sums {
    pub(crate) fn of(entries: &[Entry]) -> Self {
        let mut sums = Self::default();
        for entry in entries {
            let kind = match entry.kind {
                EntryKind::Parameters => &mut sums.parameters,
                EntryKind::Statistics => &mut sums.statistics,
                EntryKind::Counter => &mut sums.counters,
            };
            kind.entries += 1;
            kind.elements += entry.elements as u64;
        }
        sums
    }

    fn is(&self, sizes: Sizes) -> bool {
        let found = (self.parameters.elements, self.statistics.elements);
        found == (sizes.parameters as u64, sizes.statistics as u64)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{find_model, testing};

    /// Entries and bytes as the models' reference definitions give them.
    #[test]
    fn state_dictionaries_have_the_known_sizes() {
        for (model, entries, bytes) in [
            ("mobilenet", 164, 12_956_564),
            ("resnet18", 122, 44_734_328),
            ("lenet5", 10, 4 * 61_706),
        ] {
            let dict = state_dict(model, find_model(model).unwrap().sizes);
            let elements: usize = dict.iter().map(|entry| entry.elements).sum();
            assert_eq!((dict.len(), 4 * elements), (entries, bytes), "{model}");
        }
    }

    #[test]
    fn every_model_is_known_tensor_by_tensor() {
        for model in crate::models() {
            let sums = Sums::of(&known(model.name).unwrap().entries);
            assert!(sums.is(model.sizes), "{}: {sums:?}", model.name);
            assert_eq!(sums.parameters.entries, model.tensors as u64);
        }
        assert!(Sums::of(&known(testing::MODEL).unwrap().entries).is(testing::SIZES));
    }

    #[test]
    fn a_model_known_by_its_sizes_is_one_tensor_and_one_norm() {
        let sizes = Sizes {
            parameters: 12,
            statistics: 5,
        };
        let elements = |model| -> Vec<usize> {
            let dict = state_dict(model, sizes);
            dict.iter().map(|entry| entry.elements).collect()
        };
        assert_eq!(elements("mine"), [12, 2, 3, 1]);
        // A description of that name and of other sizes is another model.
        assert_eq!(elements("resnet18"), [12, 2, 3, 1]);
    }
}
