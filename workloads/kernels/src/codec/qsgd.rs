//! QSGD: stochastic quantisation of a gradient (Alistarh et al. 2017), with a
//! wire format that is shorter than the gradient, and as the P2P paper's code
//! sends it, which is not.
//!
//! An element x of a bucket with norm N becomes a level l in -s..=s: |x| / N · s
//! rounded up with the probability of its fraction, so that the expectation of
//! N · l / s is x.
//!
//! Format, little-endian: the norm of each bucket (`f32`), then the levels as
//! unsigned numbers l + s of ⌈log₂(2s + 1)⌉ bits, element after element, the
//! lowest bit first, without gaps but for the last byte.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::codec::{decode_f32, encode_f32};
use crate::error::KernelError;
use crate::hash;

/// Levels of the published code: 2⁸ − 1.
pub const PUBLISHED_LEVELS: u32 = 255;

/// Most levels: a level and its sign then take 16 bits.
pub const MOST_LEVELS: u32 = (1 << 15) - 1;

/// Norm of a bucket of QSGD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QsgdNorm {
    /// The largest magnitude, as published with the P2P paper.
    Max,
    /// The Euclidean norm, as in the QSGD paper.
    L2,
}

/// A quantiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Qsgd {
    levels: u32,
    norm: QsgdNorm,
    bucket: usize,
}

impl Qsgd {
    /// Returns a quantiser with `levels` (s) above zero and buckets of `bucket`
    /// elements; without one, the whole vector is a bucket.
    ///
    /// # Errors
    /// [`KernelError::Quantiser`] unless s is 1 to 32,767 and buckets hold
    /// something.
    pub const fn new(
        levels: u32,
        norm: QsgdNorm,
        bucket: Option<usize>,
    ) -> Result<Self, KernelError> {
        if levels == 0 || levels > MOST_LEVELS {
            return Err(KernelError::Quantiser {
                reason: "levels must be 1 to 32767",
            });
        }
        let bucket = match bucket {
            Some(0) => {
                return Err(KernelError::Quantiser {
                    reason: "a bucket must hold at least one element",
                });
            }
            Some(bucket) => bucket,
            None => usize::MAX,
        };
        Ok(Self {
            levels,
            norm,
            bucket,
        })
    }

    /// Bits of a level with its sign: ⌈log₂(2s + 1)⌉.
    #[must_use]
    pub const fn bits(&self) -> u32 {
        u32::BITS - (2 * self.levels).leading_zeros()
    }

    /// Bytes of a vector of `elements`: 4 per bucket and [`bits`](Self::bits) per element.
    #[must_use]
    pub const fn encoded_bytes(&self, elements: u64) -> u64 {
        let norms = elements.div_ceil(self.bucket as u64);
        4 * norms + (elements * self.bits() as u64).div_ceil(8)
    }

    /// Returns the message of `values`, rounded by the random numbers of
    /// `seed`.
    ///
    /// A bucket that holds a NaN or an infinity reads back as NaN, so that
    /// training that has diverged is seen to have.
    #[must_use]
    pub fn encode(&self, values: &[f32], seed: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_bytes(values.len() as u64) as usize);
        let buckets = || values.chunks(self.bucket.min(values.len().max(1)));
        let norms: Vec<f32> = buckets().map(|bucket| self.norm.of(bucket)).collect();
        bytes.extend_from_slice(&encode_f32(&norms));
        let mut index = 0_u64;
        let bits = self.bits();
        // Bits that fill no byte yet, and how many.
        let (mut pending, mut held) = (0_u64, 0);
        for (bucket, norm) in buckets().zip(norms) {
            for value in bucket {
                let level = level(*value, norm, self.levels, hash::mix(seed, index));
                index += 1;
                pending |= ((level + self.levels as i32) as u64) << held;
                held += bits;
                while held >= 8 {
                    bytes.push(pending as u8);
                    pending >>= 8;
                    held -= 8;
                }
            }
        }
        if held > 0 {
            bytes.push(pending as u8);
        }
        bytes
    }

    /// Reads a message of a vector of `elements`.
    ///
    /// # Errors
    /// [`KernelError::Quantised`] if it has another length, or a level that
    /// there is not.
    pub fn decode(&self, bytes: &[u8], elements: usize) -> Result<Vec<f32>, KernelError> {
        let malformed = |reason| KernelError::Quantised {
            reason,
            bytes: bytes.len(),
            elements,
        };
        if bytes.len() as u64 != self.encoded_bytes(elements as u64) {
            return Err(malformed("its length is that of another vector"));
        }
        let bucket = self.bucket.min(elements.max(1));
        let (norms, packed) = bytes.split_at(4 * elements.div_ceil(bucket));
        let mut packed = packed.iter();
        let bits = self.bits();
        // Bits that were read and are of the next levels, and how many.
        let (mut pending, mut held) = (0_u64, 0);
        let mut values = Vec::with_capacity(elements);
        for norm in decode_f32(norms)? {
            let scale = norm / self.levels as f32;
            for _ in 0..bucket.min(elements - values.len()) {
                while held < bits {
                    pending |= u64::from(packed.next().copied().unwrap_or(0)) << held;
                    held += 8;
                }
                let level = pending as u32 & ((1 << bits) - 1);
                pending >>= bits;
                held -= bits;
                if level > 2 * self.levels {
                    return Err(malformed("a level lies beyond the highest"));
                }
                values.push((level as i32 - self.levels as i32) as f32 * scale);
            }
        }
        Ok(values)
    }
}

