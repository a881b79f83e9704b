//! LeNet-5 (LeCun et al. 1998), with padded 5×5 convolutions, ReLU and max-pools.

use crate::{Layers, Model};

/// LeNet-5 for MNIST.
pub static LENET5: Model = Model {
    name: "lenet5",
    title: "LeNet-5",
    about: "LeCun et al. 1998, with ReLU and max-pools",
    input: [1, 28, 28],
    classes: 10,
    with_classes: lenet5,
};

fn lenet5(classes: usize) -> Layers {
    Layers::new()
        .convolution(1, 6, 5)
        .convolution(6, 16, 5)
        .linear(16 * 5 * 5, 120)
        .linear(120, 84)
        .linear(84, classes)
}
