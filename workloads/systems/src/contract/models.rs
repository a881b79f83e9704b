/// What a model needs and weighs, known without linking it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelSizes {
    /// The model's name.
    pub name: &'static str,
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
    /// Whether it can train on a dataset's images (channels, height, width) of so many
    /// classes.
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

const fn model(
    name: &'static str,
    about: &'static str,
    input: [usize; 3],
    parameters: usize,
    statistics: usize,
    tensors: usize,
) -> ModelSizes {
    ModelSizes {
        name,
        about,
        input,
        classes: 10,
        sizes: crate::Sizes {
            parameters,
            statistics,
        },
        tensors,
    }
}

/// The same with another number of classes, which `parameters` counts already.
const fn of_classes(model: ModelSizes, classes: usize) -> ModelSizes {
    ModelSizes { classes, ..model }
}

/// Every model. The worker's tests hold these against the models themselves.
///
/// Counts are those of the definitions named, with PyTorch's tensors: a batch norm has two
/// trainable ones, and two statistics (mean, variance) for each normalised channel.
pub fn models() -> &'static [ModelSizes] {
    /// Images of CIFAR-10.
    const CIFAR: [usize; 3] = [3, 32, 32];
    /// Images of ImageNet.
    const IMAGENET: [usize; 3] = [3, 224, 224];
    const MODELS: [ModelSizes; 12] = [
        model(
            "lenet5",
            "LeCun et al. 1998, with ReLU and max-pools",
            [1, 28, 28],
            61_706,
            0,
            10,
        ),
        model(
            "mobilenet",
            "Howard et al. 2017, with the strides of its CIFAR variant",
            CIFAR,
            3_217_226,
            21_888,
            83,
        ),
        model(
            "resnet18",
            "He et al. 2016, with a 3x3 stem and no max-pool",
            CIFAR,
            11_173_962,
            9_600,
            62,
        ),
        // A shortcut that changes the shape takes every second pixel and adds channels of
        // zeros: option A, which has no parameters.
        model(
            "resnet32",
            "He et al. 2016, §4.2, for CIFAR-10, with shortcuts of option A",
            CIFAR,
            464_154,
            2_272,
            95,
        ),
        model(
            "resnet34",
            "He et al. 2016, with a 3x3 stem and no max-pool",
            CIFAR,
            21_282_122,
            17_024,
            110,
        ),
        model(
            "resnet50",
            "torchvision: 7x7 stem and max-pool, strides in the 3x3 convolutions",
            CIFAR,
            23_528_522,
            53_120,
            161,
        ),
        model(
            "squeezenet1_1",
            "torchvision: Iandola et al. 2016, version 1.1",
            CIFAR,
            727_626,
            0,
            52,
        ),
        model(
            "mobilenet_v3_small",
            "torchvision: Howard et al. 2019",
            CIFAR,
            1_528_106,
            12_112,
            142,
        ),
        of_classes(
            model(
                "vgg11",
                "torchvision: Simonyan and Zisserman 2015, head of 1,000 classes",
                IMAGENET,
                132_863_336,
                0,
                22,
            ),
            1_000,
        ),
        model(
            "vgg11_10_classes",
            "vgg11 with a head of ten classes",
            IMAGENET,
            128_807_306,
            0,
            22,
        ),
        // The adaptive pool before the head makes 7x7 of any size: the parameters of the
        // 224x224 form at a 27th of its multiplications.
        of_classes(
            model(
                "vgg11_at_32",
                "vgg11 on images of 32x32: as many parameters, a 27th of the operations",
                CIFAR,
                132_863_336,
                0,
                22,
            ),
            1_000,
        ),
        model(
            "vgg11_cifar",
            "VGG-11 with batch norm and one linear layer, for 32x32",
            CIFAR,
            9_231_114,
            5_504,
            34,
        ),
    ];
    &MODELS
}

/// The model of that name.
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
