//! What the commands compute, and which values they look up in which order.

use epochcost_kernels::KernelError;
use epochcost_kernels::codec::{decode_f32, element_count};
use epochcost_kernels::optimizer::{Sgd, mean_sgd_step_bytes};
use epochcost_kernels::reduce;

use crate::{RobustMean, RobustRule, SgdStep, velocity_key};

/// Computation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OperationKind {
    /// target += value, or target = value if there is none.
    Accumulate,
    /// target = the mean of the sources.
    Mean,
    /// target = the robust mean of the sources.
    Robust(RobustMean),
    /// One step of SGD on the target with the mean of the sources.
    Step(SgdStep),
}

/// A command that computes one tensor, and perhaps its velocity, of others.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The key that is written.
    pub target: String,
    /// Computation.
    pub kind: OperationKind,
    /// The keys of the sources, in the order of their addition.
    pub sources: Vec<String>,
}

/// The values that an operation reads.
#[derive(Clone, Debug)]
pub struct Inputs<V> {
    /// The sources, in order; of an addition, the value that was sent.
    pub sources: Vec<V>,
    /// The target, if the operation reads it and it is there.
    pub target: Option<V>,
    /// The velocity, if the operation reads it and it is there.
    pub velocity: Option<V>,
}

/// Results of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outputs {
    /// The target.
    pub target: Written,
    /// The velocity, if there is momentum.
    pub velocity: Option<Vec<f32>>,
}

/// A tensor that an operation writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// New elements.
    Vector(Vec<f32>),
    /// The same bytes as this source.
    Source(usize),
}

impl Operation {
    /// Returns an operation on the tensor at `target`.
    #[must_use]
    pub const fn new(target: String, kind: OperationKind, sources: Vec<String>) -> Self {
        Self {
            target,
            kind,
            sources,
        }
    }

    /// Returns the key of the velocity, if the step keeps one.
    #[must_use]
    pub fn velocity_key(&self) -> Option<String> {
        match self.kind {
            OperationKind::Step(step) if step.momentum != 0.0 => Some(velocity_key(&self.target)),
            _ => None,
        }
    }

    /// Returns whether the new value is made of the old one.
    #[must_use]
    pub const fn reads_target(&self) -> bool {
        match self.kind {
            OperationKind::Accumulate | OperationKind::Step(_) => true,
            OperationKind::Robust(mean) => mean.has_state(),
            OperationKind::Mean => false,
        }
    }

    /// Looks up what the operation reads: sources in order, then the target,
    /// then the velocity. `sent` is the value that came with an addition.
    ///
    /// # Errors
    /// The first one of `find`, or that of `missing` for a key that must be
    /// there and is not.
    pub fn read<V, E>(
        &self,
        sent: Option<V>,
        mut find: impl FnMut(&str) -> Result<Option<V>, E>,
        missing: impl Fn(&str) -> E,
    ) -> Result<Inputs<V>, E> {
        let mut sources = Vec::with_capacity(self.sources.len() + 1);
        sources.extend(sent);
        for key in &self.sources {
            sources.push(find(key)?.ok_or_else(|| missing(key))?);
        }
        let target = match self.kind {
            OperationKind::Accumulate => find(&self.target)?,
            OperationKind::Robust(mean) if mean.has_state() => find(&self.target)?,
            OperationKind::Step(_) => {
                Some(find(&self.target)?.ok_or_else(|| missing(&self.target))?)
            }
            OperationKind::Mean | OperationKind::Robust(_) => None,
        };
        let velocity = match self.velocity_key() {
            Some(key) => find(&key)?,
            None => None,
        };
        Ok(Inputs {
            sources,
            target,
            velocity,
        })
    }
}

impl<V> Inputs<V> {
    /// Returns the same with every value seen as `view` shows it; `None` if it
    /// does not show one of them.
    pub fn view<'a, W>(&'a self, view: impl Fn(&'a V) -> Option<W>) -> Option<Inputs<W>> {
        let optional = |value: &'a Option<V>| match value {
            Some(value) => view(value).map(Some),
            None => Some(None),
        };
        Some(Inputs {
            sources: self.sources.iter().map(&view).collect::<Option<_>>()?,
            target: optional(&self.target)?,
            velocity: optional(&self.velocity)?,
        })
    }

    /// Every value, sources first.
    pub fn all(&self) -> impl Iterator<Item = &V> {
        self.sources
            .iter()
            .chain(&self.target)
            .chain(&self.velocity)
    }
}

/// Computes what `kind` writes of the bytes that it reads.
///
/// # Errors
/// [`KernelError`]: lengths that differ or are ragged, settings that do not
/// suit the number of sources.
pub fn compute(kind: OperationKind, inputs: &Inputs<&[u8]>) -> Result<Outputs, KernelError> {
    let sources = inputs.sources.as_slice();
    let target = match kind {
        OperationKind::Accumulate => accumulate(inputs)?,
        OperationKind::Mean => Written::Vector(reduce::mean_bytes(sources)?),
        OperationKind::Robust(mean) => robust(mean, inputs)?,
        OperationKind::Step(step) => return sgd(step, inputs),
    };
    Ok(Outputs {
        target,
        velocity: None,
    })
}

