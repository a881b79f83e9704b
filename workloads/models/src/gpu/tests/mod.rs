//! The GPU's operations against the CPU's kernels, over random sizes: on a Vulkan device with the
//! feature `vulkan`, on an NVIDIA GPU without it.

use burn::tensor::Device;
use burn_flex::{Flex, FlexDevice};

use crate::ops::tests::{Draw, sizes};
use crate::ops::*;

#[cfg(not(feature = "vulkan"))]
use super::cuda as tested;
#[cfg(feature = "vulkan")]
use super::vulkan as tested;
use super::*;
use tested::Gpu;

mod launches;
mod products;
mod steps;

fn device() -> Device<Gpu> {
    tested::device().unwrap()
}

/// Returns a CPU's tensor on the GPU.
fn there<const D: usize>(tensor: &Tensor<Flex, D>) -> Tensor<Gpu, D> {
    Tensor::from_data(tensor.to_data(), &device())
}

fn features_there(features: &Features<Flex>) -> Features<Gpu> {
    let norm = features.norm.as_ref().map(|norm| Norm {
        scale: norm.scale.as_ref().map(|scale| Scale {
            weight: there(&scale.weight),
            moments: Moments {
                mean: there(&scale.moments.mean),
                variance: there(&scale.moments.variance),
            },
            epsilon: scale.epsilon,
        }),
        bias: there(&norm.bias),
        then: norm.then,
    });
    Features {
        values: there(&features.values),
        norm,
        origin: None,
    }
}

/// Asserts that two tensors differ by no more than two orders of summation; see
/// `crate::ops::tests`.
fn assert_close<const D: usize>(ours: Tensor<Gpu, D>, expected: Tensor<Flex, D>, case: &str) {
    assert_eq!(ours.dims(), expected.dims(), "{case}");
    let ours = Tensor::<Flex, D>::from_data(ours.into_data(), &FlexDevice);
    crate::ops::tests::assert_close(ours, expected, case);
}

fn assert_features_close(
    ours: FeatureGradients<Gpu>,
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

#[test]
fn convolutions_and_their_gradients() {
    for seed in 0..30 {
        let draw = &mut Draw::new(seed);
        let (window, images, outputs) = sizes(draw);
        let normed = seed % 2 == 0;
        let case = format!("seed {seed}: {window:?} of {images:?} to {outputs}, norm {normed}");
        let input = draw.features(images, normed);
        let kernel = window.kernel;
        let weight: Tensor<Flex, 4> =
            draw.tensor([outputs, images[3] / window.groups, kernel, kernel]);
        let (expected, moments) =
            Flex::convolution_with_moments(input.clone(), weight.clone(), window);
        let (ours, our_moments) =
            Gpu::convolution_with_moments(features_there(&input), there(&weight), window);
        let gradient: Tensor<Flex, 4> = draw.tensor(expected.values.dims());
        assert_close(ours.values, expected.values, &case);
        assert_close(our_moments.mean, moments.mean, &case);
        assert_close(our_moments.variance, moments.variance, &case);
        let (ours, our_weight) = Gpu::convolution_backward(
            features_there(&input),
            there(&weight),
            there(&gradient),
            window,
            true,
        );
        let (expected, weight) = Flex::convolution_backward(input, weight, gradient, window, true);
        assert_close(our_weight, weight, &case);
        assert_features_close(ours.unwrap(), expected.unwrap(), &case);
    }
}

#[test]
fn activations_and_their_gradients() {
    for seed in 0..20 {
        let draw = &mut Draw::new(seed);
        let side = 1 + draw.below(9);
        let batch = 1 + draw.below(40);
        let shape = [batch, side, side, draw.one_of(&[1, 3, 16, 24, 64])];
        let features = draw.features(shape, true);
        let normed = draw.below(2) == 0;
        let shortcut = (draw.below(3) > 0).then(|| draw.features(shape, normed));
        let rectified = draw.below(2) == 0;
        let case = format!("seed {seed}: {shape:?}, shortcut {}", shortcut.is_some());
        let gradient: Tensor<Flex, 4> = draw.tensor(shape);
        let there_too = shortcut.as_ref().map(features_there);
        let ours = Gpu::activation(features_there(&features), there_too.clone(), rectified);
        let expected = Flex::activation(features.clone(), shortcut.clone(), rectified);
        assert_close(ours.values, expected.values, &case);
        let (ours, our_shortcut) = Gpu::activation_backward(
            features_there(&features),
            there_too,
            rectified,
            there(&gradient),
        );
        let (expected, expected_shortcut) =
            Flex::activation_backward(features, shortcut, rectified, gradient);
        assert_features_close(ours, expected, &case);
        assert_eq!(our_shortcut.is_some(), expected_shortcut.is_some());
        if let (Some(ours), Some(expected)) = (our_shortcut, expected_shortcut) {
            assert_features_close(ours, expected, &case);
        }
    }
}

/// More rows than one join takes, about a mean far from 0.
#[test]
fn moments_of_many_rows_keep_their_digits() {
    let draw = &mut Draw::new(7);
    let values: Tensor<Flex, 4> = draw.tensor([9, 64, 64, 3]) + 50.0;
    let moments = moments::moments(primitive(there(&values)));
    let [mean, variance] = moments.map(|moments| {
        let moments: Tensor<Gpu, 1> = tensor(moments);
        moments.into_data()
    });
    let values: Vec<f32> = values.into_data().into_vec().unwrap();
    for channel in 0..3 {
        let own = || {
            values
                .iter()
                .skip(channel)
                .step_by(3)
                .map(|&value| f64::from(value))
        };
        let count = own().count() as f64;
        let expected = own().sum::<f64>() / count;
        let squares = own().map(|value| (value - expected).powi(2)).sum::<f64>() / count;
        let found = f64::from(mean.as_slice::<f32>().unwrap()[channel]);
        assert!((found / expected - 1.0).abs() < 1e-6, "{found} {expected}");
        let found = f64::from(variance.as_slice::<f32>().unwrap()[channel]);
        assert!((found / squares - 1.0).abs() < 1e-5, "{found} {squares}");
    }
}
