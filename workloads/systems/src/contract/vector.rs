use std::ops::Range;

use epochcost_channels::{Payload, RobustMean, robust_mean};
use epochcost_kernels::{codec, reduce};

use crate::contract::arithmetic;
use crate::{Result, SystemError};

/// A flat f32 vector (parameters, a gradient, batch-norm statistics), or in a
/// simulation without compute only its length.
#[derive(Clone, Debug, PartialEq)]
pub enum Vector {
    /// The elements.
    Real(Vec<f32>),
    /// Number of elements that there would be.
    Phantom {
        /// Elements.
        len: usize,
    },
}

impl Vector {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Real(values) => values.len(),
            Self::Phantom { len } => *len,
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements, if there are any to see.
    pub fn real(&self) -> Option<&[f32]> {
        match self {
            Self::Real(values) => Some(values),
            Self::Phantom { .. } => None,
        }
    }

    /// The elements for in-place work, if there are any to see.
    pub fn real_mut(&mut self) -> Option<&mut [f32]> {
        match self {
            Self::Real(values) => Some(values),
            Self::Phantom { .. } => None,
        }
    }

    /// Little-endian f32 bytes, 4 per element.
    pub fn encode(&self) -> Payload {
        arithmetic::note(2, self.len());
        match self {
            Self::Real(values) => codec::encode_f32(values).into(),
            Self::Phantom { len } => Payload::Phantom {
                bytes: 4 * *len as u64,
            },
        }
    }

    /// The inverse of [`encode`](Self::encode).
    ///
    /// # Errors
    /// When the length is no multiple of 4.
    pub fn decode(payload: &Payload) -> Result<Self> {
        arithmetic::note(2, (payload.len() / 4) as usize);
        match payload {
            Payload::Bytes(bytes) => Ok(Self::Real(codec::decode_f32(bytes)?)),
            Payload::Phantom { .. } | Payload::Headed { .. } => Ok(Self::Phantom {
                len: (payload.len() / 4) as usize,
            }),
        }
    }

    /// The elements `range`, copied.
    ///
    /// # Errors
    /// When the range is out of bounds.
    pub fn slice(&self, range: Range<usize>) -> Result<Self> {
        match self {
            Self::Real(values) => match values.get(range.clone()) {
                Some(values) => Ok(Self::Real(values.to_vec())),
                None => Err(SystemError::malformed(
                    format!("a vector of {} elements", values.len()),
                    format!("elements {range:?} were asked for"),
                )),
            },
            Self::Phantom { .. } => Ok(Self::Phantom { len: range.len() }),
        }
    }

    /// The elementwise sum, added in the order given.
    ///
    /// # Errors
    /// When lengths differ or there is nothing to add.
    pub fn sum(vectors: &[Self]) -> Result<Self> {
        Self::reduce(vectors, reduce::sum)
    }

    /// The elementwise mean, added in the order given, then divided.
    ///
    /// # Errors
    /// When lengths differ or there is nothing to average.
    pub fn mean(vectors: &[Self]) -> Result<Self> {
        Self::reduce(vectors, reduce::mean)
    }

    fn reduce(
        vectors: &[Self],
        reduce: impl Fn(&[&[f32]]) -> Result<Vec<f32>, epochcost_kernels::KernelError>,
    ) -> Result<Self> {
        let len = vectors.first().map_or(0, Self::len);
        arithmetic::note(vectors.len() + 1, len);
        Ok(match Self::all_real(vectors) {
            Some(real) => Self::Real(reduce(&real)?),
            None => Self::Phantom { len },
        })
    }

    fn all_real(vectors: &[Self]) -> Option<Vec<&[f32]>> {
        vectors.iter().map(Self::real).collect()
    }

    /// The robust mean; `centre` is the state of a rule that has one.
    ///
    /// # Errors
    /// When lengths differ, or the rule's settings do not suit the number of vectors.
    pub fn robust_mean(mean: RobustMean, vectors: &[Self], centre: Option<&Self>) -> Result<Self> {
        let len = vectors.first().map_or(0, Self::len);
        arithmetic::note(mean.passes(vectors.len()), len);
        let centre = centre.and_then(Self::real);
        Ok(match Self::all_real(vectors) {
            Some(real) => Self::Real(robust_mean(mean, &real, centre)?),
            None => Self::Phantom { len },
        })
    }

    /// Whether every element is a finite number; also where there are none to see.
    pub fn is_finite(&self) -> bool {
        self.real()
            .is_none_or(|values| values.iter().all(|value| value.is_finite()))
    }

    /// Adds `other`, element by element.
    ///
    /// # Errors
    /// When lengths differ.
    pub fn add(&mut self, other: &Self) -> Result<()> {
        arithmetic::note(3, self.len());
        if let (Self::Real(sum), Self::Real(other)) = (self, other) {
            reduce::add_assign(sum, other)?;
        }
        Ok(())
    }

    /// Replaces it by β·`before` + (1 − β)·itself, element by element: momentum. Nothing
    /// before counts as zeros.
    ///
    /// # Errors
    /// When lengths differ.
    pub fn blend(&mut self, before: Option<&Self>, beta: f32) -> Result<()> {
        arithmetic::note(3, self.len());
        if let Some(before) = before.filter(|before| before.len() != self.len()) {
            return Err(SystemError::malformed(
                format!("a momentum of {} elements", before.len()),
                format!("{} are needed", self.len()),
            ));
        }
        if let Self::Real(values) = self {
            let before = before.and_then(Self::real);
            for (index, value) in values.iter_mut().enumerate() {
                let kept = before.map_or(0.0, |before| before[index]);
                *value = beta * kept + (1.0 - beta) * *value;
            }
        }
        Ok(())
    }

    /// The parts one after another.
    pub fn concat(parts: &[Self]) -> Self {
        let len = parts.iter().map(Self::len).sum();
        arithmetic::note(2, len);
        match Self::all_real(parts) {
            Some(parts) => Self::Real(parts.concat()),
            None => Self::Phantom { len },
        }
    }

    /// Every element multiplied by `factor`.
    pub(crate) fn multiply(&mut self, factor: f32) {
        arithmetic::note(2, self.len());
        if let Self::Real(values) = self {
            values.iter_mut().for_each(|value| *value *= factor);
        }
    }

    /// Every element divided by `divisor`.
    pub fn divide(&mut self, divisor: f32) {
        arithmetic::note(2, self.len());
        if let Self::Real(values) = self {
            values.iter_mut().for_each(|value| *value /= divisor);
        }
    }

    /// xxh3 of the little-endian bytes, in hexadecimal; equal digests mean
    /// bit-identical replicas.
    pub fn digest(&self) -> Option<String> {
        let values = self.real()?;
        let mut hash = xxhash_rust::xxh3::Xxh3::new();
        for block in values.chunks(16 * 1024) {
            hash.update(&codec::encode_f32(block));
        }
        Some(format!("{:016x}", hash.digest()))
    }
}
