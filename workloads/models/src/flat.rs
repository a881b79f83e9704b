//! Modules as flat vectors, in field order.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};

use crate::ModelError;

/// The values of a tensor in row-major order.
pub(crate) fn values<B: Backend, const D: usize>(
    tensor: Tensor<B, D>,
) -> Result<Vec<f32>, ModelError> {
    tensor
        .into_data()
        .into_vec::<f32>()
        .map_err(|error| ModelError::Backend(format!("{error:?}")))
}

/// The gradient of a module's parameters as one vector of `length` values.
///
/// A parameter that the loss does not depend on has a gradient of zeros.
pub(crate) fn gradient<B: AutodiffBackend>(
    module: &impl Module<B>,
    gradients: B::Gradients,
    length: usize,
) -> Result<Vec<f32>, ModelError> {
    let mut visitor = Gradient::<B> {
        gradients,
        flat: Ok(Vec::with_capacity(length)),
    };
    module.visit(&mut visitor);
    visitor.flat
}

struct Gradient<B: AutodiffBackend> {
    gradients: B::Gradients,
    flat: Result<Vec<f32>, ModelError>,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for Gradient<B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let Ok(flat) = &mut self.flat else { return };
        let parameter = param.val();
        let Some(gradient) = parameter.grad_remove(&mut self.gradients) else {
            flat.resize(flat.len() + parameter.shape().num_elements(), 0.0);
            return;
        };
        match values(gradient) {
            Ok(tensor) => flat.extend_from_slice(&tensor),
            Err(error) => self.flat = Err(error),
        }
    }
}
