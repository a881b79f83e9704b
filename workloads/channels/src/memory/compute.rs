//! The arithmetic of the tensor store: kernels on bytes, sizes alone on phantoms.
//! One phantom among the sources makes the result a phantom.

use std::ops::Range;

use bytes::Bytes;
use epochcost_kernels::KernelError;
use epochcost_kernels::codec::{self, encode_f32};
use epochcost_tensor_commands::{Inputs, OperationKind, Written};
use tokio::runtime::Handle;

use crate::{ChannelError, Payload, Result};

/// Size of data below which work stays on the calling thread.
const IN_PLACE_BYTES: u64 = 256 << 10;

/// Runs `work` on `bytes` of data: on a blocking thread if it is long and there
/// is a runtime, so that the store's connections stay alive meanwhile.
pub(crate) async fn run<T: Send + 'static>(
    bytes: u64,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match Handle::try_current() {
        Ok(runtime) if bytes >= IN_PLACE_BYTES => runtime
            .spawn_blocking(work)
            .await
            .unwrap_or_else(|stopped| {
                Err(ChannelError::Refused {
                    service: "tensor store",
                    operation: "computation".into(),
                    reason: format!("it did not finish: {stopped}"),
                })
            }),
        _ => work(),
    }
}

/// Returns the elements `range` of a tensor, or `None` if it is shorter.
pub(crate) fn slice(value: &Payload, range: &Range<u64>) -> Result<Option<Payload>> {
    if range.end > elements(value)? {
        return Ok(None);
    }
    Ok(Some(match value {
        // Both fit usize: they are within bytes in memory.
        Payload::Bytes(bytes) => bytes
            .slice(4 * range.start as usize..4 * range.end as usize)
            .into(),
        Payload::Phantom { .. } | Payload::Headed { .. } => Payload::Phantom {
            bytes: 4 * (range.end - range.start),
        },
    }))
}

/// Computes the outputs of the operation `kind`: the target, and the velocity if
/// there is momentum.
pub(crate) fn operation(
    kind: OperationKind,
    inputs: &Inputs<Payload>,
) -> Result<(Payload, Option<Payload>)> {
    let Some(bytes) = inputs.view(real) else {
        let result = Payload::Phantom {
            bytes: common_size(kind, inputs)?,
        };
        let velocity = match kind {
            OperationKind::Step(step) if step.momentum != 0.0 => Some(result.clone()),
            _ => None,
        };
        return Ok((result, velocity));
    };
    let outputs = epochcost_tensor_commands::compute(kind, &bytes)?;
    let target = match outputs.target {
        Written::Vector(values) => encode_f32(&values).into(),
        Written::Source(index) => inputs.sources[index].clone(),
    };
    let velocity = outputs.velocity.map(|values| encode_f32(&values).into());
    Ok((target, velocity))
}

/// Computes the mean of JSON texts. The mean of phantoms has the length of the first.
pub(crate) fn json_mean(texts: &[Payload]) -> Result<Payload> {
    match texts.iter().map(real).collect::<Option<Vec<_>>>() {
        Some(texts) => Ok(codec::json_mean(&texts)?.into()),
        None => Ok(Payload::Phantom {
            bytes: texts.first().map_or(0, Payload::len),
        }),
    }
}

/// Returns the number of bytes that there are to compute on: none of a phantom's.
pub(crate) fn real_bytes(value: &Payload) -> u64 {
    real(value).map_or(0, |bytes| bytes.len() as u64)
}

/// Returns the bytes of a value, or `None` for a phantom.
fn real(value: &Payload) -> Option<&[u8]> {
    value.bytes().ok().map(Bytes::as_ref)
}

/// Returns the number of elements of a tensor.
pub(crate) fn elements(value: &Payload) -> Result<u64, KernelError> {
    let bytes = value.len();
    if bytes.is_multiple_of(4) {
        return Ok(bytes / 4);
    }
    Err(KernelError::RaggedBytes {
        bytes: clamped(bytes),
    })
}

/// Returns the common length of all values, bytes. Errors are those of the
/// kernels, in which a target is vector 0.
fn common_size(kind: OperationKind, inputs: &Inputs<Payload>) -> Result<u64, KernelError> {
    let operation = match kind {
        OperationKind::Accumulate => "add vectors",
        OperationKind::Mean => "average vectors",
        OperationKind::Robust(_) => "take the robust mean",
        OperationKind::Step(_) => "take an SGD step",
    };
    let (target, velocity) = (inputs.target.iter(), inputs.velocity.iter());
    let values: Vec<_> = target.chain(velocity).chain(&inputs.sources).collect();
    let first = values.first().ok_or(KernelError::NoVectors { operation })?;
    let expected = elements(first)?;
    for (position, value) in values.iter().enumerate() {
        let found = elements(value)?;
        if found != expected {
            return Err(KernelError::LengthMismatch {
                operation,
                position,
                expected: clamped(expected),
                found: clamped(found),
            });
        }
    }
    Ok(first.len())
}

fn clamped(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
