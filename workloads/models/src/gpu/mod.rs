//! The operations on GPUs, by burn's CubeCL backends: CUDA, and Vulkan for tests.
//!
//! One implementation for every runtime, so that what trains on CUDA is what tests run on a
//! Vulkan device in software. Kernels of ours are where burn has none, or many: batch norms
//! with their functions, depthwise convolutions, patches. Everything else is the default body.
//!
//! All sums are over blocks of rows whose extent depends on the shape alone, and blocks are
//! added in their order: equal steps give equal bits.

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
use burn::tensor::backend::Backend;
use burn_cubecl::{BoolElement, CubeBackend, CubeRuntime, IntElement};

#[cfg(feature = "cuda")]
pub(crate) use cuda::{Gpu, device, nvml};
#[cfg(all(feature = "vulkan", not(feature = "cuda")))]
pub(crate) use vulkan::{Gpu, device};

use crate::ModelError;
use crate::ops::{FeatureGradients, Features, LayerOps, Moments, Window};
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

impl<R: CubeRuntime, I: IntElement, B: BoolElement> LayerOps for CubeBackend<R, f32, I, B> {
    type Origin = ();

    const READS_WAIT: bool = true;

    /// 1 GiB: fewer and larger products.
    const PATCH_VALUES: usize = 1 << 28;

    fn product(left: Tensor<Self, 2>, right: Tensor<Self, 2>) -> Tensor<Self, 2> {
        product::product(left, right)
    }

    fn product_over_rows(left: Tensor<Self, 2>, right: Tensor<Self, 2>) -> Tensor<Self, 2> {
        product::over_rows(left, right)
    }

    fn patches(images: Tensor<Self, 4>, window: Window) -> Tensor<Self, 2> {
        tensor(patches::patches(primitive(images), window))
    }

    fn fold(patches: Tensor<Self, 2>, images: [usize; 4], window: Window) -> Tensor<Self, 4> {
        tensor(patches::fold(primitive(patches), images, window))
    }

    fn depthwise(
        images: Tensor<Self, 4>,
        weight: Tensor<Self, 4>,
        window: Window,
    ) -> Tensor<Self, 4> {
        tensor(depthwise::forward(
            primitive(images),
            primitive(weight),
            window,
        ))
    }

    fn depthwise_backward(
        images: Tensor<Self, 4>,
        weight: Tensor<Self, 4>,
        output_gradient: Tensor<Self, 4>,
        window: Window,
        images_wanted: bool,
    ) -> (Option<Tensor<Self, 4>>, Tensor<Self, 4>) {
        let [images, weight, gradient] = [images, weight, output_gradient].map(primitive);
        let images_gradient = images_wanted.then(|| {
            tensor(depthwise::images_gradient(
                weight.clone(),
                gradient.clone(),
                images.meta.shape().dims(),
                window,
            ))
        });
        (
            images_gradient,
            tensor(depthwise::weight_gradient(images, gradient, window)),
        )
    }

    fn value(features: Features<Self>) -> Tensor<Self, 4> {
        match features.norm {
            None => features.values,
            Some(norm) => norm::value(features.values, norm),
        }
    }

    fn value_backward(
        features: Features<Self>,
        gradient: Tensor<Self, 4>,
    ) -> FeatureGradients<Self> {
        match features.norm {
            None => FeatureGradients {
                values: gradient,
                norm: None,
            },
            Some(norm) => norm::backward(features.values, norm, gradient),
        }
    }

    fn moments(values: Tensor<Self, 4>) -> Moments<Self> {
        let [mean, variance] = moments::moments(primitive(values)).map(tensor);
        Moments { mean, variance }
    }
}
