//! The kernels against the same operations in burn's own terms, and their gradients
//! against finite differences, over random sizes.

use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData, Tolerance};
use burn_autodiff::Autodiff;
use burn_flex::{Flex, FlexDevice};
use epochcost_kernels::hash::{mix, unit_f32};

use super::*;

mod plain;

/// Random values that depend on a seed, which failures print.
pub(crate) struct Draw {
    seed: u64,
    taken: u64,
}

impl Draw {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed, taken: 0 }
    }

    pub(crate) fn unit(&mut self) -> f32 {
        self.taken += 1;
        unit_f32(mix(self.seed, self.taken))
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((self.unit() * end as f32) as usize).min(end - 1)
    }

    pub(crate) fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    pub(crate) fn tensor<B: Backend, const D: usize>(&mut self, shape: [usize; D]) -> Tensor<B, D> {
        let values: Vec<f32> = (0..shape.iter().product())
            .map(|_| 2.0 * self.unit() - 1.0)
            .collect();
        Tensor::from_data(TensorData::new(values, shape), &B::Device::default())
    }

    /// Features with a norm by their own moments, or without one.
    pub(crate) fn features(&mut self, shape: [usize; 4], normed: bool) -> Features<Flex> {
        let values: Tensor<Flex, 4> = self.tensor(shape);
        if !normed {
            return Features::plain(values);
        }
        let weight = self.tensor([shape[3]]) + 1.5;
        let bias = self.tensor([shape[3]]);
        let scale = Scale {
            weight,
            moments: plain::moments(values.clone()),
            epsilon: 1e-5,
        };
        let then = self.one_of(&[Function::Identity, Function::Relu, Function::HardSwish]);
        let bias_alone = self.below(4) == 0;
        Features::plain(values).normed(Norm {
            scale: (!bias_alone).then_some(scale),
            bias,
            then,
        })
    }
}

pub(crate) fn assert_close<const D: usize>(
    ours: Tensor<Flex, D>,
    expected: Tensor<Flex, D>,
    case: &str,
) {
    assert_eq!(ours.dims(), expected.dims(), "{case}");
    let scale: f32 = expected.clone().abs().max().into_scalar();
    let apart: f32 = (ours - expected).abs().max().into_scalar();
    assert!(
        apart <= 2e-5 * scale.max(1.0),
        "{case}: {apart:e} apart of {scale:e}"
    );
}

fn assert_features_close(
    ours: FeatureGradients<Flex>,
    expected: FeatureGradients<Flex>,
    case: &str,
) {
    assert_close(ours.values, expected.values, case);
    assert_eq!(ours.norm.is_some(), expected.norm.is_some(), "{case}");
    if let (Some(ours), Some(expected)) = (ours.norm, expected.norm) {
        assert_eq!(ours.weight.is_some(), expected.weight.is_some(), "{case}");
        if let (Some(ours), Some(expected)) = (ours.weight, expected.weight) {
            assert_close(ours, expected, case);
        }
        assert_close(ours.bias, expected.bias, case);
    }
}

/// A random convolution: window, images and output channels.
pub(crate) fn sizes(draw: &mut Draw) -> (Window, [usize; 4], usize) {
    let kernel = draw.one_of(&[1, 3, 5]);
    let window = Window {
        kernel,
        stride: draw.one_of(&[1, 2, 3]),
        padding: draw.below(kernel / 2 + 1),
        groups: 1,
    };
    let side = |draw: &mut Draw| kernel + draw.below(8);
    let channels = |draw: &mut Draw| draw.one_of(&[1, 3, 5, 8, 16, 17, 32, 48, 64, 256]);
    let (height, width) = (side(draw), side(draw));
    let (inputs, outputs) = (channels(draw), channels(draw));
    let images = [1 + draw.below(5), height, width, inputs];
    match draw.below(3) {
        0 => (window.groups(inputs), images, inputs),
        _ => (window, images, outputs),
    }
}

