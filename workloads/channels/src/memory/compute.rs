//! The tensor store's arithmetic on payloads: kernels on bytes, sizes alone on
//! phantoms. One phantom among the sources makes the result a phantom.

use std::ops::Range;

use bytes::Bytes;
use epochcost_kernels::KernelError;
use epochcost_kernels::codec::{self, decode_f32, encode_f32};
use epochcost_kernels::optimizer::{Sgd, mean_sgd_step_bytes};
use epochcost_kernels::reduce;
use tokio::runtime::Handle;

use crate::{ChannelError, Payload, Result, RobustRule, SgdStep};

/// Work below this is done in place: handing it to another thread costs more.
const IN_PLACE_BYTES: u64 = 256 << 10;

/// Runs `work` on `bytes` of data: on a blocking thread if it is long and there
/// is a runtime, so that the store's connections stay alive meanwhile.
pub(super) async fn run<T: Send + 'static>(
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

/// `value`, if it is a tensor.
pub(super) fn checked(value: Payload) -> Result<Payload> {
    elements(&value)?;
    Ok(value)
}

/// The elements `range` of a tensor, or `None` if it does not have them all.
pub(super) fn slice(value: &Payload, range: &Range<u64>) -> Result<Option<Payload>> {
    if range.end > elements(value)? {
        return Ok(None);
    }
    Ok(Some(match value {
        // Both fit usize: they are within bytes in memory.
        Payload::Bytes(bytes) => bytes
            .slice(4 * range.start as usize..4 * range.end as usize)
            .into(),
        Payload::Phantom { .. } => Payload::Phantom {
            bytes: 4 * (range.end - range.start),
        },
    }))
}

/// The elementwise sum of two tensors.
pub(super) fn add(base: &Payload, value: &Payload) -> Result<Payload> {
    combine("add vectors", &[base.clone(), value.clone()], |vectors| {
        let mut sum = decode_f32(vectors[0])?;
        reduce::add_assign_bytes(&mut sum, vectors[1])?;
        Ok(encode_f32(&sum).into())
    })
}

/// The elementwise mean, added up in order.
pub(super) fn mean(values: &[Payload]) -> Result<Payload> {
    combine("average vectors", values, |vectors| {
        Ok(encode_f32(&reduce::mean_bytes(vectors)?).into())
    })
}

/// The robust mean by `rule`.
pub(super) fn robust(rule: RobustRule, values: &[Payload]) -> Result<Payload> {
    combine("take the robust mean", values, |vectors| {
        let decoded = vectors
            .iter()
            .map(|v| decode_f32(v))
            .collect::<Result<Vec<_>, _>>()?;
        let decoded: Vec<&[f32]> = decoded.iter().map(Vec::as_slice).collect();
        Ok(match rule {
            RobustRule::CoordinateMedian => {
                encode_f32(&reduce::coordinate_median(&decoded)?).into()
            }
            RobustRule::TrimmedMean { trim } => {
                encode_f32(&reduce::trimmed_mean(&decoded, trim)?).into()
            }
            RobustRule::Krum { faulty } => values[reduce::krum_select(&decoded, faulty)?].clone(),
        })
    })
}

/// One step of SGD with the mean of `gradients`: the new parameters, and the
/// new velocity if there is momentum. Dividing one gradient by 1 keeps its
/// bits, so a plain step is a fused one with one source.
pub(super) fn sgd(
    parameters: &Payload,
    velocity: Option<&Payload>,
    gradients: &[Payload],
    step: SgdStep,
) -> Result<(Payload, Option<Payload>)> {
    let sgd = Sgd {
        learning_rate: step.learning_rate.into(),
        momentum: step.momentum.into(),
        weight_decay: step.weight_decay.into(),
    };
    let gradient_bytes = real(gradients);
    let (Payload::Bytes(weights), Some(gradients), Ok(velocity)) = (
        parameters,
        &gradient_bytes,
        velocity.map(Payload::bytes).transpose(),
    ) else {
        let all: Vec<_> = [parameters]
            .into_iter()
            .chain(velocity)
            .chain(gradients)
            .cloned()
            .collect();
        let result = Payload::Phantom {
            bytes: common_size("take an SGD step", &all)?,
        };
        return Ok((result.clone(), (step.momentum != 0.0).then_some(result)));
    };
    let mut weights = decode_f32(weights)?;
    let mut velocity = velocity.map_or(Ok(Vec::new()), |v| decode_f32(v))?;
    mean_sgd_step_bytes(&sgd, &mut weights, gradients, &mut velocity)?;
    let velocity = (step.momentum != 0.0).then(|| encode_f32(&velocity).into());
    Ok((encode_f32(&weights).into(), velocity))
}

/// The mean of JSON texts. That of phantoms is as long as the first of them.
pub(super) fn json_mean(texts: &[Payload]) -> Result<Payload> {
    match real(texts) {
        Some(texts) => Ok(codec::json_mean(&texts)?.into()),
        None => Ok(Payload::Phantom {
            bytes: texts.first().map_or(0, Payload::len),
        }),
    }
}

fn combine(
    operation: &'static str,
    values: &[Payload],
    kernel: impl FnOnce(&[&[u8]]) -> Result<Payload, KernelError>,
) -> Result<Payload> {
    match real(values) {
        Some(bytes) => Ok(kernel(&bytes)?),
        None => Ok(Payload::Phantom {
            bytes: common_size(operation, values)?,
        }),
    }
}

/// The bytes of all values, or `None` if one of them is a phantom.
fn real(values: &[Payload]) -> Option<Vec<&[u8]>> {
    values
        .iter()
        .map(|value| value.bytes().ok().map(Bytes::as_ref))
        .collect()
}

fn elements(value: &Payload) -> Result<u64, KernelError> {
    let bytes = value.len();
    if bytes.is_multiple_of(4) {
        return Ok(bytes / 4);
    }
    Err(KernelError::RaggedBytes {
        bytes: clamped(bytes),
    })
}

/// The length in bytes that all values share, by the kernels' own rules.
fn common_size(operation: &'static str, values: &[Payload]) -> Result<u64, KernelError> {
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
