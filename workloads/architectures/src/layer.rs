//! Layers with trainable scalars, and the tensors that PyTorch keeps them in.

/// Content of an entry of a state dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Trainable scalars.
    Parameters,
    /// Running mean or variance of a batch norm.
    Statistics,
    /// Number of batches that a batch norm has processed.
    Counter,
}

/// An entry of a state dictionary: one tensor of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// PyTorch's name for it within its layer.
    pub name: &'static str,
    /// Content.
    pub kind: EntryKind,
    /// Length of each dimension; none for a scalar.
    pub shape: Vec<usize>,
}

impl Tensor {
    fn new(name: &'static str, kind: EntryKind, shape: impl Into<Vec<usize>>) -> Self {
        let shape = shape.into();
        Self { name, kind, shape }
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// A function of single values, after a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// The value itself.
    Identity,
    /// The greater of 0 and the value.
    Relu,
    /// `x · min(max(x + 3, 0), 6) / 6` (Howard et al. 2019, §5.2).
    HardSwish,
}

/// A layer that has trainable scalars. Poolings and activations have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Convolution with a square kernel.
    Convolution {
        /// Input channels.
        inputs: usize,
        /// Output channels.
        outputs: usize,
        /// Height and width of the kernel.
        kernel: usize,
        /// Groups that divide the input channels.
        groups: usize,
        /// Whether each output channel has a bias.
        bias: bool,
    },
    /// Batch norm with a scale and a shift of each channel.
    BatchNorm {
        /// Normalised channels.
        channels: usize,
    },
    /// Fully connected layer with a bias.
    Linear {
        /// Input values.
        inputs: usize,
        /// Output values.
        outputs: usize,
    },
}

impl Layer {
    /// Returns its entries of PyTorch's state dictionary, in that order.
    #[must_use]
    pub fn tensors(self) -> Vec<Tensor> {
        use EntryKind::{Counter, Parameters, Statistics};
        match self {
            Self::Convolution {
                inputs,
                outputs,
                kernel,
                groups,
                bias,
            } => {
                let shape = [outputs, inputs / groups, kernel, kernel];
                let mut tensors = vec![Tensor::new("weight", Parameters, shape)];
                if bias {
                    tensors.push(Tensor::new("bias", Parameters, [outputs]));
                }
                tensors
            }
            Self::BatchNorm { channels } => vec![
                Tensor::new("weight", Parameters, [channels]),
                Tensor::new("bias", Parameters, [channels]),
                Tensor::new("running_mean", Statistics, [channels]),
                Tensor::new("running_var", Statistics, [channels]),
                Tensor::new("num_batches_tracked", Counter, []),
            ],
            Self::Linear { inputs, outputs } => vec![
                Tensor::new("weight", Parameters, [outputs, inputs]),
                Tensor::new("bias", Parameters, [outputs]),
            ],
        }
    }
}

/// Layers in the order of their parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layers(Vec<Layer>);

impl Layers {
    /// Returns no layers, to add some to.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a layer.
    #[must_use]
    pub fn then(mut self, layer: Layer) -> Self {
        self.0.push(layer);
        self
    }

    /// Adds a convolution with a bias.
    #[must_use]
    pub fn convolution(self, inputs: usize, outputs: usize, kernel: usize) -> Self {
        self.convolved([inputs, outputs], kernel, 1, true)
    }

    fn convolved(self, sizes: [usize; 2], kernel: usize, groups: usize, bias: bool) -> Self {
        let [inputs, outputs] = sizes;
        self.then(Layer::Convolution {
            inputs,
            outputs,
            kernel,
            groups,
            bias,
        })
    }

    /// Adds a batch norm.
    #[must_use]
    pub fn norm(self, channels: usize) -> Self {
        self.then(Layer::BatchNorm { channels })
    }

    /// Adds a convolution without bias and its batch norm.
    #[must_use]
    pub fn normed(self, inputs: usize, outputs: usize, kernel: usize) -> Self {
        self.convolved([inputs, outputs], kernel, 1, false)
            .norm(outputs)
    }

    /// Adds a depthwise convolution, in which each channel is a group, and its batch norm.
    #[must_use]
    pub fn normed_depthwise(self, channels: usize, kernel: usize) -> Self {
        self.convolved([channels; 2], kernel, channels, false)
            .norm(channels)
    }

    /// Adds a fully connected layer.
    #[must_use]
    pub fn linear(self, inputs: usize, outputs: usize) -> Self {
        self.then(Layer::Linear { inputs, outputs })
    }

    /// Returns the layers, in order.
    #[must_use]
    pub fn as_slice(&self) -> &[Layer] {
        &self.0
    }

    /// Returns the entries of the state dictionary, in order. Parameters and statistics
    /// follow each other there as in their flat vectors.
    #[must_use]
    pub fn state_dict(&self) -> Vec<Tensor> {
        self.0.iter().flat_map(|layer| layer.tensors()).collect()
    }

    /// Returns the trainable tensors, in the order of the flat parameters.
    #[must_use]
    pub fn trainable(&self) -> Vec<Tensor> {
        let mut tensors = self.state_dict();
        tensors.retain(|tensor| tensor.kind == EntryKind::Parameters);
        tensors
    }

    /// Returns the number of trainable scalars.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.elements(EntryKind::Parameters)
    }

    /// Returns the number of batch-norm statistics, means and variances together.
    #[must_use]
    pub fn statistics(&self) -> usize {
        self.elements(EntryKind::Statistics)
    }

    fn elements(&self, kind: EntryKind) -> usize {
        let tensors = self.state_dict();
        let of_kind = tensors.iter().filter(|tensor| tensor.kind == kind);
        of_kind.map(Tensor::elements).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_have_pytorchs_shapes_and_order() {
        let layers = Layers::new().normed_depthwise(32, 3).linear(32, 10);
        let shapes: Vec<_> = layers
            .state_dict()
            .into_iter()
            .map(|tensor| (tensor.name, tensor.shape))
            .collect();
        let expected = [
            ("weight", vec![32, 1, 3, 3]),
            ("weight", vec![32]),
            ("bias", vec![32]),
            ("running_mean", vec![32]),
            ("running_var", vec![32]),
            ("num_batches_tracked", vec![]),
            ("weight", vec![10, 32]),
            ("bias", vec![10]),
        ];
        assert_eq!(shapes, expected);
        assert_eq!(layers.parameters(), 288 + 64 + 330);
        assert_eq!(layers.statistics(), 64);
        assert_eq!(layers.trainable().len(), 5);
    }

    #[test]
    fn a_counter_is_one_element() {
        let counter = Layer::BatchNorm { channels: 3 }.tensors().pop().unwrap();
        assert_eq!((counter.kind, counter.elements()), (EntryKind::Counter, 1));
    }
}