#[test]
fn convolutions_and_their_gradients() {
    for seed in 0..120 {
        let draw = &mut Draw::new(seed);
        let (window, images, outputs) = sizes(draw);
        let normed = seed % 2 == 0;
        let case = format!("seed {seed}: {window:?} of {images:?} to {outputs}, norm {normed}");
        let input = draw.features(images, normed);
        let weight: Tensor<Flex, 4> = draw.tensor([
            outputs,
            images[3] / window.groups,
            window.kernel,
            window.kernel,
        ]);
        let arguments = || (input.clone(), weight.clone(), window);
        let (input_, weight_, window_) = arguments();
        let (ours, moments) = Flex::convolution_with_moments(input_, weight_, window_);
        let (input_, weight_, window_) = arguments();
        let expected = plain::convolution(plain::value(input_), weight_, window_);
        let expected_moments = plain::moments(expected.clone());
        let gradient: Tensor<Flex, 4> = draw.tensor(expected.dims());
        assert_close(ours.values, expected, &case);
        assert_close(moments.mean, expected_moments.mean, &case);
        assert_close(moments.variance, expected_moments.variance, &case);
        let (input_, weight_, window_) = arguments();
        let (ours, our_weight) =
            Flex::convolution_backward(input_, weight_, gradient.clone(), window_, true);
        let (input_, weight_, window_) = arguments();
        let images = plain::value(input_.clone());
        let (expected, expected_weight) =
            plain::convolution_backward(images, weight_, gradient, window_);
        let expected = plain::value_backward(input_, expected);
        assert_close(our_weight, expected_weight, &case);
        assert_features_close(ours.unwrap(), expected, &case);
    }
}

#[test]
fn activations_and_their_gradients() {
    for seed in 0..40 {
        let draw = &mut Draw::new(seed);
        let side = 1 + draw.below(9);
        let shape = [
            1 + draw.below(40),
            side,
            side,
            draw.one_of(&[1, 3, 16, 24, 64]),
        ];
        let features = draw.features(shape, true);
        let normed = draw.below(2) == 0;
        let shortcut = (draw.below(3) > 0).then(|| draw.features(shape, normed));
        let case = format!("seed {seed}: {shape:?}, shortcut {}", shortcut.is_some());
        let rectified = draw.below(2) == 0;
        let ours = Flex::activation(features.clone(), shortcut.clone(), rectified);
        let expected = plain::activation(features.clone(), shortcut.clone(), rectified);
        assert_close(ours.values, expected, &case);
        let gradient: Tensor<Flex, 4> = draw.tensor(shape);
        let (ours, our_shortcut) = Flex::activation_backward(
            features.clone(),
            shortcut.clone(),
            rectified,
            gradient.clone(),
        );
        let (expected, expected_shortcut) =
            plain::activation_backward(features, shortcut, rectified, gradient);
        assert_features_close(ours, expected, &case);
        assert_eq!(our_shortcut.is_some(), expected_shortcut.is_some());
        if let (Some(ours), Some(expected)) = (our_shortcut, expected_shortcut) {
            assert_features_close(ours, expected, &case);
        }
    }
}

#[test]
fn pools_and_their_gradients() {
    for seed in 0..40 {
        let draw = &mut Draw::new(seed);
        let shape = [
            1 + draw.below(4),
            2 + draw.below(9),
            2 + draw.below(9),
            draw.one_of(&[1, 6, 16, 33]),
        ];
        let case = format!("seed {seed}: {shape:?}");
        let images: Tensor<Flex, 4> = draw.tensor(shape);
        // Equal values: the first of them takes the gradient.
        let images = if seed % 2 == 0 {
            images.round()
        } else {
            images
        };
        let bias: Tensor<Flex, 1> = draw.tensor([shape[3]]);
        let expected = reference::pool(images.clone(), bias.clone());
        let gradient: Tensor<Flex, 4> = draw.tensor(expected.dims());
        assert_close(Flex::pool(images.clone(), bias.clone()), expected, &case);
        let (ours, our_bias) = Flex::pool_backward(images.clone(), bias.clone(), gradient.clone());
        let (expected, expected_bias) = reference::pool_backward(images, bias, gradient);
        assert_close(ours, expected, &case);
        assert_close(our_bias, expected_bias, &case);
    }
}