impl QsgdNorm {
    fn of(self, values: &[f32]) -> f32 {
        if values.iter().any(|value| !value.is_finite()) {
            return f32::NAN;
        }
        match self {
            Self::Max => values.iter().fold(0.0, |most, value| most.max(value.abs())),
            Self::L2 => {
                let squares = values.iter().map(|value| f64::from(*value).powi(2));
                squares.sum::<f64>().sqrt() as f32
            }
        }
    }
}

/// Returns the level of `value` in -s..=s, rounded at random.
fn level(value: f32, norm: f32, levels: u32, random: u64) -> i32 {
    // Also where the norm is no number.
    if norm.is_nan() || norm <= 0.0 {
        return 0;
    }
    let position = f64::from(value.abs()) / f64::from(norm) * f64::from(levels);
    let rounded = (position + f64::from(hash::unit_f32(random))).floor();
    let magnitude = rounded.min(f64::from(levels)) as i32;
    if value < 0.0 { -magnitude } else { magnitude }
}

/// QSGD as published with the P2P paper: norm max|g|, 255 levels, and the
/// message a list of `f32`: the scale norm / s, then every signed level, so
/// that 4 (n + 1) bytes are sent for the 4n of the gradient.
#[must_use]
pub fn encode_published_qsgd(values: &[f32], seed: u64) -> Vec<u8> {
    let norm = QsgdNorm::Max.of(values);
    let mut message = Vec::with_capacity(values.len() + 1);
    message.push(norm / PUBLISHED_LEVELS as f32);
    message.extend((0..).zip(values).map(|(index, value)| {
        level(*value, norm, PUBLISHED_LEVELS, hash::mix(seed, index)) as f32
    }));
    encode_f32(&message)
}

