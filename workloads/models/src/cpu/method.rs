//! The method by which a convolution is computed.

use std::sync::OnceLock;

use super::geometry::Geometry;
use super::input::Input;
use super::norm::{Moments, Sums};
use super::{dense, dense_images, dense_weight, depthwise, pointwise, winograd};

/// The environment variable that holds dense convolutions to plain sums: `direct`.
const METHOD_VARIABLE: &str = epochcost_environment::user::CONVOLUTION;

/// A way to compute a convolution and its gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// Each output as the sum that defines it.
    Direct,
    /// Winograd's algorithm, of fewer multiplications.
    Winograd,
    /// Every channel by itself.
    Depthwise,
}

/// Results of a convolution's backward pass.
pub(crate) struct Gradients {
    /// Gradient of the images, where it is wanted, before their norm if it has no ReLU.
    pub(crate) images: Option<Vec<f32>>,
    /// Gradient of the weight, in its shape.
    pub(crate) weight: Vec<f32>,
    /// Sums for the gradients of the images' norm.
    pub(crate) sums: Option<Sums>,
}

impl Method {
    /// The fastest of those that the environment allows.
    pub(crate) fn of(geometry: &Geometry) -> Self {
        static DIRECT: OnceLock<bool> = OnceLock::new();
        let direct = || std::env::var(METHOD_VARIABLE).is_ok_and(|method| method == "direct");
        match geometry.window.groups {
            1 if winograd::serves(geometry) && !DIRECT.get_or_init(direct) => Self::Winograd,
            1 => Self::Direct,
            _ => Self::Depthwise,
        }
    }

    /// The images convolved, and each output channel's moments; of no channels where they
    /// are not wanted.
    pub(crate) fn forward(
        self,
        input: Input<'_>,
        weight: &[f32],
        geometry: &Geometry,
        moments_wanted: bool,
    ) -> (Vec<f32>, Moments) {
        match self {
            Self::Direct => dense::forward(input, weight, geometry, moments_wanted),
            Self::Winograd => winograd::forward(input, weight, geometry, moments_wanted),
            Self::Depthwise => depthwise::forward(input, weight, geometry, moments_wanted),
        }
    }

    /// The gradients of the images, where they are wanted, and of the weight.
    pub(crate) fn backward(
        self,
        input: Input<'_>,
        weight: &[f32],
        output_gradient: &[f32],
        geometry: &Geometry,
        images_wanted: bool,
    ) -> Gradients {
        let wanted = images_wanted;
        let (weight_gradient, images) = match self {
            Self::Direct if wanted && pointwise::serves(geometry) => {
                return pointwise::gradients(input, weight, output_gradient, geometry);
            }
            Self::Direct => (
                dense_weight::gradient(input, output_gradient, geometry),
                wanted.then(|| dense_images::gradient(input, weight, output_gradient, geometry)),
            ),
            Self::Winograd => (
                winograd::weight_gradient(input, output_gradient, geometry),
                wanted.then(|| winograd::images_gradient(input, weight, output_gradient, geometry)),
            ),
            Self::Depthwise => {
                return depthwise::backward(input, weight, output_gradient, geometry, wanted);
            }
        };
        let (images, sums) = images.unzip();
        Gradients {
            images,
            weight: weight_gradient,
            sums: sums.flatten(),
        }
    }
}