/// The gradient of a mean is one product after the other, to the bit.
#[test]
fn channels_of_whole_images_and_their_gradients() {
    for seed in 0..40 {
        let draw = &mut Draw::new(seed);
        let shape = [
            1 + draw.below(5),
            1 + draw.below(7),
            1 + draw.below(7),
            draw.one_of(&[1, 6, 16, 24, 33, 72]),
        ];
        let [batch, height, width, channels] = shape;
        let case = format!("seed {seed}: {shape:?}");
        let values: Tensor<Flex, 4> = draw.tensor(shape);
        let shares: Tensor<Flex, 2> = draw.tensor([batch, channels]);
        let gradient: Tensor<Flex, 4> = draw.tensor(shape);

        let mean = Flex::global_average_backward(shape, shares.clone());
        let expected = reference::global_average_backward(shape, shares.clone());
        mean.into_data().assert_eq(&expected.into_data(), true);

        let rows = shares.clone() * 5.0;
        let hard = Flex::hard_sigmoids(rows.clone());
        assert_close(hard, reference::hard_sigmoids(rows.clone()), &case);
        let ours = Flex::hard_sigmoids_backward(rows.clone(), shares.clone());
        let expected = reference::hard_sigmoids_backward(rows, shares.clone());
        assert_close(ours, expected, &case);

        let excited = Flex::excite(values.clone(), shares.clone());
        let expected = reference::excite(values.clone(), shares.clone());
        excited.into_data().assert_eq(&expected.into_data(), true);
        let ours = Flex::excite_backward(values.clone(), shares.clone(), gradient.clone());
        let expected = reference::excite_backward(values.clone(), shares, gradient);
        assert_close(ours.0, expected.0, &case);
        assert_close(ours.1, expected.1, &case);

        let shape = values.dims();
        let rows = Flex::channels_first(values.clone());
        let expected: Tensor<Flex, 2> = values.clone().permute([0, 3, 1, 2]).flatten(1, 3);
        rows.clone()
            .into_data()
            .assert_eq(&expected.into_data(), true);
        let images = Flex::channels_last(rows, shape);
        images
            .into_data()
            .assert_eq(&values.clone().into_data(), true);

        let beside = 1 + draw.below(40);
        let second: Tensor<Flex, 4> = draw.tensor([batch, height, width, beside]);
        let joined = Flex::side_by_side([values.clone(), second.clone()]);
        let expected = Tensor::cat(vec![values.clone(), second.clone()], 3);
        joined
            .clone()
            .into_data()
            .assert_eq(&expected.into_data(), true);
        let parts = Flex::apart(joined, channels);
        for (part, expected) in parts.into_iter().zip([values, second]) {
            part.into_data().assert_eq(&expected.into_data(), true);
        }
    }
}

/// As burn's own autodiff computes it, which the networks' recorded results rest on.
#[test]
fn the_gradient_of_a_mean_is_that_of_burn_to_the_bit() {
    type Graph = Autodiff<Flex>;
    for seed in 0..20 {
        let draw = &mut Draw::new(seed);
        let shape = [1 + draw.below(4), 1 + draw.below(9), 1 + draw.below(9), 40];
        let values: Tensor<Graph, 4> = draw.tensor::<Graph, 4>(shape).require_grad();
        let slopes: Tensor<Graph, 2> = draw.tensor([shape[0], shape[3]]);
        let gradient = |means: Tensor<Graph, 2>| {
            let found = (means * slopes.clone()).sum().backward();
            values.grad(&found).unwrap().into_data()
        };
        let ours = Graph::global_average(values.clone());
        let burns = reference::global_average(values.clone());
        ours.clone()
            .into_data()
            .assert_eq(&burns.clone().into_data(), true);
        gradient(ours).assert_eq(&gradient(burns), true);
    }
}