fn accumulate(inputs: &Inputs<&[u8]>) -> Result<Written, KernelError> {
    let value = inputs.sources.first().ok_or(KernelError::NoVectors {
        operation: "add vectors",
    })?;
    let Some(base) = inputs.target else {
        check_elements(value)?;
        return Ok(Written::Source(0));
    };
    let mut sum = decode_f32(base)?;
    reduce::add_assign_bytes(&mut sum, value)?;
    Ok(Written::Vector(sum))
}

/// Returns the number of elements of a tensor.
///
/// # Errors
/// [`KernelError::RaggedBytes`].
pub fn check_elements(bytes: &[u8]) -> Result<usize, KernelError> {
    element_count(bytes)
}

fn robust(mean: RobustMean, inputs: &Inputs<&[u8]>) -> Result<Written, KernelError> {
    let decode = |bytes: &&[u8]| decode_f32(bytes);
    let decoded: Vec<_> = inputs
        .sources
        .iter()
        .map(decode)
        .collect::<Result<_, _>>()?;
    let decoded: Vec<&[f32]> = decoded.iter().map(Vec::as_slice).collect();
    if let (None, RobustRule::Krum { faulty }) = (mean.mixed, mean.rule) {
        // A copy of the bytes that are there.
        return Ok(Written::Source(reduce::krum_select(&decoded, faulty)?));
    }
    let centre = inputs.target.as_ref().map(decode).transpose()?;
    robust_mean(mean, &decoded, centre.as_deref()).map(Written::Vector)
}

/// Returns the robust mean of `vectors`; `centre` is the state of a rule that has one.
///
/// # Errors
/// [`KernelError`]: lengths that differ, or settings that do not suit the number of
/// vectors.
pub fn robust_mean(
    mean: RobustMean,
    vectors: &[&[f32]],
    centre: Option<&[f32]>,
) -> Result<Vec<f32>, KernelError> {
    if let Some(faulty) = mean.mixed {
        let mixed = reduce::nearest_neighbour_mixing(vectors, faulty)?;
        let mixed: Vec<&[f32]> = mixed.iter().map(Vec::as_slice).collect();
        return robust_mean(mean.rule.into(), &mixed, centre);
    }
    match mean.rule {
        RobustRule::CoordinateMedian => reduce::coordinate_median(vectors),
        RobustRule::TrimmedMean { trim } => reduce::trimmed_mean(vectors, trim),
        RobustRule::Krum { faulty } => reduce::krum(vectors, faulty),
        RobustRule::MultiKrum { faulty, kept } => reduce::multi_krum(vectors, faulty, kept),
        RobustRule::GeometricMedian {
            iterations,
            smoothing,
        } => reduce::geometric_median(vectors, iterations, smoothing),
        RobustRule::CentredClipping { radius, iterations } => {
            reduce::centred_clipping(vectors, centre, radius, iterations)
        }
    }
}

/// Dividing one gradient by 1 keeps its bits, so a plain step is a fused one
/// with one source.
fn sgd(step: SgdStep, inputs: &Inputs<&[u8]>) -> Result<Outputs, KernelError> {
    let mut parameters = decode_f32(inputs.target.unwrap_or_default())?;
    let mut velocity = decode_f32(inputs.velocity.unwrap_or_default())?;
    mean_sgd_step_bytes(
        &Sgd::from(step),
        &mut parameters,
        &inputs.sources,
        &mut velocity,
    )?;
    Ok(Outputs {
        target: Written::Vector(parameters),
        velocity: (step.momentum != 0.0).then_some(velocity),
    })
}

#[cfg(test)]
mod tests {
    use epochcost_kernels::codec::encode_f32;

    use super::*;

    #[test]
    fn sources_are_met_before_the_target_and_the_velocity() {
        let step = SgdStep {
            learning_rate: 1.0,
            momentum: 0.5,
            weight_decay: 0.0,
        };
        let sources = vec!["a".to_owned(), "b".to_owned()];
        let operation = Operation::new("w".into(), OperationKind::Step(step), sources);
        let mut seen = Vec::new();
        let found = operation.read(
            None,
            |key| {
                seen.push(key.to_owned());
                Ok((key != "w:velocity").then_some(()))
            },
            str::to_owned,
        );
        assert!(found.unwrap().velocity.is_none());
        assert_eq!(seen, ["a", "b", "w", "w:velocity"]);
        let missing = operation.read(None, |key| Ok((key != "b").then_some(())), str::to_owned);
        assert_eq!(missing.unwrap_err(), "b");
    }

    #[test]
    fn krum_and_a_first_addition_keep_the_sources_bytes() {
        let bytes: Vec<_> = [0.0, 100.0, 1.0, 2.0, -50.0]
            .iter()
            .map(|x| encode_f32(&[*x]))
            .collect();
        let mut inputs = Inputs {
            sources: bytes.iter().map(Vec::as_slice).collect(),
            target: None,
            velocity: None,
        };
        let krum = OperationKind::Robust(RobustRule::Krum { faulty: 1 }.into());
        assert_eq!(compute(krum, &inputs).unwrap().target, Written::Source(2));
        inputs.sources.truncate(1);
        let first = compute(OperationKind::Accumulate, &inputs).unwrap();
        assert_eq!(first.target, Written::Source(0));
        inputs.sources = vec![&[0; 5]];
        assert!(compute(OperationKind::Accumulate, &inputs).is_err());
    }
}
