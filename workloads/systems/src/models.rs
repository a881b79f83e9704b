/// What a model needs and weighs, known without linking it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelSizes {
    /// The model's name.
    pub name: &'static str,
    /// Channels, height and width of one image.
    pub input: [usize; 3],
    /// Classes.
    pub classes: usize,
    /// Trainable scalars (n) and batch-norm statistics.
    pub sizes: crate::Sizes,
    /// Trainable tensors.
    pub tensors: usize,
}

const fn model(
    name: &'static str,
    input: [usize; 3],
    parameters: usize,
    statistics: usize,
    tensors: usize,
) -> ModelSizes {
    ModelSizes {
        name,
        input,
        classes: 10,
        sizes: crate::Sizes {
            parameters,
            statistics,
        },
        tensors,
    }
}

/// Every model. The worker's tests hold these against the models themselves.
pub fn models() -> &'static [ModelSizes] {
    // Batch-norm statistics are two (mean, variance) for each normalised channel.
    const MODELS: [ModelSizes; 3] = [
        model("lenet5", [1, 28, 28], 61_706, 0, 10),
        model("mobilenet", [3, 32, 32], 3_217_226, 21_888, 83),
        model("resnet18", [3, 32, 32], 11_173_962, 9_600, 62),
    ];
    &MODELS
}

/// The model of that name.
pub fn find_model(name: &str) -> Option<&'static ModelSizes> {
    models().iter().find(|model| model.name == name)
}