/// Reads what [`encode_published_qsgd`] wrote.
///
/// # Errors
/// [`KernelError::Quantised`] if there is no scale,
/// [`KernelError::RaggedBytes`] if it is no list of `f32`.
pub fn decode_published_qsgd(bytes: &[u8]) -> Result<Vec<f32>, KernelError> {
    let message = decode_f32(bytes)?;
    match message.split_first() {
        Some((scale, levels)) => Ok(levels.iter().map(|level| level * scale).collect()),
        None => Err(KernelError::Quantised {
            reason: "it has no scale",
            bytes: 0,
            elements: 0,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NORMS: [QsgdNorm; 2] = [QsgdNorm::Max, QsgdNorm::L2];

    /// g = [1, −0.5, 0] with 255 levels: 255, −127 or −128, 0; scale 1/255.
    #[test]
    fn the_published_message_of_a_small_gradient() {
        let mut seen = [false; 2];
        for seed in 0..40 {
            let bytes = encode_published_qsgd(&[1.0, -0.5, 0.0], seed);
            assert_eq!(bytes.len(), 4 * (3 + 1));
            let message = decode_f32(&bytes).unwrap();
            assert_eq!(
                (message[0], message[1], message[3]),
                (1.0 / 255.0, 255.0, 0.0)
            );
            assert!(message[2] == -127.0 || message[2] == -128.0);
            seen[usize::from(message[2] == -128.0)] = true;
            let decoded = decode_published_qsgd(&bytes).unwrap();
            assert_eq!(decoded[0], 255.0 * (1.0 / 255.0));
        }
        assert_eq!(seen, [true, true]);
        assert!(decode_published_qsgd(&[]).is_err());
    }

    #[test]
    fn a_level_takes_as_many_bits_as_it_needs() {
        for (levels, bits) in [
            (1, 2),
            (3, 3),
            (7, 4),
            (127, 8),
            (128, 9),
            (255, 9),
            (MOST_LEVELS, 16),
        ] {
            let qsgd = Qsgd::new(levels, QsgdNorm::Max, None).unwrap();
            assert_eq!(qsgd.bits(), bits, "{levels} levels");
        }
        // 9 bits of 32, and one norm.
        let published = Qsgd::new(PUBLISHED_LEVELS, QsgdNorm::Max, None).unwrap();
        assert_eq!(published.encoded_bytes(61_706), 4 + 69_420);
        assert!(Qsgd::new(0, QsgdNorm::Max, None).is_err());
        assert!(Qsgd::new(MOST_LEVELS + 1, QsgdNorm::Max, None).is_err());
        assert!(Qsgd::new(1, QsgdNorm::Max, Some(0)).is_err());
    }

    /// The mean of what is read back comes to the gradient: each of 64 elements
    /// lies within five standard errors. The variance of one element is that of
    /// rounding at random, f (1 − f) (N / s)², f the fraction of its level.
    #[test]
    fn quantisation_is_unbiased() {
        const DRAWS: u64 = 4_000;
        let gradient: Vec<f32> = (0..64)
            .map(|index| hash::unit_f32(hash::mix(5, index)) - 0.5)
            .collect();
        for norm in NORMS {
            for levels in [1, 4, 127] {
                let qsgd = Qsgd::new(levels, norm, Some(16)).unwrap();
                let mut sums = [0.0_f64; 64];
                for seed in 0..DRAWS {
                    let message = qsgd.encode(&gradient, hash::mix(9, seed));
                    for (sum, value) in sums.iter_mut().zip(qsgd.decode(&message, 64).unwrap()) {
                        *sum += f64::from(value);
                    }
                }
                for (index, (sum, value)) in sums.iter().zip(&gradient).enumerate() {
                    let step = f64::from(norm.of(gradient.chunks(16).nth(index / 16).unwrap()))
                        / f64::from(levels);
                    let fraction = (f64::from(value.abs()) / step).fract();
                    let error = step * (fraction * (1.0 - fraction) / DRAWS as f64).sqrt();
                    let off = (sum / DRAWS as f64 - f64::from(*value)).abs();
                    // 2⁻²⁴ is the grain of the random numbers and of f32.
                    assert!(
                        off <= 5.0 * error + step * 1e-6,
                        "{norm:?} {levels}: {off} > {error}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_gradient_that_is_no_number_stays_none() {
        let qsgd = Qsgd::new(7, QsgdNorm::Max, Some(2)).unwrap();
        let values = [f32::NAN, 1.0, 2.0, 4.0, f32::INFINITY];
        let read = qsgd.decode(&qsgd.encode(&values, 1), 5).unwrap();
        assert!(read[0].is_nan() && read[1].is_nan() && read[4].is_nan());
        assert!(read[2].is_finite() && read[3] == 4.0);
    }

    #[test]
    fn messages_of_other_vectors_are_refused() {
        let qsgd = Qsgd::new(2, QsgdNorm::Max, None).unwrap();
        let message = qsgd.encode(&[1.0, 2.0, 3.0], 1);
        assert!(qsgd.decode(&message, 30).is_err());
        // Three bits can hold 7, and the highest level is 4.
        assert!(qsgd.decode(&[0, 0, 128, 63, 0xFF, 0xFF], 3).is_err());
    }

    proptest! {
        #[test]
        fn messages_have_the_stated_length_and_are_close(
            values in prop::collection::vec(-10.0f32..10.0, 0..200),
            levels in 1u32..2_000,
            bucket in prop::option::of(1usize..70),
            seed: u64,
        ) {
            for norm in NORMS {
                let qsgd = Qsgd::new(levels, norm, bucket).unwrap();
                let message = qsgd.encode(&values, seed);
                prop_assert_eq!(message.len() as u64, qsgd.encoded_bytes(values.len() as u64));
                let read = qsgd.decode(&message, values.len()).unwrap();
                for (read, values) in read.chunks(bucket.unwrap_or(200)).zip(values.chunks(bucket.unwrap_or(200))) {
                    let step = norm.of(values) / levels as f32;
                    for (read, value) in read.iter().zip(values) {
                        prop_assert!((read - value).abs() <= step * 1.001 + 1e-6);
                    }
                }
            }
        }
    }
}
