//! What the commands compute, and which values they look up in which order.

use epochcost_kernels::KernelError;
use epochcost_kernels::codec::{decode_f32, element_count};
use epochcost_kernels::optimizer::{Sgd, mean_sgd_step_bytes};
use epochcost_kernels::reduce;

use crate::{RobustMean, RobustRule, SgdStep, velocity_key};

/// Computation.
///
/// In f32, each operation rounded on its own (no fused multiply-add), with `s` the sources in order:
///
/// - mean: `a = s[0]; a += s[1]; …; a /= count` (no product with the reciprocal). `TENSOR.ACCUMULATE`:
///   `tensor + blob`.
/// - step: with momentum 0, `w -= rate · (g + decay · w)`, without the velocity. Otherwise `v =
///   momentum · v + (g + decay · w)`, then `w -= rate · v`, with `v` at `{parameters}:velocity`, at
///   first zeros.
/// - median: of an even number the midpoint of the two middle values; values ordered by IEEE 754
///   totalOrder.
/// - trimmed mean: kept values added from the smallest up, starting at 0, then divided by their number;
///   `2 · trim < count`.
/// - Krum (Blanchard et al. 2017): squared distances added in f64, the sum over the `count - faulty -
///   2` nearest others; a distance that is not a number counts as infinite; the first source wins a
///   tie; `2 · faulty + 2 < count`. The result is a copy of that source's bytes, unless sources were
///   mixed.
/// - Multi-Krum: the mean of the `kept` sources of the lowest scores, added in their order; `1 ≤ kept ≤
///   count - faulty`.
/// - geometric median, by the smoothed Weiszfeld algorithm: from `z = 0`, `iterations` times `z = Σ
///   βₖ·s[k] / Σ βₖ` with `βₖ = 1 / max(smoothing, ‖z - s[k]‖)`. Weights and sums in f64, z rounded
///   once per iteration; a source at a distance that is not finite has no weight, and it is an error if
///   all are.
/// - centred clipping: `iterations` times `v += (1/count) · Σ (s[k] - v) · min(1, radius / ‖s[k] -
///   v‖)`, from the tensor at `destination`. Sums in f64, v rounded once per iteration; a source at a
///   distance that is not finite counts as v. Iterations are 1 to 1,000; `smoothing` and `radius` are
///   positive.
/// - mixing: the mean, as above, of the `count - faulty` sources that are nearest to a source, itself
///   included, added in their order; the first win ties; `2 · faulty < count`.
/// - JSON mean: numbers parsed, added in order and divided as f64, printed as C's `%.14g`, `[a,b,c]`
///   without spaces: the output of a Lua script with `cjson`.
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

impl OperationKind {
    /// Returns what it does, as errors say it.
    #[must_use]
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::Accumulate => "add vectors",
            Self::Mean => "average vectors",
            Self::Robust(_) => "take the robust mean",
            Self::Step(_) => "take an SGD step",
        }
    }
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

    /// Returns an addition, whose value is sent with it.
    #[must_use]
    pub const fn accumulate(target: String) -> Self {
        Self::new(target, OperationKind::Accumulate, Vec::new())
    }

    /// Refuses a reduction without sources.
    ///
    /// # Errors
    /// [`KernelError::NoVectors`].
    pub fn check(&self) -> Result<(), KernelError> {
        if self.sources.is_empty() && self.kind != OperationKind::Accumulate {
            let operation = self.kind.verb();
            return Err(KernelError::NoVectors { operation });
        }
        Ok(())
    }

    /// Returns the vectors that are read or written by an operation that takes as long; momentum is
    /// read and written, too.
    #[must_use]
    pub fn passes(&self) -> usize {
        let sources = self.sources.len();
        match self.kind {
            OperationKind::Accumulate => 3,
            OperationKind::Mean => sources + 1,
            OperationKind::Robust(mean) => mean.passes(sources),
            OperationKind::Step(_) => sources + 2 + 2 * usize::from(self.velocity_key().is_some()),
        }
    }

    /// Returns the keys that the operation reads, in order.
    #[must_use]
    pub fn reads(&self) -> Vec<String> {
        let target = self.reads_target().then(|| self.target.clone());
        let rest = target.into_iter().chain(self.velocity_key());
        self.sources.iter().cloned().chain(rest).collect()
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
    /// That of [`check`](Self::check), the first one of `find`, or that of `missing` for a key that
    /// must be there and is not.
    pub fn read<V, E: From<KernelError>>(
        &self,
        sent: Option<V>,
        mut find: impl FnMut(&str) -> Result<Option<V>, E>,
        missing: impl Fn(&str) -> E,
    ) -> Result<Inputs<V>, E> {
        self.check()?;
        let mut sources = Vec::with_capacity(self.sources.len() + 1);
        sources.extend(sent);
        for key in &self.sources {
            sources.push(find(key)?.ok_or_else(|| missing(key))?);
        }
        let target = if self.reads_target() {
            find(&self.target)?
        } else {
            None
        };
        if matches!(self.kind, OperationKind::Step(_)) && target.is_none() {
            return Err(missing(&self.target));
        }
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
        element_count(value)?;
        return Ok(Written::Source(0));
    };
    let mut sum = decode_f32(base)?;
    reduce::add_assign_bytes(&mut sum, value)?;
    Ok(Written::Vector(sum))
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
    use crate::CommandError;

    #[test]
    fn sources_are_met_before_the_target_and_the_velocity() {
        let step = SgdStep {
            learning_rate: 1.0,
            momentum: 0.5,
            weight_decay: 0.0,
        };
        let sources = vec!["a".to_owned(), "b".to_owned()];
        let mut operation = Operation::new("w".into(), OperationKind::Step(step), sources);
        let missing = |key: &str| CommandError::Missing { key: key.into() };
        let mut seen = Vec::new();
        let found = operation.read(
            None,
            |key| {
                seen.push(key.to_owned());
                Ok((key != "w:velocity").then_some(()))
            },
            missing,
        );
        assert!(found.unwrap().velocity.is_none());
        assert_eq!(seen, operation.reads());
        assert_eq!(seen, ["a", "b", "w", "w:velocity"]);
        let without = |key: &str| operation.read(None, |k| Ok((k != key).then_some(())), missing);
        assert!(matches!(without("b"), Err(CommandError::Missing { key }) if key == "b"));
        assert!(matches!(without("w"), Err(CommandError::Missing { key }) if key == "w"));
        operation.sources.clear();
        let none = operation.read(None, |_| Ok(Some(())), missing);
        assert!(matches!(
            none,
            Err(CommandError::Kernel(KernelError::NoVectors { .. }))
        ));
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
