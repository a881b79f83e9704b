//! The arithmetic of the tensor store: kernels on bytes, sizes alone on phantoms.
//! One phantom among the sources makes the result a phantom.

use std::ops::Range;

use bytes::Bytes;
use epochcost_kernels::KernelError;
use epochcost_kernels::codec::{self, encode_f32};
use epochcost_tensor_commands::{Inputs, Written};
use tokio::runtime::Handle;

use crate::tensors::{SERVICE, missing};
use crate::{ChannelError, Operation, OperationKind, Payload, Result};

/// Size of data below which work stays on the calling thread.
const IN_PLACE_BYTES: u64 = 256 << 10;

/// Runs `work` on `bytes` of data: on a blocking thread if it is long and there
/// is a runtime, so that the store's connections stay alive meanwhile.
async fn run<T: Send + 'static>(
    bytes: u64,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match Handle::try_current() {
        Ok(runtime) if bytes >= IN_PLACE_BYTES => runtime
            .spawn_blocking(work)
            .await
            .unwrap_or_else(|stopped| {
                let reason = format!("it did not finish: {stopped}");
                Err(ChannelError::refused(SERVICE, "computation", reason))
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

/// Computes what `operation` writes of what it reads: keys and values.
pub(crate) async fn written(
    operation: &Operation,
    inputs: Inputs<Payload>,
) -> Result<Vec<(String, Payload)>> {
    let kind = operation.kind;
    let bytes = inputs.all().map(real_bytes).sum();
    let (target, velocity) = run(bytes, move || outputs(kind, &inputs)).await?;
    let velocity = operation.velocity_key().zip(velocity);
    let target = (operation.target.clone(), target);
    Ok(velocity.into_iter().chain([target]).collect())
}

/// Does the same of values that were fetched from the keys that `operation` reads, in their order.
pub(crate) async fn fetched(
    operation: &Operation,
    sent: Option<Payload>,
    found: Vec<Result<Option<Payload>>>,
) -> Result<Vec<(String, Payload)>> {
    let mut found = found.into_iter();
    let next = |_: &str| found.next().unwrap_or(Ok(None));
    written(operation, operation.read(sent, next, missing)?).await
}

fn outputs(kind: OperationKind, inputs: &Inputs<Payload>) -> Result<(Payload, Option<Payload>)> {
    let Some(bytes) = inputs.view(real) else {
        let result = Payload::Phantom {
            bytes: common_size(kind, inputs)?,
        };
        return Ok((result.clone(), Some(result)));
    };
    let outputs = epochcost_tensor_commands::compute(kind, &bytes)?;
    let target = match outputs.target {
        Written::Vector(values) => encode_f32(&values).into(),
        Written::Source(index) => inputs.sources[index].clone(),
    };
    let velocity = outputs.velocity.map(|values| encode_f32(&values).into());
    Ok((target, velocity))
}

/// Returns the mean of the first `count` JSON texts of the list at `key`, which has `texts`. The mean of
/// phantoms has the length of the first.
pub(crate) async fn json_mean(key: &str, count: u64, mut texts: Vec<Payload>) -> Result<Payload> {
    if texts.is_empty() {
        return Err(missing(key));
    }
    texts.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    let bytes = texts.iter().map(Payload::len).sum();
    run(bytes, move || mean_of_texts(&texts)).await
}

fn mean_of_texts(texts: &[Payload]) -> Result<Payload> {
    match texts.iter().map(real).collect::<Option<Vec<_>>>() {
        Some(texts) => Ok(codec::json_mean(&texts)?.into()),
        None => Ok(Payload::Phantom {
            bytes: texts.first().map_or(0, Payload::len),
        }),
    }
}

/// Returns the number of bytes that there are to compute on: none of a phantom's.
fn real_bytes(value: &Payload) -> u64 {
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
    let operation = kind.verb();
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
