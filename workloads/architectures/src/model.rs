//! What a model is to everything that does not compute with it.

use crate::Layers;

/// The description of a model.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Name by which experiments choose the model.
    pub name: &'static str,
    /// Name as papers write it.
    pub title: &'static str,
    /// The definition that it follows, in one line.
    pub about: &'static str,
    /// Channels, height and width of the images that its first layer reads.
    pub input: [usize; 3],
    /// Classes of its head, at least those of the dataset.
    pub classes: usize,
    /// Layers for a number of classes.
    pub with_classes: fn(usize) -> Layers,
}

impl Model {
    /// Images of CIFAR-10: channels, height and width.
    pub const CIFAR: [usize; 3] = [3, 32, 32];

    /// Images of ImageNet: channels, height and width.
    pub const IMAGENET: [usize; 3] = [3, 224, 224];

    /// Returns its layers.
    #[must_use]
    pub fn layers(&self) -> Layers {
        (self.with_classes)(self.classes)
    }
}
