//! Modules as flat vectors, in field order, and tensors read to the host.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::backend::AutodiffBackend;
use burn::tensor::{Tensor, TensorData, Transaction};

use crate::ModelError;
use crate::ops::LayerOps;

/// The values of a tensor in row-major order.
pub(crate) fn values<B: LayerOps, const D: usize>(
    tensor: Tensor<B, D>,
) -> Result<Vec<f32>, ModelError> {
    of(tensor.into_data())
}

fn of(data: TensorData) -> Result<Vec<f32>, ModelError> {
    data.into_vec::<f32>()
        .map_err(|error| ModelError::Backend(format!("{error:?}")))
}

/// Tensors to be read, in order: each at once where the host holds it already, all of them in
/// one wait at the end where reading waits for the device ([`LayerOps::READS_WAIT`]).
pub(crate) struct Reads<B: LayerOps> {
    slots: Vec<Slot>,
    awaited: Transaction<B>,
}

enum Slot {
    Read(Vec<f32>),
    Awaited,
    Zeros(usize),
}

impl<B: LayerOps> Reads<B> {
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![],
            awaited: Transaction::default(),
        }
    }

    pub(crate) fn push<const D: usize>(&mut self, tensor: Tensor<B, D>) -> Result<(), ModelError> {
        self.slots.push(match B::READS_WAIT {
            false => Slot::Read(values(tensor)?),
            true => {
                let awaited = std::mem::take(&mut self.awaited);
                self.awaited = awaited.register(tensor);
                Slot::Awaited
            }
        });
        Ok(())
    }

    /// Everything pushed, in its order.
    pub(crate) fn finish(self) -> Result<impl Iterator<Item = Vec<f32>>, ModelError> {
        let data = match B::READS_WAIT {
            false => vec![],
            true => self
                .awaited
                .try_execute()
                .map_err(|error| ModelError::Backend(format!("{error:?}")))?,
        };
        let awaited: Result<Vec<_>, _> = data.into_iter().map(of).collect();
        let mut awaited = awaited?.into_iter();
        Ok(self.slots.into_iter().map(move |slot| match slot {
            Slot::Read(values) => values,
            Slot::Awaited => awaited.next().unwrap_or_default(),
            Slot::Zeros(length) => vec![0.0; length],
        }))
    }
}

/// Adds the gradients of a module's parameters.
///
/// A parameter that the loss does not depend on has a gradient of zeros.
pub(crate) fn push_gradients<B>(
    module: &impl Module<B>,
    gradients: B::Gradients,
    reads: &mut Reads<B::InnerBackend>,
) -> Result<(), ModelError>
where
    B: AutodiffBackend,
    B::InnerBackend: LayerOps,
{
    let mut visitor = Gradients::<B> {
        gradients,
        reads,
        failed: Ok(()),
    };
    module.visit(&mut visitor);
    visitor.failed
}

struct Gradients<'a, B: AutodiffBackend>
where
    B::InnerBackend: LayerOps,
{
    gradients: B::Gradients,
    reads: &'a mut Reads<B::InnerBackend>,
    failed: Result<(), ModelError>,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for Gradients<'_, B>
where
    B::InnerBackend: LayerOps,
{
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let parameter = param.val();
        match parameter.grad_remove(&mut self.gradients) {
            None => {
                let length = parameter.shape().num_elements();
                self.reads.slots.push(Slot::Zeros(length));
            }
            Some(gradient) => {
                if let Err(error) = self.reads.push(gradient) {
                    self.failed = Err(error);
                }
            }
        }
    }
}

/// Parts as one vector of `length` values; each is freed when it has been copied.
pub(crate) fn joined(parts: impl Iterator<Item = Vec<f32>>, length: usize) -> Vec<f32> {
    let mut flat = Vec::with_capacity(length);
    for part in parts {
        flat.extend_from_slice(&part);
    }
    flat
}
