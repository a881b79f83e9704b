use std::sync::LazyLock;

use epochcost_architectures::{Layers, Model};

/// What a model needs and weighs, computed from its layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelSizes {
    /// The model's name.
    pub name: &'static str,
    /// Name as papers write it.
    pub title: &'static str,
    /// The definition that it follows, in one line.
    pub about: &'static str,
    /// Channels, height and width of the images that its first layer reads.
    pub input: [usize; 3],
    /// Classes of its head, at least those of the dataset.
    pub classes: usize,
    /// Trainable scalars (n) and batch-norm statistics.
    pub sizes: crate::Sizes,
    /// Trainable tensors.
    pub tensors: usize,
}

impl ModelSizes {
    fn new(model: &Model) -> Self {
        let layers = model.layers();
        Self {
            name: model.name,
            title: model.title,
            about: model.about,
            input: model.input,
            classes: model.classes,
            sizes: sizes(&layers),
            tensors: layers.trainable().len(),
        }
    }

    /// Returns its sizes with a head of so many classes.
    pub fn with_classes(&self, classes: usize) -> crate::Sizes {
        let mut models = epochcost_architectures::models().iter();
        let model = models.find(|model| model.name == self.name);
        model.map_or(self.sizes, |model| sizes(&(model.with_classes)(classes)))
    }

    /// Returns whether it can train on a dataset's images (channels, height, width) of so
    /// many classes.
    ///
    /// Images that are smaller than the model's input are enlarged to it by bilinear
    /// interpolation, and a single channel is repeated; nothing is made smaller, and
    /// colours are not mixed. Labels may leave classes of the head unused.
    pub fn takes(&self, images: [usize; 3], classes: usize) -> bool {
        let [channels, height, width] = self.input;
        let fits = images[0] == channels || images[0] == 1;
        fits && images[1] <= height && images[2] <= width && classes <= self.classes
    }
}

fn sizes(layers: &Layers) -> crate::Sizes {
    crate::Sizes {
        parameters: layers.parameters(),
        statistics: layers.statistics(),
    }
}

/// Returns the sizes of every model that is described in `epochcost-architectures`.
pub fn models() -> &'static [ModelSizes] {
    static MODELS: LazyLock<Vec<ModelSizes>> = LazyLock::new(|| {
        let models = epochcost_architectures::models().iter();
        models.map(|model| ModelSizes::new(model)).collect()
    });
    &MODELS
}

/// Returns the sizes of the model of that name.
pub fn find_model(name: &str) -> Option<&'static ModelSizes> {
    models().iter().find(|model| model.name == name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn images_may_be_enlarged_but_not_reduced_or_mixed() {
        let (mnist, cifar) = ([1, 28, 28], [3, 32, 32]);
        for model in models() {
            let is_grey = model.input[0] == 1;
            assert!(model.takes(mnist, 10), "{}", model.name);
            assert_eq!(model.takes(cifar, 10), !is_grey, "{}", model.name);
            assert!(!model.takes(mnist, 1_001), "{}", model.name);
        }
        let lenet5 = find_model("lenet5").unwrap();
        assert!(!lenet5.takes([1, 32, 32], 10));
    }
}
