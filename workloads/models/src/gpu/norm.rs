//! Batch norms and biases with the functions after them, each way in one pass over the
//! features but for the sums.

use burn::tensor::{Shape, Tensor as BurnTensor};
use burn_cubecl::ops::reshape;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{BoolElement, CubeBackend, CubeRuntime, IntElement};
use cubecl::prelude::*;

use super::launch::{Blocks, empty, grid, primitive, tensor};
use crate::ops::{FeatureGradients, Features, Function, Norm, NormGradients};

/// Arithmetic of every channel; without a scale, only the bias is read.
#[derive(CubeType, CubeLaunch)]
struct Affine {
    weight: Tensor<f32>,
    bias: Tensor<f32>,
    mean: Tensor<f32>,
    variance: Tensor<f32>,
    epsilon: f32,
}

/// `1 / √(variance + ε)`.
#[cube]
fn inverse_deviation(affine: &Affine, channel: usize) -> f32 {
    1.0 / (affine.variance[channel] + affine.epsilon).sqrt()
}

#[cube]
fn normed(value: f32, affine: &Affine, channel: usize, #[comptime] scaled: bool) -> f32 {
    let mut normed = value;
    if scaled {
        let factor = affine.weight[channel] * inverse_deviation(affine, channel);
        normed = (value - affine.mean[channel]) * factor;
    }
    normed + affine.bias[channel]
}

/// NaN goes through all of them.
#[cube]
fn applied(value: f32, #[comptime] then: Function) -> f32 {
    match then {
        Function::Identity => value,
        Function::Relu => select(value <= 0.0, 0.0, value),
        Function::HardSwish => {
            let sixth = (value + 3.0) / 6.0;
            let sixth = select(sixth <= 0.0, 0.0, sixth);
            value * select(sixth >= 1.0, 1.0, sixth)
        }
    }
}

/// Returns the gradient before the function, from the one after it; `value` is before it.
#[cube]
fn passed(gradient: f32, value: f32, #[comptime] then: Function) -> f32 {
    match then {
        Function::Identity => gradient,
        Function::Relu => select(value <= 0.0, 0.0, gradient),
        Function::HardSwish => {
            let slope = select(value <= -3.0, 0.0, value / 3.0 + 0.5);
            gradient * select(value >= 3.0, 1.0, slope)
        }
    }
}

/// One unit a value.
#[cube(launch)]
fn apply_norm(
    values: &Tensor<f32>,
    affine: &Affine,
    output: &mut Tensor<f32>,
    #[comptime] scaled: bool,
    #[comptime] then: Function,
) {
    if ABSOLUTE_POS >= output.len() {
        terminate!();
    }
    let channel = ABSOLUTE_POS % affine.bias.shape(0);
    let value = normed(values[ABSOLUTE_POS], affine, channel, scaled);
    output[ABSOLUTE_POS] = applied(value, then);
}

/// One unit per block and channel: the sums of the gradient before the function, and of its
/// products with the standardised values.
#[cube(launch)]
#[allow(clippy::too_many_arguments)] // A kernel's arguments are its bindings.
fn block_sums(
    values: &Tensor<f32>,
    gradient: &Tensor<f32>,
    affine: &Affine,
    offsets: &mut Tensor<f32>,
    slopes: &mut Tensor<f32>,
    rows: usize,
    length: usize,
    #[comptime] scaled: bool,
    #[comptime] then: Function,
) {
    if ABSOLUTE_POS >= offsets.len() {
        terminate!();
    }
    let channels = affine.bias.shape(0);
    let channel = ABSOLUTE_POS % channels;
    let start = (ABSOLUTE_POS / channels) * length;
    let mut end = start + length;
    if end > rows {
        end = rows;
    }
    let mut offset = 0.0f32;
    let mut slope = 0.0f32;
    for row in start..end {
        let at = row * channels + channel;
        let value = values[at];
        let before = passed(gradient[at], normed(value, affine, channel, scaled), then);
        offset += before;
        if scaled {
            slope += before * (value - affine.mean[channel]);
        }
    }
    offsets[ABSOLUTE_POS] = offset;
    if scaled {
        slopes[ABSOLUTE_POS] = slope * inverse_deviation(affine, channel);
    } else {
        slopes[ABSOLUTE_POS] = slope;
    }
}

/// One unit per group of blocks and channel.
#[cube(launch)]
fn join_sums(
    offsets: &Tensor<f32>,
    slopes: &Tensor<f32>,
    joined_offsets: &mut Tensor<f32>,
    joined_slopes: &mut Tensor<f32>,
    group: usize,
) {
    if ABSOLUTE_POS >= joined_offsets.len() {
        terminate!();
    }
    let channels = joined_offsets.shape(1);
    let channel = ABSOLUTE_POS % channels;
    let start = (ABSOLUTE_POS / channels) * group;
    let mut end = start + group;
    if end > offsets.shape(0) {
        end = offsets.shape(0);
    }
    let mut offset = 0.0f32;
    let mut slope = 0.0f32;
    for block in start..end {
        offset += offsets[block * channels + channel];
        slope += slopes[block * channels + channel];
    }
    joined_offsets[ABSOLUTE_POS] = offset;
    joined_slopes[ABSOLUTE_POS] = slope;
}

