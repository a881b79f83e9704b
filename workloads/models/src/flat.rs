//! Modules as flat vectors, in field order, and tensors read to the host.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::mpsc::Sender;
use std::task::{Context, Poll, Waker};

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::backend::{AutodiffBackend, Backend, ExecutionError};
use burn::tensor::{Tensor, TensorData, Transaction, read_sync};

use crate::ModelError;
use crate::ops::{GradientTap, LayerOps, Taken};

/// A tensor of values in row-major order, on a device.
///
/// They are sent as one row: CUDA's runtime pads rows and copies each on its own, and the rows of
/// a 1×1 kernel are single values.
pub(crate) fn sent<B: Backend, const D: usize>(
    values: Vec<f32>,
    shape: [usize; D],
    device: &B::Device,
) -> Tensor<B, D> {
    let length = values.len();
    Tensor::<B, 1>::from_data(TensorData::new(values, [length]), device).reshape(shape)
}

/// A tensor as one row, to be read as it is [`sent`].
fn row<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Tensor<B, 1> {
    let length = tensor.shape().num_elements();
    tensor.reshape([length])
}

/// The values of a tensor in row-major order.
pub(crate) fn values<B: LayerOps, const D: usize>(
    tensor: Tensor<B, D>,
) -> Result<Vec<f32>, ModelError> {
    of(row(tensor).into_data())
}

fn of(data: TensorData) -> Result<Vec<f32>, ModelError> {
    data.into_vec::<f32>().map_err(unusable)
}

fn unusable(error: impl Debug) -> ModelError {
    ModelError::Backend(format!("{error:?}"))
}

/// A tensor's values, or what will give them.
pub(crate) enum Reading {
    Read(Result<Vec<f32>, ModelError>),
    /// Asked for behind everything that the device has been asked for before.
    Awaited(Pin<Box<dyn Future<Output = Result<TensorData, ExecutionError>> + Send>>),
}

impl Reading {
    /// Asks for a tensor's values; waits for nothing that the device has not computed yet.
    pub(crate) fn begin<B: LayerOps, const D: usize>(tensor: Tensor<B, D>) -> Self {
        let mut reading: Pin<Box<dyn Future<Output = _> + Send>> =
            Box::pin(row(tensor).into_data_async());
        // The first poll asks; a device that has the values at once gives them.
        match reading
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(data) => Self::Read(read(data)),
            Poll::Pending => Self::Awaited(reading),
        }
    }

    /// The values, on any thread.
    pub(crate) fn wait(self) -> Result<Vec<f32>, ModelError> {
        match self {
            Self::Read(values) => values,
            Self::Awaited(reading) => read(read_sync(reading)),
        }
    }
}

fn read(data: Result<TensorData, ExecutionError>) -> Result<Vec<f32>, ModelError> {
    of(data.map_err(unusable)?)
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
        self.slots.push(if !B::READS_WAIT {
            Slot::Read(values(tensor)?)
        } else {
            let awaited = std::mem::take(&mut self.awaited);
            self.awaited = awaited.register(row(tensor));
            Slot::Awaited
        });
        Ok(())
    }

    /// Everything pushed, in its order.
    pub(crate) fn finish(self) -> Result<impl Iterator<Item = Vec<f32>>, ModelError> {
        let data = if !B::READS_WAIT {
            vec![]
        } else {
            self.awaited.try_execute().map_err(unusable)?
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
    for (length, gradient) in rows_of(module, gradients) {
        match gradient {
            None => reads.slots.push(Slot::Zeros(length)),
            Some(gradient) => reads.push(gradient)?,
        }
    }
    Ok(())
}

/// Length of a parameter, and its gradient as one row; none where the loss does not depend on it.
type Row<B> = (usize, Option<Tensor<B, 1>>);

/// Returns the gradients of a module's parameters.
fn rows_of<B: AutodiffBackend>(
    module: &impl Module<B>,
    gradients: B::Gradients,
) -> Vec<Row<B::InnerBackend>> {
    let mut visitor = Gradients::<B> {
        gradients,
        rows: vec![],
    };
    module.visit(&mut visitor);
    visitor.rows
}

struct Gradients<B: AutodiffBackend> {
    gradients: B::Gradients,
    rows: Vec<Row<B::InnerBackend>>,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for Gradients<B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let parameter = param.val();
        let gradient = parameter.grad_remove(&mut self.gradients);
        self.rows
            .push((parameter.shape().num_elements(), gradient.map(row)));
    }
}

/// Taps the gradients of a module's parameters, which have positions in field order, and
/// returns the length of each.
pub(crate) fn tap_gradients<B: LayerOps>(module: &impl Module<B>) -> Vec<usize> {
    let mut visitor = TappedParameters { lengths: vec![] };
    module.visit(&mut visitor);
    visitor.lengths
}

struct TappedParameters {
    lengths: Vec<usize>,
}

impl<B: LayerOps> ModuleVisitor<B> for TappedParameters {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let parameter = param.val();
        let position = self.lengths.len();
        self.lengths.push(parameter.shape().num_elements());
        B::tap_gradient(parameter, position);
    }
}

/// Sends the gradients of a module's parameters that the tap did not take.
pub(crate) fn send_remaining<B>(
    module: &impl Module<B>,
    gradients: B::Gradients,
    tap: &GradientTap,
    send: &Sender<Taken>,
) -> Result<(), ModelError>
where
    B: AutodiffBackend,
    B::InnerBackend: LayerOps,
{
    let remaining = tap.remaining();
    for (position, (length, gradient)) in rows_of(module, gradients).into_iter().enumerate() {
        let reading = match (gradient, remaining.contains(&position)) {
            (Some(gradient), true) => Reading::begin(gradient),
            (None, true) => Reading::Read(Ok(vec![0.0; length])),
            (None, false) => continue,
            (Some(_), false) => {
                return Err(ModelError::Backend(format!(
                    "parameter {position} has a gradient besides the one that was taken"
                )));
            }
        };
        // A receiver that is gone has failed, and reports its own error.
        let _ = send.send((position, reading));
    }
    Ok(())
}

/// Parts as one vector of `length` values; each is freed when it has been copied.
pub(crate) fn joined(parts: impl Iterator<Item = Vec<f32>>, length: usize) -> Vec<f32> {
    let mut flat = Vec::with_capacity(length);
    for part in parts {
        flat.extend_from_slice(&part);
    }
    flat
}