#[test]
fn max_pools_and_their_gradients() {
    for seed in 0..60 {
        let draw = &mut Draw::new(seed);
        let side = 2 + draw.below(2);
        let window = PoolWindow {
            side,
            stride: 1 + draw.below(3),
            padding: draw.below(side / 2 + 1),
            overhanging: draw.below(2) == 0,
        };
        let shape = [
            1 + draw.below(4),
            3 + draw.below(9),
            3 + draw.below(9),
            draw.one_of(&[1, 6, 16, 24, 33]),
        ];
        let normed = seed % 2 == 0;
        let mut features = draw.features(shape, normed);
        if seed % 4 == 1 {
            // Equal values: the first of them takes the gradient.
            features.values = (features.values * 2.0).round();
        }
        let case = format!("seed {seed}: {window:?} of {shape:?}, norm {normed}");
        let images = plain::value(features.clone());
        let expected = max_pool::forward(images.clone(), window);
        let gradient: Tensor<Flex, 4> = draw.tensor(expected.dims());
        assert_close(Flex::max_pool(features.clone(), window), expected, &case);
        let ours = Flex::max_pool_backward(features.clone(), window, gradient.clone());
        let expected = max_pool::backward(images, window, gradient);
        assert_features_close(ours, plain::value_backward(features, expected), &case);
    }
}

/// PyTorch's sizes of `max_pool2d`, with and without `ceil_mode`.
#[test]
fn windows_overhang_as_pytorchs_do() {
    let outputs = |[side, stride, padding]: [usize; 3], inputs| {
        [false, true].map(|overhanging| {
            let window = PoolWindow {
                side,
                stride,
                padding,
                overhanging,
            };
            window.outputs(inputs)
        })
    };
    assert_eq!(outputs([3, 2, 0], 15), [7, 7]);
    assert_eq!(outputs([3, 2, 0], 16), [7, 8]);
    assert_eq!(outputs([3, 2, 1], 16), [8, 9]);
    assert_eq!(outputs([2, 2, 0], 7), [3, 4]);
    assert_eq!(outputs([2, 3, 1], 3), [2, 2]);
    // A third window would begin beyond the images.
    assert_eq!(outputs([1, 2, 0], 4), [2, 2]);
}

#[test]
fn linear_layers_and_losses_and_their_gradients() {
    for seed in 0..40 {
        let draw = &mut Draw::new(seed);
        let [batch, inputs, outputs] = [1 + draw.below(70), 1 + draw.below(70), 2 + draw.below(40)];
        let case = format!("seed {seed}: {inputs} to {outputs} of {batch}");
        let rows: Tensor<Flex, 2> = draw.tensor([batch, inputs]);
        let weight: Tensor<Flex, 2> = draw.tensor([outputs, inputs]);
        let bias: Tensor<Flex, 1> = draw.tensor([outputs]);
        let gradient: Tensor<Flex, 2> = draw.tensor([batch, outputs]);
        let scores = rows.clone().matmul(weight.clone().transpose()) + bias.clone().unsqueeze();
        let ours = Flex::fully_connected(rows.clone(), weight.clone(), bias);
        assert_close(ours, scores.clone(), &case);
        let (our_rows, our_weight, our_bias) =
            Flex::fully_connected_backward(rows.clone(), weight.clone(), gradient.clone());
        assert_close(our_rows, gradient.clone().matmul(weight), &case);
        assert_close(our_weight, gradient.clone().transpose().matmul(rows), &case);
        assert_close(our_bias, gradient.sum_dim(0).reshape([outputs]), &case);
        let labels: Vec<u8> = (0..batch).map(|_| draw.below(outputs) as u8).collect();
        let loss = Flex::cross_entropy(scores.clone(), &labels);
        assert_close(
            loss,
            reference::cross_entropy(scores.clone(), &labels),
            &case,
        );
        let slope: Tensor<Flex, 1> = draw.tensor([1]);
        let ours = Flex::cross_entropy_backward(scores.clone(), &labels, slope.clone());
        let expected = reference::cross_entropy_backward(scores, &labels, slope);
        assert_close(ours, expected, &case);
    }
}