/// One unit a value: its gradient, from the gradient after the function and the sums.
#[cube(launch)]
#[allow(clippy::too_many_arguments)] // A kernel's arguments are its bindings.
fn values_gradient(
    values: &Tensor<f32>,
    gradient: &Tensor<f32>,
    affine: &Affine,
    offsets: &Tensor<f32>,
    slopes: &Tensor<f32>,
    output: &mut Tensor<f32>,
    count: f32,
    #[comptime] scaled: bool,
    #[comptime] then: Function,
) {
    if ABSOLUTE_POS >= output.len() {
        terminate!();
    }
    let channel = ABSOLUTE_POS % affine.bias.shape(0);
    let value = values[ABSOLUTE_POS];
    let before = passed(
        gradient[ABSOLUTE_POS],
        normed(value, affine, channel, scaled),
        then,
    );
    let mut found = before;
    if scaled {
        let inverse = inverse_deviation(affine, channel);
        let standard = (value - affine.mean[channel]) * inverse;
        found = (before - offsets[channel] / count - standard * (slopes[channel] / count))
            * (affine.weight[channel] * inverse);
    }
    output[ABSOLUTE_POS] = found;
}

/// A norm's tensors, ready for kernels.
struct Held<R: CubeRuntime> {
    /// Weight, bias, mean and variance; the bias in place of all where there is no scale.
    tensors: [CubeTensor<R>; 4],
    epsilon: f32,
    scaled: bool,
    then: Function,
}

impl<R: CubeRuntime> Held<R> {
    fn of<I: IntElement, B: BoolElement>(norm: Norm<CubeBackend<R, f32, I, B>>) -> Self {
        let bias = primitive(norm.bias);
        let then = norm.then;
        match norm.scale {
            None => Self {
                tensors: [0; 4].map(|_| bias.clone()),
                epsilon: 0.0,
                scaled: false,
                then,
            },
            Some(scale) => Self {
                tensors: [
                    primitive(scale.weight),
                    bias,
                    primitive(scale.moments.mean),
                    primitive(scale.moments.variance),
                ],
                epsilon: scale.epsilon as f32,
                scaled: true,
                then,
            },
        }
    }

    fn argument(&self) -> AffineLaunch<R> {
        let [weight, bias, mean, variance] = self.tensors.clone().map(CubeTensor::into_tensor_arg);
        AffineLaunch::new(weight, bias, mean, variance, self.epsilon)
    }
}

/// The features, their norm applied.
pub(super) fn value<R: CubeRuntime, I: IntElement, B: BoolElement>(
    features: Features<CubeBackend<R, f32, I, B>>,
) -> BurnTensor<CubeBackend<R, f32, I, B>, 4> {
    let values = features.values;
    let Some(norm) = features.norm else {
        return values;
    };
    let held = Held::of(norm);
    let output = empty(&held.tensors[1], values.dims());
    let (cubes, cube) = grid(&output);
    apply_norm::launch::<R>(
        &output.client,
        cubes,
        cube,
        primitive(values).into_tensor_arg(),
        held.argument(),
        output.clone().into_tensor_arg(),
        held.scaled,
        held.then,
    );
    tensor(output)
}

/// Computes the gradients of the features from that of [`value`].
pub(super) fn value_backward<R: CubeRuntime, I: IntElement, B: BoolElement>(
    features: Features<CubeBackend<R, f32, I, B>>,
    gradient: BurnTensor<CubeBackend<R, f32, I, B>, 4>,
) -> FeatureGradients<CubeBackend<R, f32, I, B>> {
    let values = features.values;
    let Some(norm) = features.norm else {
        return FeatureGradients {
            values: gradient,
            norm: None,
        };
    };
    let dims @ [batch, height, width, channels] = values.dims();
    let held = Held::of(norm);
    let (values, gradient) = (primitive(values), primitive(gradient));
    let rows = batch * height * width;
    let [offsets, slopes] = sums(&values, &gradient, &held, rows);
    let output = empty(&values, dims);
    let (cubes, cube) = grid(&output);
    values_gradient::launch::<R>(
        &output.client,
        cubes,
        cube,
        values.into_tensor_arg(),
        gradient.into_tensor_arg(),
        held.argument(),
        offsets.clone().into_tensor_arg(),
        slopes.clone().into_tensor_arg(),
        output.clone().into_tensor_arg(),
        rows as f32,
        held.scaled,
        held.then,
    );
    let vector = |sums| tensor(reshape(sums, Shape::new([channels])));
    FeatureGradients {
        values: tensor(output),
        norm: Some(NormGradients {
            weight: held.scaled.then(|| vector(slopes)),
            bias: vector(offsets),
        }),
    }
}

/// Returns the two sums of [`block_sums`] over all rows, `[1, channels]` each.
fn sums<R: CubeRuntime>(
    values: &CubeTensor<R>,
    gradient: &CubeTensor<R>,
    held: &Held<R>,
    rows: usize,
) -> [CubeTensor<R>; 2] {
    let channels = held.tensors[1].meta.num_elements();
    // Each block's sums.
    let blocks = Blocks::of(rows, channels);
    let mut sums = [0, 1].map(|_| empty(values, [blocks.count, channels]));
    let (cubes, cube) = grid(&sums[0]);
    block_sums::launch::<R>(
        &values.client,
        cubes,
        cube,
        values.clone().into_tensor_arg(),
        gradient.clone().into_tensor_arg(),
        held.argument(),
        sums[0].clone().into_tensor_arg(),
        sums[1].clone().into_tensor_arg(),
        rows,
        blocks.length,
        held.scaled,
        held.then,
    );
    // Groups of blocks are joined until one is left.
    let mut count = blocks.count;
    while count > 1 {
        let group = Blocks { length: 1, count }.joined();
        count = count.div_ceil(group);
        let outputs = [0, 1].map(|_| empty(values, [count, channels]));
        let (cubes, cube) = grid(&outputs[0]);
        let [offsets, slopes] = sums;
        join_sums::launch::<R>(
            &values.client,
            cubes,
            cube,
            offsets.into_tensor_arg(),
            slopes.into_tensor_arg(),
            outputs[0].clone().into_tensor_arg(),
            outputs[1].clone().into_tensor_arg(),
            group,
        );
        sums = outputs;
    }
    sums
}
