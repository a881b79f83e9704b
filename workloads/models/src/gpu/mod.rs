//! The operations on GPUs, by burn's CubeCL backends: CUDA, and Vulkan for tests.
//!
//! One implementation for every runtime, so that what trains on CUDA is what tests run on a
//! Vulkan device in software. Kernels of ours are where burn has none, or many: batch norms
//! with their functions, depthwise convolutions, patches. Everything else is burn's.
//!
//! All sums are over blocks of rows whose extent depends on the shape alone, and blocks are
//! added in their order: equal steps give equal bits.

mod convolution;
#[cfg(feature = "cuda")]
mod cuda;
mod depthwise;
mod launch;
mod moments;
mod norm;
mod patches;
mod product;
mod sums;
#[cfg(test)]
mod tests;
#[cfg(all(feature = "vulkan", any(test, not(feature = "cuda"))))]
mod vulkan;
mod window;

use std::panic::{UnwindSafe, catch_unwind};

use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;
use burn_cubecl::{BoolElement, CubeBackend, CubeRuntime, IntElement};

#[cfg(feature = "cuda")]
pub(crate) use cuda::{Gpu, device, nvml};
#[cfg(all(feature = "vulkan", not(feature = "cuda")))]
pub(crate) use vulkan::{Gpu, device};

use crate::ModelError;
use crate::ops::reference::passed;
use crate::ops::{
    FeatureGradients, Features, LayerGradients, LayerOps, Moments, PoolWindow, Window, max_pool,
};
use launch::{primitive, tensor};

fn lacking(reason: String, remedy: &'static str) -> ModelError {
    ModelError::NoGpu { reason, remedy }
}

/// Compiles and runs a first kernel.
fn computes<B: Backend<Device: UnwindSafe>>(
    device: &B::Device,
    remedy: &'static str,
) -> Result<(), ModelError> {
    let device = device.clone();
    let sum = catch_unwind(move || {
        let ones = Tensor::<B, 1>::ones([64], &device);
        (ones.clone() + ones).sum().try_into_data()
    });
    match sum {
        Ok(Ok(data)) if data.to_vec::<f32>().is_ok_and(|sum| sum == [128.0]) => Ok(()),
        Ok(Ok(_)) => Err(lacking("the GPU computes wrongly".into(), remedy)),
        Ok(Err(error)) => Err(lacking(format!("no kernel runs on it ({error:?})"), remedy)),
        Err(_) => Err(lacking("no kernel runs on it".into(), remedy)),
    }
}

type Backed<R, I, B> = CubeBackend<R, f32, I, B>;

fn sum<R: CubeRuntime, I: IntElement, B: BoolElement>(
    features: Features<Backed<R, I, B>>,
    shortcut: Option<Features<Backed<R, I, B>>>,
) -> Tensor<Backed<R, I, B>, 4> {
    let sum = norm::value(features);
    match shortcut {
        Some(shortcut) => sum + norm::value(shortcut),
        None => sum,
    }
}

impl<R: CubeRuntime, I: IntElement, B: BoolElement> LayerOps for Backed<R, I, B> {
    type Origin = ();

    const READS_WAIT: bool = true;

    fn convolution(
        input: Features<Self>,
        weight: Tensor<Self, 4>,
        window: Window,
    ) -> Features<Self> {
        Features::plain(convolution::forward(norm::value(input), weight, window))
    }

    fn convolution_with_moments(
        input: Features<Self>,
        weight: Tensor<Self, 4>,
        window: Window,
    ) -> (Features<Self>, Moments<Self>) {
        let output = Self::convolution(input, weight, window);
        let moments = moments::moments(primitive(output.values.clone()));
        let [mean, variance] = moments.map(tensor);
        (output, Moments { mean, variance })
    }

    fn activation(
        features: Features<Self>,
        shortcut: Option<Features<Self>>,
        rectified: bool,
    ) -> Features<Self> {
        let sum = sum(features, shortcut);
        Features::plain(if rectified { relu(sum) } else { sum })
    }

    fn max_pool(features: Features<Self>, window: PoolWindow) -> Tensor<Self, 4> {
        max_pool::forward(norm::value(features), window)
    }

    fn fully_connected(
        rows: Tensor<Self, 2>,
        weight: Tensor<Self, 2>,
        bias: Tensor<Self, 1>,
    ) -> Tensor<Self, 2> {
        product::product(rows, weight.transpose()) + bias.unsqueeze()
    }
}

impl<R: CubeRuntime, I: IntElement, B: BoolElement> LayerGradients for Backed<R, I, B> {
    fn convolution_backward(
        input: Features<Self>,
        weight: Tensor<Self, 4>,
        output_gradient: Tensor<Self, 4>,
        window: Window,
        input_wanted: bool,
    ) -> (Option<FeatureGradients<Self>>, Tensor<Self, 4>) {
        let images = norm::value(input.clone());
        let (gradient, weight) =
            convolution::backward(images, weight, output_gradient, window, input_wanted);
        let gradient = gradient.map(|gradient| norm::value_backward(input, gradient));
        (gradient, weight)
    }

    fn activation_backward(
        features: Features<Self>,
        shortcut: Option<Features<Self>>,
        rectified: bool,
        output_gradient: Tensor<Self, 4>,
    ) -> (FeatureGradients<Self>, Option<FeatureGradients<Self>>) {
        let gradient = if rectified {
            passed(output_gradient, sum(features.clone(), shortcut.clone()))
        } else {
            output_gradient
        };
        let shortcut = shortcut.map(|shortcut| norm::value_backward(shortcut, gradient.clone()));
        (norm::value_backward(features, gradient), shortcut)
    }

    fn max_pool_backward(
        features: Features<Self>,
        window: PoolWindow,
        output_gradient: Tensor<Self, 4>,
    ) -> FeatureGradients<Self> {
        let images = norm::value(features.clone());
        let gradient = max_pool::backward(images, window, output_gradient);
        norm::value_backward(features, gradient)
    }

    fn fully_connected_backward(
        rows: Tensor<Self, 2>,
        weight: Tensor<Self, 2>,
        output_gradient: Tensor<Self, 2>,
    ) -> (Tensor<Self, 2>, Tensor<Self, 2>, Tensor<Self, 1>) {
        let [_, outputs] = output_gradient.dims();
        let bias_gradient = output_gradient.clone().sum_dim(0).reshape([outputs]);
        let weight_gradient = product::over_rows(output_gradient.clone(), rows);
        (
            product::product(output_gradient, weight),
            weight_gradient,
            bias_gradient,
        )
    }
}