type Graph = Autodiff<Flex>;

/// Returns the slope of `loss` along a random direction, by the graph and by a difference
/// of two losses, for each of the tensors that it is a function of.
fn assert_slopes<const D: usize>(
    case: &str,
    at: &Tensor<Flex, D>,
    draw: &mut Draw,
    loss: impl Fn(Tensor<Graph, D>) -> Tensor<Graph, 1>,
) {
    let direction: Tensor<Flex, D> = draw.tensor(at.dims());
    let point = Tensor::<Graph, D>::from_inner(at.clone()).require_grad();
    let gradients = loss(point.clone()).backward();
    let gradient = point.grad(&gradients).unwrap();
    let expected: f32 = (gradient * direction.clone()).sum().into_scalar();
    let step = 2e-3;
    let moved = |sign: f32| -> f32 {
        let point = at.clone() + direction.clone() * (sign * step);
        loss(Tensor::from_inner(point)).into_scalar()
    };
    let slope = (moved(1.0) - moved(-1.0)) / (2.0 * step);
    let apart = (slope - expected).abs();
    assert!(
        apart <= 0.02 * expected.abs().max(0.5),
        "{case}: slope {slope}, gradient {expected}"
    );
}

/// Returns a smooth function of what an operation returns, so that its slope shows all of
/// it.
fn smooth<const D: usize>(values: Tensor<Graph, D>, weights: Tensor<Flex, D>) -> Tensor<Graph, 1> {
    (values.tanh() * Tensor::from_inner(weights)).sum()
}

#[test]
fn gradients_are_the_slopes_of_finite_differences() {
    for seed in 0..40 {
        let draw = &mut Draw::new(1000 + seed);
        let (window, [_, height, width, inputs], outputs) = sizes(draw);
        let (inputs, outputs) = match window.groups {
            1 => (inputs.min(8), outputs.min(8)),
            _ => (inputs.min(8), inputs.min(8)),
        };
        let window = window.groups(if window.groups == 1 { 1 } else { inputs });
        let images = [2, height, width, inputs];
        let case = format!("seed {seed}: {window:?} of {images:?} to {outputs}");
        let values: Tensor<Flex, 4> = draw.tensor(images);
        let (norm_weight, norm_bias) = (draw.tensor([inputs]) + 1.5, draw.tensor([inputs]));
        let weight: Tensor<Flex, 4> = draw.tensor([
            outputs,
            inputs / window.groups,
            window.kernel,
            window.kernel,
        ]) * (1.0 / window.fan_in(inputs) as f32).sqrt();
        let shape = [2, window.outputs(height), window.outputs(width), outputs];
        let weights: Tensor<Flex, 4> = draw.tensor(shape);
        // A norm by the moments of the values themselves, as in a training step.
        let loss = |values: Tensor<Graph, 4>,
                    norm_weight: Tensor<Graph, 1>,
                    norm_bias: Tensor<Graph, 1>,
                    weight: Tensor<Graph, 4>| {
            let moments = plain::moments(values.clone().inner());
            let moments = Moments {
                mean: Tensor::from_inner(moments.mean),
                variance: Tensor::from_inner(moments.variance),
            };
            let norm = Norm {
                scale: Some(Scale {
                    weight: norm_weight,
                    moments,
                    epsilon: 1e-5,
                }),
                bias: norm_bias,
                then: Function::Identity,
            };
            let input = Features::plain(values).normed(norm);
            let output = Graph::convolution(input, weight, window).values;
            smooth(output, weights.clone())
        };
        let graph4 = |tensor: &Tensor<Flex, 4>| Tensor::<Graph, 4>::from_inner(tensor.clone());
        let graph1 = |tensor: &Tensor<Flex, 1>| Tensor::<Graph, 1>::from_inner(tensor.clone());
        let (w, b) = (&norm_weight, &norm_bias);
        assert_slopes(&case, &values, draw, |at| {
            loss(at, graph1(w), graph1(b), graph4(&weight))
        });
        assert_slopes(&case, &norm_weight, draw, |at| {
            loss(graph4(&values), at, graph1(b), graph4(&weight))
        });
        assert_slopes(&case, &norm_bias, draw, |at| {
            loss(graph4(&values), graph1(w), at, graph4(&weight))
        });
        assert_slopes(&case, &weight, draw, |at| {
            loss(graph4(&values), graph1(w), graph1(b), at)
        });
    }
}

