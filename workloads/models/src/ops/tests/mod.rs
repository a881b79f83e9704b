//! The kernels against the same operations in burn's own terms, and their gradients against those of
//! burn's autodiff, over random sizes.

use std::iter::once;

use burn::tensor::backend::{AutodiffBackend, Backend};
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

type Graph = Autodiff<Flex>;
type Slopes = <Graph as AutodiffBackend>::Gradients;

/// A tensor of the graph of which a gradient is taken.
fn leaf<const D: usize>(tensor: Tensor<Flex, D>) -> Tensor<Graph, D> {
    Tensor::from_inner(tensor).require_grad()
}

/// Features of the graph of which gradients are taken, and of their norm's parameters.
fn leaves(features: Features<Flex>) -> Features<Graph> {
    let norm = features.norm.map(|norm| Norm {
        scale: norm.scale.map(|scale| Scale {
            weight: leaf(scale.weight),
            moments: Moments {
                mean: Tensor::from_inner(scale.moments.mean),
                variance: Tensor::from_inner(scale.moments.variance),
            },
            epsilon: scale.epsilon,
        }),
        bias: leaf(norm.bias),
        then: norm.then,
    });
    Features {
        values: leaf(features.values),
        norm,
        origin: None,
    }
}

/// The gradients of a sum of values, weighted.
fn slopes<const D: usize>(values: Tensor<Graph, D>, weights: Tensor<Flex, D>) -> Slopes {
    (values * Tensor::from_inner(weights)).sum().backward()
}

/// The gradients of [`leaves`].
fn gradients(leaves: &Features<Graph>, slopes: &Slopes) -> Vec<Tensor<Flex, 1>> {
    let norm = leaves.norm.as_ref();
    let scale = norm.and_then(|norm| norm.scale.as_ref());
    let norm = norm.map(|norm| &norm.bias).into_iter();
    let norm = norm.chain(scale.map(|scale| &scale.weight));
    norm.map(|leaf| leaf.grad(slopes).unwrap())
        .chain(once(leaves.values.grad(slopes).unwrap().reshape([-1])))
        .collect()
}

/// Compares values of the graph, and all that is `found` in the gradients of a random sum of them.
fn assert_same<const D: usize>(
    [ours, expected]: [Tensor<Graph, D>; 2],
    found: impl Fn(&Slopes) -> Vec<Tensor<Flex, 1>>,
    draw: &mut Draw,
    case: &str,
) {
    assert_close(ours.clone().inner(), expected.clone().inner(), case);
    let weights: Tensor<Flex, D> = draw.tensor(ours.dims());
    let found = |values| found(&slopes(values, weights.clone()));
    for (ours, expected) in found(ours).into_iter().zip(found(expected)) {
        assert_close(ours, expected, case);
    }
}

/// Compares tensors to the bit.
fn assert_equal<B: Backend, const D: usize>(ours: Tensor<B, D>, expected: Tensor<B, D>) {
    ours.into_data().assert_eq(&expected.into_data(), true);
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
        let input = leaves(draw.features(images, normed));
        let weight = leaf(draw.tensor([
            outputs,
            images[3] / window.groups,
            window.kernel,
            window.kernel,
        ]));
        let (ours, moments) =
            Graph::convolution_with_moments(input.clone(), weight.clone(), window);
        let expected = plain::convolution(plain::value(input.clone()), weight.clone(), window);
        let expected_moments = plain::moments(expected.clone().inner());
        assert_close(moments.mean.inner(), expected_moments.mean, &case);
        assert_close(moments.variance.inner(), expected_moments.variance, &case);
        let found = |slopes: &Slopes| {
            let mut found = gradients(&input, slopes);
            found.push(weight.grad(slopes).unwrap().reshape([-1]));
            found
        };
        assert_same([ours.values, expected], found, draw, &case);
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
        let features = leaves(draw.features(shape, true));
        let normed = draw.below(2) == 0;
        let shortcut = (draw.below(3) > 0).then(|| leaves(draw.features(shape, normed)));
        let case = format!("seed {seed}: {shape:?}, shortcut {}", shortcut.is_some());
        let rectified = draw.below(2) == 0;
        let ours = Graph::activation(features.clone(), shortcut.clone(), rectified).values;
        let expected = plain::activation(features.clone(), shortcut.clone(), rectified);
        let found = |slopes: &Slopes| {
            let all = once(&features).chain(&shortcut);
            all.flat_map(|features| gradients(features, slopes))
                .collect()
        };
        assert_same([ours, expected], found, draw, &case);
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
        assert_equal(
            mean,
            reference::global_average_backward(shape, shares.clone()),
        );

        let rows = shares.clone() * 5.0;
        let hard = Flex::hard_sigmoids(rows.clone());
        assert_close(hard, reference::hard_sigmoids(rows.clone()), &case);
        let ours = Flex::hard_sigmoids_backward(rows.clone(), shares.clone());
        let expected = reference::hard_sigmoids_backward(rows, shares.clone());
        assert_close(ours, expected, &case);

        let excited = Flex::excite(values.clone(), shares.clone());
        assert_equal(excited, reference::excite(values.clone(), shares.clone()));
        let ours = Flex::excite_backward(values.clone(), shares.clone(), gradient.clone());
        let expected = reference::excite_backward(values.clone(), shares, gradient);
        assert_close(ours.0, expected.0, &case);
        assert_close(ours.1, expected.1, &case);

        let rows = Flex::channels_first(values.clone());
        let expected: Tensor<Flex, 2> = values.clone().permute([0, 3, 1, 2]).flatten(1, 3);
        assert_equal(rows.clone(), expected);
        assert_equal(Flex::channels_last(rows, shape), values.clone());

        let beside = 1 + draw.below(40);
        let second: Tensor<Flex, 4> = draw.tensor([batch, height, width, beside]);
        let joined = Flex::side_by_side([values.clone(), second.clone()]);
        let expected = Tensor::cat(vec![values.clone(), second.clone()], 3);
        assert_equal(joined.clone(), expected);
        let [first, last] = Flex::apart(joined, channels);
        assert_equal(first, values);
        assert_equal(last, second);
    }
}

/// As burn's own autodiff computes it, which the networks' recorded results rest on.
#[test]
fn the_gradient_of_a_mean_is_that_of_burn_to_the_bit() {
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
        assert_equal(ours.clone(), burns.clone());
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
        let features = leaves(features);
        let images = plain::value(features.clone());
        let bare = images.clone().inner();
        let ours = Graph::max_pool(features.clone(), window);
        let expected = max_pool::forward(bare.clone(), window);
        assert_close(ours.clone().inner(), expected.clone(), &case);
        let gradient: Tensor<Flex, 4> = draw.tensor(expected.dims());
        let ours = slopes(ours, gradient.clone());
        let expected = slopes(images, max_pool::backward(bare, window, gradient));
        let found = [ours, expected].map(|slopes| gradients(&features, &slopes));
        for (ours, expected) in found[0].iter().zip(&found[1]) {
            assert_close(ours.clone(), expected.clone(), &case);
        }
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
    let weight = Tensor::<Flex, 2>::eye(16, &FlexDevice).reshape([16, 16, 1, 1]);
    let (output, moments) =
        Flex::convolution_with_moments(Features::plain(images), weight, Window::one(1));
    let expected = plain::moments(output.values);
    let tolerance = Tolerance::<f32>::relative(1e-2);
    let data = moments.variance.into_data();
    data.assert_approx_eq(&expected.variance.into_data(), tolerance);
}
