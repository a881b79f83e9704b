//! The source from which a network under construction takes its parameters.

use burn::module::{Param, ParamId};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use epochcost_kernels::hash::{mix, unit_f32};

use crate::flat::sent;

/// Initial values of a tensor of parameters: PyTorch's defaults for its layer, or
/// those of the network's reference definition.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Initial {
    /// Uniform in `[-1/√fan_in, 1/√fan_in)`: what `kaiming_uniform_(a=√5)` comes
    /// to for the weights of convolutions and linear layers, and their biases' rule.
    /// Its value is the number of inputs that one output sums over.
    Uniform(usize),
    /// Uniform in `[-√(6/fan), √(6/fan))`, a variance of 2/`fan`: He et al. (2015), uniform
    /// also where the reference draws normal values. Its value is the number of inputs of one
    /// output, or of outputs of one input.
    He(usize),
    /// Uniform with that standard deviation.
    Deviation(f64),
    /// Batch-norm weights.
    Ones,
    /// Batch-norm biases.
    Zeros,
}

/// Hands out parameter tensors in field order.
///
/// Each network has one constructor, which takes its tensors from here, so that
/// initial and given parameters have the same order by construction.
pub(crate) struct ParameterSource<'a, B: Backend> {
    values: Values<'a>,
    taken: usize,
    device: &'a B::Device,
}

enum Values<'a> {
    Fixed(&'a [f32]),
    /// Drawn by the seed, or without one counted only.
    Fresh {
        seed: Option<u64>,
        start: Start,
    },
}

/// Values that training begins with.
#[derive(Debug, Default)]
pub(crate) struct Start {
    /// The flat parameters.
    pub(crate) parameters: Vec<f32>,
    /// The flat batch-norm statistics: means 0, variances 1.
    pub(crate) statistics: Vec<f32>,
    /// Shape of each tensor that the parameters are made of.
    pub(crate) tensor_shapes: Vec<Vec<usize>>,
    /// Channels of each batch norm.
    pub(crate) normed_channels: Vec<usize>,
}

impl<'a, B: Backend> ParameterSource<'a, B> {
    /// Parameters as given: as many as the network has.
    pub(crate) const fn fixed(parameters: &'a [f32], device: &'a B::Device) -> Self {
        Self {
            values: Values::Fixed(parameters),
            taken: 0,
            device,
        }
    }

    /// Fresh parameters of that seed, see [`crate::Trainer::initial_parameters`]; without one,
    /// parameters that are 0 and not kept, to learn how many there are.
    pub(crate) fn begun(seed: Option<u64>, device: &'a B::Device) -> Self {
        let start = Start::default();
        Self {
            values: Values::Fresh { seed, start },
            taken: 0,
            device,
        }
    }

    /// The next tensor, of that shape.
    pub(crate) fn take<const D: usize>(
        &mut self,
        shape: [usize; D],
        initial: Initial,
    ) -> Param<Tensor<B, D>> {
        let range = self.taken..self.taken + shape.iter().product::<usize>();
        self.taken = range.end;
        let values = match &mut self.values {
            Values::Fixed(parameters) => parameters[range].to_vec(),
            Values::Fresh { seed, start } => {
                start.tensor_shapes.push(shape.to_vec());
                match seed {
                    None => vec![0.0; range.len()],
                    Some(seed) => {
                        let values: Vec<f32> =
                            range.map(|index| draw(*seed, index, initial)).collect();
                        start.parameters.extend_from_slice(&values);
                        values
                    }
                }
            }
        };
        let tensor = sent::<B, D>(values, shape, self.device);
        Param::initialized(ParamId::new(), tensor.require_grad())
    }

    /// Notes that a batch norm of so many channels keeps statistics.
    pub(crate) fn keep_statistics(&mut self, channels: usize) {
        if let Values::Fresh { start, .. } = &mut self.values {
            start.normed_channels.push(channels);
            for initial in [0.0, 1.0] {
                let length = start.statistics.len() + channels;
                start.statistics.resize(length, initial);
            }
        }
    }

    /// All that was handed out; empty where the parameters were given.
    pub(crate) fn into_start(self) -> Start {
        match self.values {
            Values::Fresh { start, .. } => start,
            Values::Fixed(_) => Start::default(),
        }
    }
}

/// Returns the initial value of the parameter at that index of the flat vector.
fn draw(seed: u64, index: usize, initial: Initial) -> f32 {
    let bound = match initial {
        Initial::Uniform(fan_in) => 1.0 / (fan_in as f64).sqrt(),
        Initial::He(fan) => (6.0 / fan as f64).sqrt(),
        Initial::Deviation(deviation) => 3.0_f64.sqrt() * deviation,
        Initial::Ones => return 1.0,
        Initial::Zeros => return 0.0,
    };
    bound as f32 * (2.0 * unit_f32(mix(seed, index as u64)) - 1.0)
}