#[test]
fn what_is_not_finite_comes_through() {
    let device = FlexDevice;
    for (bad, window) in [
        (f32::NAN, Window::three(1)),
        (f32::INFINITY, Window::one(1)),
        (f32::NAN, Window::three(2).groups(32)),
    ] {
        let mut values = vec![0.5; 2 * 4 * 4 * 32];
        values[5 * 32 + 7] = bad;
        let images = Tensor::<Flex, 4>::from_data(TensorData::new(values, [2, 4, 4, 32]), &device);
        let weight = Tensor::<Flex, 4>::ones(
            [32, 32 / window.groups, window.kernel, window.kernel],
            &device,
        );
        let input = Features::plain(images.clone());
        let (output, moments) = Flex::convolution_with_moments(input, weight.clone(), window);
        let finite = |tensor: Tensor<Flex, 1>| tensor.into_data().iter::<f32>().all(f32::is_finite);
        assert!(!finite(moments.mean.clone()) && !finite(moments.variance.clone()));
        let input = Features::plain(images.clone());
        let ones = output.values.ones_like();
        let (_, gradient) = Flex::convolution_backward(input, weight, ones, window, true);
        assert!(!finite(gradient.reshape([-1])));
        let scale = Scale {
            weight: Tensor::ones([32], &device),
            moments,
            epsilon: 1e-5,
        };
        let normed = output.normed(Norm {
            scale: Some(scale),
            bias: Tensor::zeros([32], &device),
            then: Function::Relu,
        });
        let activated = Flex::activation(normed, None, true).values;
        assert!(!finite(activated.reshape([-1])));
        let pooled = Flex::pool(images, Tensor::zeros([32], &device));
        assert!(!finite(pooled.reshape([-1])));
    }
}

/// What a batch norm far from zero leaves of its digits: a one-pass variance would lose
/// them all.
#[test]
fn the_variance_of_values_far_from_zero() {
    let draw = &mut Draw::new(7);
    let images: Tensor<Flex, 4> = draw.tensor([4, 8, 8, 16]) * 1e-2 + 1000.0;
    let weight = Tensor::<Flex, 4>::eye_weight(16);
    let (output, moments) =
        Flex::convolution_with_moments(Features::plain(images), weight, Window::one(1));
    let expected = plain::moments(output.values);
    let tolerance = Tolerance::<f32>::relative(1e-2);
    let data = moments.variance.into_data();
    data.assert_approx_eq(&expected.variance.into_data(), tolerance);
}

trait EyeWeight {
    fn eye_weight(channels: usize) -> Self;
}

impl EyeWeight for Tensor<Flex, 4> {
    fn eye_weight(channels: usize) -> Self {
        Tensor::<Flex, 2>::eye(channels, &FlexDevice).reshape([channels, channels, 1, 1])
    }
}
